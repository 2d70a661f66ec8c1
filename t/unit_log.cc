// SPDX-License-Identifier: BSD-3-Clause
// Lines of one reason are limited, and what was left out is said.
#include <string>

#include "process/log.h"
#include "t/tap.h"

using farcached::process::LimitedLines;
using std::chrono::milliseconds;
using tap::is;

int main() {
    LimitedLines lines;
    LimitedLines::Clock::time_point now{};
    now += std::chrono::hours(1);
    for (uint32_t i = 0; i < LimitedLines::lines_max; i++) {
        is(lines.admit(now, "a"), "a", "the first are said");
        now += milliseconds(1);
    }
    is(lines.admit(now, "b"), "", "one more is not");
    now += LimitedLines::window - milliseconds(LimitedLines::lines_max + 1);
    is(lines.admit(now, "c"), "", "nor at the end of the window");
    now += milliseconds(1);
    is(lines.admit(now, "d"), "d (2 lines like this were left out)", "behind it what was left out is said");
    is(lines.admit(now, "e"), "e", "and only once");
    now += LimitedLines::window * 5;
    for (uint32_t i = 0; i < LimitedLines::lines_max; i++) is(lines.admit(now, "f"), "f", "a new window has room for as many");
    is(lines.admit(now, "f"), "", "and no more");
    LimitedLines others;
    is(others.admit(now, "g"), "g", "another reason has lines of its own");
    return tap::done();
}
