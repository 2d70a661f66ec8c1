// SPDX-License-Identifier: BSD-3-Clause
// Terminal: a full screen and single key presses, for its lifetime. It restores the terminal at its end, and on SIGINT,
// SIGTERM, SIGHUP and SIGQUIT. Plain ANSI sequences suffice for full screens of lines.
// Owner: main; one thread.
#pragma once

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
    // A key, or none within the time. At the end of input no key arrives, and the call waits for the whole time.
    std::optional<char> wait_for_key(uint32_t timeout_ms);

  private:
    bool has_keys_ = false;
};

}  // namespace farcached::ctl
