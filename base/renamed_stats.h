// SPDX-License-Identifier: BSD-3-Clause
// Statistics that were renamed since the last release. `stats`, /metrics and /status.json print each under both names until the
// next release, with the same value; docs/moving.md lists them.
#pragma once

#include <string>
#include <string_view>

namespace farcached {

struct RenamedStat {
    std::string_view name, old_name;
};
constexpr RenamedStat renamed_stats[] = {
    {"mutations_unavailable", "change_unavailable"},
    {"replies_unmatched", "answers_unasked"},
    {"report_unknown_items", "report_refused_stranger"},
};

// Empty: the statistic was not renamed.
constexpr std::string_view old_name_of(std::string_view name) {
    for (const RenamedStat& one : renamed_stats)
        if (one.name == name) return one.old_name;
    return {};
}
inline std::string old_name_help(std::string_view name) { return "old name of " + std::string(name) + ", until the next release"; }

}  // namespace farcached
