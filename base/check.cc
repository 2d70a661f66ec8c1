// SPDX-License-Identifier: BSD-3-Clause
#include "base/check.h"

#include <atomic>

namespace farcached {

namespace {

// Thread-local: a signal handler gets no argument of ours.
thread_local FailedCheck failed;
std::atomic<bool> said_by_handler{false};

}  // namespace

void panic(const char* what, const char* file, int line) {
    failed = {what, file, line};
    if (!said_by_handler.load()) {
        std::fprintf(stderr, "farcached: internal error at %s:%d: %s\n", file, line, what);
        std::fflush(stderr);
    }
    std::abort();
}

const FailedCheck& failed_check() { return failed; }

void handler_says_failed_checks() { said_by_handler.store(true); }

}  // namespace farcached
