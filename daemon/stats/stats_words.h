// SPDX-License-Identifier: BSD-3-Clause
// The words of an admin command. Borrows the line.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace farcached::daemon {

class LineWords {
  public:
    static constexpr size_t words_max = 24;  // memcached's; ignores further words

    explicit LineWords(std::string_view line) {
        while (count_ < words_max) {
            size_t start = line.find_first_not_of(' ');
            if (start == std::string_view::npos) return;
            line.remove_prefix(start);
            words_[count_++] = line.substr(0, line.find(' '));
            line.remove_prefix(words_[count_ - 1].size());
        }
    }

    size_t size() const { return count_; }
    // Empty if there are fewer words.
    std::string_view operator[](size_t i) const { return i < count_ ? words_[i] : std::string_view(); }

  private:
    std::array<std::string_view, words_max> words_;
    size_t count_ = 0;
};

}  // namespace farcached::daemon
