// SPDX-License-Identifier: BSD-3-Clause
// What the text of the paper (hitratio_report.h) says of its Figures 5 and 6. Its 1 GB of cache is 1/80 of its data.
#pragma once

#include <cstdint>

namespace farcached::bench {

constexpr const char* paper_mixes[] = {"100:0", "95:5", "90:10"};

enum class PaperValue : uint8_t {
    original_smallest,
    lru_over_original_least,
    lru_over_original_most,
    pdla_over_lru,
    pdla_over_approx_lru,
    pdla_over_mq,
    mq_with_sets,
    pdla_with_sets,
    pdla_pointers,
    pdla_over_fixed_128,
    pdla_over_fixed_32,
    pdla_over_fixed_8,
};

struct PaperRow {
    PaperValue value;
    const char* what;
    const char* paper;
};
constexpr PaperRow paper_rows[] = {
    {PaperValue::original_smallest, "total of original, 1/80, the best of three mixes", "< 0.02"},
    {PaperValue::lru_over_original_least, "total of lru / of original, 1/80 to 30/80, least", "1.5"},
    {PaperValue::lru_over_original_most, "the same, most", "3.8"},
    {PaperValue::pdla_over_lru, "total of pdla / of lru, 1/80, 100:0", "1.541"},
    {PaperValue::pdla_over_approx_lru, "total of pdla / of approx_lru, 1/80, 100:0", "1.546"},
    {PaperValue::pdla_over_mq, "total of pdla / of mq, 1/80, 95:5", "0.92"},
    {PaperValue::mq_with_sets, "total of mq, 90:10 / 100:0, 1/80", "0.80"},
    {PaperValue::pdla_with_sets, "total of pdla, 90:10 / 100:0, 1/80", "0.847"},
    {PaperValue::pdla_pointers, "pointer hits of pdla, 95:5, mean of 10/80 to 50/80", "0.474"},
    {PaperValue::pdla_over_fixed_128, "pointer hits of pdla / of fixed_lease_128, 95:5, 10/80 to 50/80, most", "2.6"},
    {PaperValue::pdla_over_fixed_32, "the same over fixed_lease_32", "3.8"},
    {PaperValue::pdla_over_fixed_8, "the same over fixed_lease_8", "6.1"},
};

}  // namespace farcached::bench
