// SPDX-License-Identifier: BSD-3-Clause
// libhashkit, loaded with the first Placement, so that a daemon without nodes loads neither it nor libcrypto.
#pragma once

#include <libhashkit/hashkit.h>

#include <string>

#include "base/loaded_library.h"

namespace farcached::proxy {

struct HashkitLibrary {
    decltype(&libhashkit_digest) digest;
    decltype(&libhashkit_has_algorithm) has_algorithm;
    decltype(&libhashkit_md5_signature) md5_signature;

    HashkitLibrary() : library_("libhashkit.so.2") {
        library_.find("libhashkit_digest", digest);
        library_.find("libhashkit_has_algorithm", has_algorithm);
        library_.find("libhashkit_md5_signature", md5_signature);
    }
    // Why the functions cannot be called; empty if they can.
    const std::string& error() const { return library_.error(); }

  private:
    LoadedLibrary library_;
};

inline const HashkitLibrary& hashkit() {
    static const HashkitLibrary library;
    return library;
}

}  // namespace farcached::proxy
