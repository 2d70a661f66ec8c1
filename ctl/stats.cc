// SPDX-License-Identifier: BSD-3-Clause
#include "ctl/stats.h"

#include <charconv>

namespace farcached::ctl {

const std::string* Stats::find(std::string_view name) const {
    for (const Row& row : rows_)
        if (row.first == name) return &row.second;
    return nullptr;
}

std::string Stats::text(std::string_view name) const {
    const std::string* found = find(name);
    return found == nullptr ? std::string() : *found;
}

std::optional<uint64_t> Stats::number(std::string_view name) const {
    const std::string* found = find(name);
    return found == nullptr ? std::nullopt : parse_number(*found);
}

std::optional<uint64_t> parse_number(std::string_view text) {
    if (text.size() > 1 && text.front() == '0') return {};
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return {};
    return value;
}

}  // namespace farcached::ctl
