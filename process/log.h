// SPDX-License-Identifier: BSD-3-Clause
// Lines about what happens to the process, on stderr, for whoever looks after it.
//
// L1  A line is written by one call, so that lines of threads do not mix.
// L2  Where stderr is the journal ($JOURNAL_STREAM says so) a line begins with its level as sd-daemon(3) has it, which the
//     journal takes off and files; elsewhere with nothing.
// L3  What can happen again and again for one reason is limited for that reason, and what was left out is counted and said.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace farcached::process {

enum class Level : uint8_t {
    error = 3,    // the process does not do what it is for, or ends
    warning = 4,  // something that it needs is not there; it goes on without
    notice = 5,   // what was not there is back, or an operator did something
    info = 6,     // said only with -v
};

// line: with its end or without; several are each one of that level. Any thread.
void say(Level level, std::string_view line);

// The lines of one reason (L3). Owner: whoever says them; any thread.
class LimitedLines {
  public:
    using Clock = std::chrono::steady_clock;
    static constexpr uint32_t lines_max = 10;           // in a row, in so long:
    static constexpr std::chrono::seconds window{10};

    void say(Level level, std::string_view line) { say_at(Clock::now(), level, line); }
    // What is to be written at that time; empty: nothing.
    std::string admit(Clock::time_point now, std::string_view line);

  private:
    void say_at(Clock::time_point now, Level level, std::string_view line);

    std::mutex lock_;
    Clock::time_point window_begun_{};
    uint32_t said_ = 0;       // in the window
    uint64_t left_out_ = 0;   // since the last that was said
};

}  // namespace farcached::process
