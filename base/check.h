// SPDX-License-Identifier: BSD-3-Clause
// CHECK: for our own bugs, always on. What the world may do wrong is a Result or a status, never this.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace farcached {

// Prints where and what to stderr, then aborts. Never returns.
[[noreturn]] void panic(const char* what, const char* file, int line);

}  // namespace farcached

// One condition each: `CHECK(a); CHECK(b);`, never `CHECK(a && b)`.
#define CHECK(condition)                                                \
    do {                                                                \
        if (!(condition)) [[unlikely]]                                  \
            ::farcached::panic(#condition, __FILE__, __LINE__);         \
    } while (0)
