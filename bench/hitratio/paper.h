// SPDX-License-Identifier: BSD-3-Clause
// The hit ratios in the text of the paper (hitratio_report.h): Figures 5 and 6, and the share of GETs by remote pointer
// in Figure 7. Its 1 GB of cache is 1/80 of its data. Its C-Hint is pdla_paper.
#pragma once

#include <cstdint>

namespace farcached::bench {

constexpr const char* paper_mixes[] = {"100:0", "95:5", "90:10"};

enum class PaperValue : uint8_t {
    original_smallest,
    lru_over_original_least,
    lru_over_original_most,
    pdla_over_lru,
    bound_over_lru,
    pdla_over_approx_lru,
    pdla_over_mq,
    mq_with_sets,
    pdla_with_sets,
    pdla_pointers,
    approx_lru_pointers,
    pdla_over_fixed_128,
    pdla_over_fixed_32,
    pdla_over_fixed_8,
};

// Reasons for differences from the paper.
constexpr const char* why_loaded =
    "in the paper what a client has a pointer to stays for ever, so that the cache holds what was loaded first.\n"
    "    Here a tenth of memory is never leased, and is an LRU of its own; a lease ends after 256 s; and the trace fills the\n"
    "    cache. With --load and ten times the --rate no lease ends, and what is hit by pointer are keys that were loaded";
constexpr const char* why_skewed =
    "the paper gives neither skew nor hit ratios. The row of perfect knowledge is the most that any policy\n"
    "    reaches here";
constexpr const char* why_set_keys =
    "SETs go to keys by the popularity that GETs have, and count for it. The paper's are uniformly distributed";
constexpr const char* why_rate =
    "how often a key is asked for during its lease decides, and the paper gives no rate. Here it is an\n"
    "    operation a second for every 80 keys, and SETs keep pointers, which in the paper they end";

// Columns name the policy that is the paper's own.
struct PaperRow {
    PaperValue value;
    const char* what;
    const char* text;  // from the paper
    double low, high;  // range that agrees with it
    const char* why;   // nullptr: the paper has no such number
};
constexpr double paper_tolerance = 0.1;
constexpr PaperRow about(PaperValue value, const char* what, const char* text, double number, const char* why) {
    return {value, what, text, number * (1 - paper_tolerance), number * (1 + paper_tolerance), why};
}
constexpr PaperRow paper_rows[] = {
    {PaperValue::original_smallest, "total of original, 1/80, the best of three mixes", "< 0.02", 0, 0.02, why_loaded},
    about(PaperValue::lru_over_original_least, "total of lru / of original, 1/80 to 30/80, least", "1.5", 1.5, why_loaded),
    about(PaperValue::lru_over_original_most, "the same, most", "3.8", 3.8, why_loaded),
    about(PaperValue::pdla_over_lru, "total of C-Hint / of lru, 1/80, 100:0", "1.541", 1.541, why_skewed),
    {PaperValue::bound_over_lru, "perfect knowledge / total of lru, 1/80, 100:0", "-", 0, 0, nullptr},
    about(PaperValue::pdla_over_approx_lru, "total of C-Hint / of approx_lru, 1/80, 100:0", "1.546", 1.546, why_skewed),
    about(PaperValue::pdla_over_mq, "total of C-Hint / of mq, 1/80, 95:5", "0.92", 0.92, why_set_keys),
    about(PaperValue::mq_with_sets, "total of mq, 90:10 / 100:0, 1/80", "0.80", 0.80, why_set_keys),
    about(PaperValue::pdla_with_sets, "total of C-Hint, 90:10 / 100:0, 1/80", "0.847", 0.847, why_set_keys),
    about(PaperValue::pdla_pointers, "pointer hits of C-Hint, 95:5, mean of 10/80 to 50/80", "0.474", 0.474, why_rate),
    about(PaperValue::approx_lru_pointers, "pointer hits of approx_lru, 95:5, likewise (Figure 7)", "0.242", 0.242, why_rate),
    about(PaperValue::pdla_over_fixed_128, "pointer hits of C-Hint / of fixed_lease_128, 10/80 to 50/80, most", "2.6", 2.6,
          why_rate),
    about(PaperValue::pdla_over_fixed_32, "the same over fixed_lease_32", "3.8", 3.8, why_rate),
    about(PaperValue::pdla_over_fixed_8, "the same over fixed_lease_8", "6.1", 6.1, why_rate),
};

}  // namespace farcached::bench
