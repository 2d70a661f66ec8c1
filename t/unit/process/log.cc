// SPDX-License-Identifier: BSD-3-Clause
// Lines of the log in each form; lines of one reason are limited, and the number of suppressed lines is logged.
#include <string>
#include <string_view>

#include "process/log.h"
#include "t/lib/tap.h"

using farcached::process::LimitedLines;
using std::chrono::milliseconds;
using tap::is;

namespace {

using farcached::LogFormat;
using farcached::LogLevel;
using farcached::process::log_line;
using farcached::process::LogFields;

void forms() {
    const farcached::process::LogMoment at{1'700'000'000, 7};
    auto line = [&](LogFormat format, std::string_view sentence, LogFields fields) {
        return log_line(format, LogLevel::warning, at, sentence, fields);
    };
    const LogFields none, two = {{"node", "a"}, {"why", "it was \"silent\""}};
    is(line(LogFormat::text, "node a is down", none), "node a is down", "text is the sentence");
    is(line(LogFormat::text, "node a is down", two), "node a is down node=a why=\"it was \\\"silent\\\"\"", "and its fields");
    is(line(LogFormat::text, "a\x1b[2J\tb\x7f", none), "a?[2J?b?", "control characters do not reach a terminal");
    is(line(LogFormat::text, "it", {{"empty", ""}, {"is", "a=b"}}), "it empty=\"\" is=\"a=b\"", "what would mislead is quoted");
    is(line(LogFormat::logfmt, "it is down", {{"node", "a"}}),
       "ts=2023-11-14T22:13:20.007Z level=warning msg=\"it is down\" node=a", "logfmt");
    is(line(LogFormat::logfmt, "x", {{"path", "/tmp/\xc3\xa9"}}),
       "ts=2023-11-14T22:13:20.007Z level=warning msg=x path=/tmp/\xc3\xa9", "letters of any language are bare");
    is(line(LogFormat::logfmt, "a\nb", none), "ts=2023-11-14T22:13:20.007Z level=warning msg=\"a\\nb\"", "it is one line");
    is(line(LogFormat::json, "a\nb\"", {{"node", "a\\b"}}),
       "{\"ts\":\"2023-11-14T22:13:20.007Z\",\"level\":\"warning\",\"msg\":\"a\\nb\\\"\",\"node\":\"a\\\\b\"}", "json");
    is(line(LogFormat::json, "\xff", none),
       "{\"ts\":\"2023-11-14T22:13:20.007Z\",\"level\":\"warning\",\"msg\":\"\xef\xbf\xbd\"}", "and valid UTF-8");
}

}  // namespace

int main() {
    forms();
    LimitedLines lines;
    LimitedLines::Clock::time_point now{};
    now += std::chrono::hours(1);
    for (uint32_t i = 0; i < LimitedLines::lines_max; i++) {
        is(lines.admit(now, "a"), "a", "the first lines are logged");
        now += milliseconds(1);
    }
    is(lines.admit(now, "b"), "", "one more is not");
    now += LimitedLines::window - milliseconds(LimitedLines::lines_max + 1);
    is(lines.admit(now, "c"), "", "nor at the end of the window");
    now += milliseconds(1);
    is(lines.admit(now, "d"), "d (2 similar lines were suppressed)", "the next line reports the suppressed ones");
    is(lines.admit(now, "e"), "e", "and only once");
    now += LimitedLines::window * 5;
    for (uint32_t i = 0; i < LimitedLines::lines_max; i++) is(lines.admit(now, "f"), "f", "a new window has room for as many");
    is(lines.admit(now, "f"), "", "and no more");
    LimitedLines others;
    is(others.admit(now, "g"), "g", "another reason has a separate limit");
    return tap::done();
}
