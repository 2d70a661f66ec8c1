// SPDX-License-Identifier: BSD-3-Clause
// CHECK: for our own bugs, always on. Errors of clients, peers and the system are a Result or a status, never this.
//
// Threads: any. Each has its own FailedCheck, since the handler of its SIGABRT reads it.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace farcached {

// Prints the place and the condition to stderr, then aborts. Never returns.
[[noreturn]] void panic(const char* what, const char* file, int line);

}  // namespace farcached

// One condition each: `CHECK(a); CHECK(b);`, never `CHECK(a && b)`.
#define CHECK(condition)                                                \
    do {                                                                \
        if (!(condition)) [[unlikely]]                                  \
            ::farcached::panic(#condition, __FILE__, __LINE__);         \
    } while (0)

// The CHECK that failed, for the report of a crash.
namespace farcached {

// String literals; null: no CHECK has failed.
struct FailedCheck {
    const char* what = nullptr;
    const char* file = nullptr;
    int line = 0;
};
// That of this thread; for a signal handler.
const FailedCheck& failed_check();
// From now on a handler of SIGABRT reports it, and panic() prints nothing.
void handler_says_failed_checks();

}  // namespace farcached
