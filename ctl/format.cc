// SPDX-License-Identifier: BSD-3-Clause
#include "ctl/format.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/check.h"

namespace farcached::ctl {

namespace {

// One decimal below ten, none above, then the unit.
std::string scaled(double number, double step, std::string_view units) {
    size_t unit = 0;
    while (number >= step && unit + 1 < units.size()) {
        number /= step;
        unit++;
    }
    char text[32];
    const bool whole = number >= 99.95 || number == double(uint64_t(number));
    std::snprintf(text, sizeof text, whole ? "%.0f" : "%.1f", number);
    return unit == 0 ? text : text + std::string(1, units[unit]);
}

}  // namespace

std::string printable(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (c < ' ' || c > '~') c = '?';
    return out;
}

std::string human_bytes(uint64_t bytes) { return scaled(double(bytes), 1024, " KMGTPE"); }

std::string human_count(double count) {
    if (count >= 1000 && count < 9999.5) return std::to_string(uint64_t(count + 0.5));
    return scaled(std::max(count, 0.0), 1000, " kMGTPE");
}

std::string duration(uint64_t seconds) {
    constexpr uint64_t minute = 60, hour = 3600, day = 86400;
    char text[48];
    auto two = [&](uint64_t large, char large_unit, uint64_t small, char small_unit) {
        std::snprintf(text, sizeof text, "%llu%c%02llu%c", static_cast<unsigned long long>(large), large_unit,
                      static_cast<unsigned long long>(small), small_unit);
        return std::string(text);
    };
    if (seconds < minute) return std::to_string(seconds) + "s";
    if (seconds < hour) return two(seconds / minute, 'm', seconds % minute, 's');
    if (seconds < day) return two(seconds / hour, 'h', seconds % hour / minute, 'm');
    return two(seconds / day, 'd', seconds % day / hour, 'h');
}

std::string percent(double part, double whole) {
    if (whole <= 0) return "-";
    char text[32];
    std::snprintf(text, sizeof text, "%.1f%%", 100 * part / whole);
    return text;
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

std::string or_dash(const std::optional<uint64_t>& number) { return number ? std::to_string(*number) : "-"; }

std::string counted(uint64_t count, std::string_view one, std::string_view many) {
    return std::to_string(count) + " " + std::string(count == 1 ? one : many);
}

std::string painted(std::string_view text, Tone tone) {
    constexpr std::string_view codes[] = {"", "\x1b[1m", "\x1b[32m", "\x1b[33m", "\x1b[31m"};
    if (tone == Tone::plain) return std::string(text);
    return std::string(codes[size_t(tone)]) + std::string(text) + "\x1b[0m";
}

Tone tone_of_state(std::string_view state) {
    if (state == "up") return Tone::good;
    return state == "down" ? Tone::bad : Tone::doubtful;
}

TextTable::TextTable(std::vector<std::string> columns) : columns_(std::move(columns)) {
    for (std::string& name : columns_) {
        right_.push_back(name.starts_with('>'));
        if (right_.back()) name.erase(0, 1);
    }
}

void TextTable::add(std::vector<std::string> cells) {
    CHECK(cells.size() == columns_.size());
    for (std::string& cell : cells) cell = printable(cell);
    rows_.push_back(std::move(cells));
}

std::string TextTable::text(bool is_coloured, size_t toned, ToneOf tone_of) const {
    std::string text;
    for (const std::string& line : lines_of(is_coloured, toned, tone_of)) text += line + "\n";
    return text;
}

std::vector<std::string> TextTable::lines_of(bool is_coloured, size_t toned, ToneOf tone_of) const {
    std::vector<size_t> widths;
    for (size_t c = 0; c < columns_.size(); c++) {
        widths.push_back(columns_[c].size());
        for (const auto& row : rows_) widths[c] = std::max(widths[c], row[c].size());
    }
    auto line_of = [&](const std::vector<std::string>& cells, bool is_head) {
        std::string line;
        size_t blanks = 0;  // not written yet: none end a line
        for (size_t c = 0; c < cells.size(); c++) {
            const size_t room = widths[c] - cells[c].size();
            if (right_[c]) blanks += room;
            if (!cells[c].empty()) {
                line += std::string(blanks, ' ');
                blanks = 0;
                const bool has_tone = is_coloured && !is_head && tone_of != nullptr && c == toned;
                line += has_tone ? painted(cells[c], tone_of(cells[c])) : cells[c];
            }
            blanks += (right_[c] ? 0 : room) + 2;
        }
        return is_coloured && is_head ? painted(line, Tone::head) : line;
    };
    std::vector<std::string> lines = {line_of(columns_, true)};
    for (const auto& row : rows_) lines.push_back(line_of(row, false));
    return lines;
}

}  // namespace farcached::ctl
