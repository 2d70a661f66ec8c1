// SPDX-License-Identifier: BSD-3-Clause
#include "base/check.h"

namespace farcached {

void panic(const char* what, const char* file, int line) {
    std::fprintf(stderr, "farcached: internal error at %s:%d: %s\n", file, line, what);
    std::fflush(stderr);
    std::abort();
}

}  // namespace farcached
