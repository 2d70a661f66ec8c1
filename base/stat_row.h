// SPDX-License-Identifier: BSD-3-Clause
// StatRow: a statistic's name, its help text, and where its value is. Constant tables of rows, some made by
// X-macros that also declare the counters, are the only lists of statistics: `stats`, the metrics, the man pages, and the
// proxies that read a node's text iterate over them.
//
// Owner: the module that has the numbers keeps their table. Threads: rows are constant.
// R1  A row reads its value from the one object that it is applied to, and from nothing else.
// R2  A struct of counters and the struct of their sums are one template over the type of a cell, `Cells<Counter>` and
//     `Cells<uint64_t>`. Cells<Cell>::rows() has the same rows for both, in the same order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/counters.h"

namespace farcached {

// `stats reset` subtracts from counters only; gauges are shown unchanged.
enum class StatKind : uint8_t { counter, gauge };

// Where: a pointer to a member, or to a function with the object as its only argument.
template <class Where>
struct StatRow {
    std::string_view name, help;
    Where where;
    StatKind kind = StatKind::counter;  // read by metrics and resets only

    template <class From>
    decltype(auto) of(From&& from) const {
        return std::invoke(where, std::forward<From>(from));
    }
};

inline uint64_t number_in(uint64_t cell) { return cell; }
inline uint64_t number_in(const Counter& cell) { return cell.get(); }

// visit(kind, cell of `to`, cell of `from`) for each row.
template <template <class> class Cells, class To, class From, class Visit>
void each_cell(Cells<To>& to, const Cells<From>& from, Visit visit) {
    const auto to_rows = Cells<To>::rows();
    const auto from_rows = Cells<From>::rows();
    CHECK(to_rows.size() == from_rows.size());
    for (size_t i = 0; i < to_rows.size(); i++) visit(to_rows[i].kind, to_rows[i].of(to), from_rows[i].of(from));
}

template <template <class> class Cells, class From>
void add_cells(Cells<uint64_t>& to, const Cells<From>& from) {
    each_cell(to, from, [](StatKind, uint64_t& sum, const From& cell) { sum += number_in(cell); });
}

// A single counter never falls, but the terms of a sum may be read in any order: the result stops at 0.
inline void less(uint64_t& now, uint64_t earlier) { now -= std::min(now, earlier); }

// Gauges stay as they are.
template <template <class> class Cells>
void subtract_cells(Cells<uint64_t>& now, const Cells<uint64_t>& earlier) {
    each_cell(now, earlier, [](StatKind kind, uint64_t& cell, uint64_t before) {
        if (kind == StatKind::counter) less(cell, before);
    });
}

// Statistics that were renamed since the last release. `stats`, /metrics and /status.json print each under both names until the
// next release, with the same value; docs/moving.md lists them.
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
