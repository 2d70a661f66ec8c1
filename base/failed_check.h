// SPDX-License-Identifier: BSD-3-Clause
// The CHECK that failed (base/check.h), for the report of a crash.
#pragma once

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
