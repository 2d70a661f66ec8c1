// SPDX-License-Identifier: BSD-3-Clause
// Terminal: a full screen and single key presses, for its lifetime. It restores the terminal at its end, and on SIGINT
// (unless the console interrupts), SIGTERM, SIGHUP and SIGQUIT. Plain ANSI sequences suffice for full screens of lines.
// ProgressLine: a line about a long wait on stderr, if that is a terminal. Its destructor erases it.
// Owner: main; one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace farcached::ctl {

class Terminal {
  public:
    // At most one at a time.
    Terminal();
    ~Terminal();
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;

    // Draws the lines and columns that fit; swaps the colours of line `marked`.
    void draw(const std::vector<std::string>& lines, size_t marked);
    // A key; none within the time, or if the command is interrupted. At the end of input no key arrives, and the call waits for
    // the whole time.
    std::optional<char> wait_for_key(uint32_t timeout_ms);

  private:
    bool has_keys_ = false;
};

class ProgressLine {
  public:
    ProgressLine() = default;
    ~ProgressLine() { replace(""); }
    ProgressLine(const ProgressLine&) = delete;
    ProgressLine& operator=(const ProgressLine&) = delete;

    // Visible once the wait has lasted a second.
    void show(const std::string& text);

  private:
    void replace(const std::string& text);

    const std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
    size_t shown_ = 0;  // characters
};

}  // namespace farcached::ctl
