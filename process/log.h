// SPDX-License-Identifier: BSD-3-Clause
// The log: lines on stderr for the operator. stderr and its settings belong to the process; any thread may log at any
// time.
//
// L1  A line is written by one call, so that lines of threads do not mix.
// L2  If stderr is the journal (per $JOURNAL_STREAM), a line begins with its level as in sd-daemon(3), which the
//     journal parses and removes.
// L3  Lines that can repeat for one reason are rate-limited per reason; omitted lines are counted, and the count is
//     logged.
// L4  Logging never waits for the reader of stderr. A line that a pipe, a socket, a terminal or a full disk does not
//     take at once is lost and counted; so is one without a reader. The next line that succeeds is preceded by one with
//     the count.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <new>
#include <string>
#include <string_view>

#include "conf/words.h"

namespace farcached::process {

// A log line in each of its formats (conf/words.h). Pure; any thread.
// A searchable attribute of a line: {"node", "a"}. Borrowed until the call returns.
struct LogField {
    std::string_view name, value;
};
using LogFields = std::initializer_list<LogField>;

struct LogMoment {
    int64_t seconds = 0;  // since 1970
    uint32_t ms = 0;
};

// sentence: one line without a line end; so is the result. Any sentence and fields yield one line, in json valid UTF-8.
std::string log_line(LogFormat format, LogLevel level, LogMoment at, std::string_view sentence, LogFields fields);

using Level = LogLevel;

// Logs lines of level `least` and worse; verbosity 1 adds info, more adds all levels. Initially notice and 0.
void set_log(Level least, LogFormat format);
void set_verbosity(uint32_t verbosity);
// Is that level logged? One or two relaxed loads.
bool is_said(Level level);

// line: with or without a line end; several lines each get the level, and then no fields. Without memory, the line is
// lost.
void say(Level level, std::string_view line, LogFields fields = {}) noexcept;
// Counts a line lost for lack of memory.
void lose_line() noexcept;
// As say(), with the result of make(), which may throw std::bad_alloc.
template <class Make>
void say_made(Level level, Make&& make) noexcept {
    try {
        if (is_said(level)) say(level, make());
    } catch (const std::bad_alloc&) {
        lose_line();
    }
}

// Lines lost since the start (L4).
uint64_t log_lines_lost();

// Is stderr the journal? Safe in a signal handler after a first call.
bool stderr_is_journal();

// The lines of one reason (L3). Owner: the code that logs them; any thread.
class LimitedLines {
  public:
    using Clock = std::chrono::steady_clock;
    static constexpr uint32_t lines_max = 10;           // per window
    static constexpr std::chrono::seconds window{10};

    void say(Level level, std::string_view line, LogFields fields = {}) noexcept;
    // The text to write at that time; empty: none.
    std::string admit(Clock::time_point now, std::string_view line);

  private:
    std::mutex lock_;
    Clock::time_point window_begun_{};
    uint32_t said_ = 0;       // lines in the window
    uint64_t left_out_ = 0;   // omitted since the last line
};

}  // namespace farcached::process
