// SPDX-License-Identifier: BSD-3-Clause
// The CHECK that failed (base/check.h), for the report of a crash.
#pragma once

namespace farcached {

// Literals; what is null: none did.
struct FailedCheck {
    const char* what = nullptr;
    const char* file = nullptr;
    int line = 0;
};
// Of this thread; for a handler of signals.
const FailedCheck& failed_check();
// From now on a handler of SIGABRT says it, and panic() itself nothing.
void handler_says_failed_checks();

}  // namespace farcached
