// SPDX-License-Identifier: BSD-3-Clause
// Terminal: a screen of its own and keys one by one, while it lives. Whatever ends the program, the terminal is as it
// was before. Plain ANSI sequences: one full screen of lines needs no more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace farcached::ctl {

class Terminal {
  public:
    // One at a time.
    Terminal();
    ~Terminal();
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;

    // As many lines and columns as there is room for; of the line `marked` the colours are swapped.
    void draw(const std::vector<std::string>& lines, size_t marked);
    // A key, or none within the time. End of input: no key will come any more, and the time is waited for.
    std::optional<char> wait_for_key(uint32_t timeout_ms);

  private:
    bool has_keys_ = false;
};

}  // namespace farcached::ctl
