// SPDX-License-Identifier: BSD-3-Clause
// Numbers and tables as text. Foreign text is made printable here. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace farcached::ctl {

// Replaces all but printable ASCII by '?', so that a daemon's text cannot control the terminal.
std::string printable(std::string_view text);

std::string human_bytes(uint64_t bytes);       // "512", "1.5K", "64M": powers of 1024
std::string human_count(double count);         // "0", "7.3", "1234", "12.3k", "4.5M": powers of 1000
std::string duration(uint64_t seconds);        // "42s", "3m12s", "5h07m", "12d03h"
// part/whole as "97.1%"; "-" if whole is 0.
std::string percent(double part, double whole);
// "1 node", "2 nodes".
std::string counted(uint64_t count, std::string_view one, std::string_view many);
std::string or_dash(const std::optional<uint64_t>& number);
std::string or_dash(const std::string& text);  // for an empty one

// The colour of a text on a terminal.
enum class Tone : uint8_t { plain, head, good, doubtful, bad };
std::string painted(std::string_view text, Tone tone);
// Of a node's state.
Tone tone_of_state(std::string_view state);

// Columns fit their contents, two blanks apart. A column whose name begins with '>' is right-aligned.
class TextTable {
  public:
    explicit TextTable(std::vector<std::string> columns);
    void add(std::vector<std::string> cells);  // one per column
    bool empty() const { return rows_.empty(); }
    // A cell's tone in coloured lines.
    using ToneOf = Tone (*)(std::string_view cell);
    // The head and one line per row, without trailing blanks; coloured: the head, and the column `toned` by its cells.
    std::vector<std::string> lines() const { return lines_of(false, 0, nullptr); }
    std::vector<std::string> coloured(size_t toned, ToneOf tone_of) const { return lines_of(true, toned, tone_of); }
    // One text of these.
    std::string text(bool is_coloured, size_t toned = 0, ToneOf tone_of = nullptr) const;

  private:
    std::vector<std::string> lines_of(bool is_coloured, size_t toned, ToneOf tone_of) const;

    std::vector<std::string> columns_;
    std::vector<bool> right_;
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace farcached::ctl
