// SPDX-License-Identifier: BSD-3-Clause
// Lines about what happens to the process, on stderr, for whoever looks after it. stderr is the process's, and so is what
// is set here of it: any thread says something at any time.
//
// L1  A line is written by one call, so that lines of threads do not mix.
// L2  Where stderr is the journal ($JOURNAL_STREAM says so) a line begins with its level as sd-daemon(3) has it, which the
//     journal takes off and files.
// L3  What can happen again and again for one reason is limited for that reason, and what was left out is counted and said.
// L4  Nobody waits for who reads stderr. What a pipe, a socket or a terminal does not take at once, what a full disk
//     refuses and what nobody reads any more is lost, and counted; the next line that gets through is preceded by one that
//     says how many were.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "base/log_words.h"
#include "process/log_line.h"

namespace farcached::process {

using Level = LogLevel;

// What is said: lines of `least` and worse; with verbosity 1 also what is info, with more all. At first as with notice
// and 0.
void set_log(Level least, LogFormat format);
void set_verbosity(uint32_t verbosity);
// Is a line of that level? One relaxed load or two.
bool is_said(Level level);

// line: with its end or without; several are each one of that level, and then there are no fields.
void say(Level level, std::string_view line, LogFields fields = {});

// L4, since the start.
uint64_t log_lines_lost();

// Is stderr the journal? In a handler of signals, too, if it was asked before.
bool stderr_is_journal();

// The lines of one reason (L3). Owner: whoever says them; any thread.
class LimitedLines {
  public:
    using Clock = std::chrono::steady_clock;
    static constexpr uint32_t lines_max = 10;           // in a row, in so long:
    static constexpr std::chrono::seconds window{10};

    void say(Level level, std::string_view line, LogFields fields = {});
    // What is to be written at that time; empty: nothing.
    std::string admit(Clock::time_point now, std::string_view line);

  private:
    std::mutex lock_;
    Clock::time_point window_begun_{};
    uint32_t said_ = 0;       // in the window
    uint64_t left_out_ = 0;   // since the last that was said
};

}  // namespace farcached::process
