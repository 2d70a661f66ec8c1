// SPDX-License-Identifier: BSD-3-Clause
// LoadedLibrary: a shared library that is loaded when it is first needed, so that who never needs it spares its memory, and that of
// all that it needs in its turn. It stays loaded: nothing of it is ever called behind its end.
#pragma once

#include <string>

namespace farcached {

class LoadedLibrary {
  public:
    // name: with the version of its interface, "librdmacm.so.1".
    explicit LoadedLibrary(const char* name);
    // Why it, or a function that was looked for, is not there; empty: all is.
    const std::string& error() const { return error_; }
    // Sets `function` to that of this name, of the library or of one that it needs, or to nullptr.
    template <class Function>
    void find(const char* name, Function*& function) {
        function = reinterpret_cast<Function*>(look_up(name));
    }

  private:
    void* look_up(const char* name);

    void* handle_;
    std::string error_;
};

}  // namespace farcached
