// SPDX-License-Identifier: BSD-3-Clause
// LoadedLibrary: a shared library, loaded on first use. A process that never uses it saves its memory and that of its
// dependencies. It stays loaded for the life of the process.
//
// Owner: the code that calls the library, as a static object. Threads: one makes it and finds the functions; any calls these.
#pragma once

#include <string>

namespace farcached {

class LoadedLibrary {
  public:
    // name: with the version of its interface, "librdmacm.so.1".
    explicit LoadedLibrary(const char* name);
    // Why the library, or a function of find(), is missing; empty: none is missing.
    const std::string& error() const { return error_; }
    // Sets `function` to the one of this name, from the library or its dependencies, or to nullptr.
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
