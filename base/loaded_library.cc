// SPDX-License-Identifier: BSD-3-Clause
#include "base/loaded_library.h"

#include <dlfcn.h>

namespace farcached {

LoadedLibrary::LoadedLibrary(const char* name) : handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) error_ = dlerror();
}

void* LoadedLibrary::look_up(const char* name) {
    if (handle_ == nullptr) return nullptr;
    void* const found = dlsym(handle_, name);
    if (found == nullptr && error_.empty()) error_ = dlerror();
    return found;
}

}  // namespace farcached
