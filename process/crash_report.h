// SPDX-License-Identifier: BSD-3-Clause
// The last words of a process that ends by a bug: what a signal's handler writes to stderr before the signal takes its
// course, which is to dump core. A CHECK that fails ends by SIGABRT, so it is reported in the same way.
//
// One report has, a line each: the CHECK that failed, if one did; the signal, and who sent it or which address it is about;
// program, version and build;
// process and thread; the thread's last events (base/recorder.h), each with how long ago it was; where it was, as offsets in the
// program of that build; and what was at hand.
//
// Z1  The handler calls only what may be called in a handler. What needs memory is done before, by report_crashes().
// Z2  Should the report itself fail, the signal takes its course all the same. Of two threads that fail at once one reports,
//     and the other waits for the end.
// Z3  Nor does it wait for ever for who reads stderr: whoever takes nothing for a second is told no more.
#pragma once

#include <string_view>

namespace farcached::process {

// From now on: SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT. program: with its version; copied. Call once. Where a sanitizer
// was built in, which has reports of its own, only SIGABRT is reported.
void report_crashes(std::string_view program);

}  // namespace farcached::process
