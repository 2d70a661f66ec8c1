// SPDX-License-Identifier: BSD-3-Clause
// The first interrupt ends a long measurement with its partial results; a second one ends it at once.
#pragma once

#include <atomic>
#include <csignal>

namespace farcached::bench {

inline std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);  // a signal handler stores it

inline void catch_interrupts() {
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted.store(true); };
    action.sa_flags = int(SA_RESETHAND);
    for (const int number : {SIGINT, SIGTERM}) sigaction(number, &action, nullptr);
}

}  // namespace farcached::bench
