// SPDX-License-Identifier: BSD-3-Clause
// Crash reports: on a fatal signal, the handler writes a report to stderr; then the signal takes effect, usually with a
// core dump. A failed CHECK ends by SIGABRT, so it is reported in the same way.
//
// A report has a line for the CHECK that failed, if any, the signal with its sender or address, the program, and the
// thread. Then follow the thread's last events (base/recorder.h) with their ages, and the stack as offsets in the
// program of that build. The last line is the current connection with its unread bytes. Their contents are shown only
// on demand, since they may hold a key and a value.
//
// Owner: main sets it up; any thread may fail.
// Z1  The handler calls only functions that are safe in a handler. report_crashes() does all work that needs memory.
// Z2  If the report itself fails, the signal still takes effect. If two threads fail at once, one reports and the other
//     waits for the end of the process.
// Z3  A slow reader of stderr does not block the report: after one second without progress, the rest is discarded.
#pragma once

#include <string_view>

namespace farcached::process {

// Handles SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT from now on. program: with its version; copied. show_request:
// show the first of the unread bytes. Call once. With a sanitizer, which has its own reports, only SIGABRT is reported.
void report_crashes(std::string_view program, bool show_request);

}  // namespace farcached::process
