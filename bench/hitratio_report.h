// SPDX-License-Identifier: BSD-3-Clause
// What `farbench hitratio` has found: CSV, JSON, and tables, one of them beside what "C-Hint: An Effective and Reliable
// Cache Management for RDMA-Accelerated Key-Value Stores" (Wang, Meng, Zhang and Tan) says of its Figures 5 and 6. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/hitratio_sim.h"

namespace farcached::bench {

struct HitRatioPoint {
    SimPoint point{};
    SimResult result;
};
using HitRatioPoints = std::vector<HitRatioPoint>;

// Lines end with a newline.
std::string hitratio_csv(const HitRatioPoints& points);
// A list of one object for each point.
std::string hitratio_json(const HitRatioPoints& points);
std::string hitratio_text(const SimScale& scale, const HitRatioPoints& points);
// One line of progress, without a newline.
std::string hitratio_line(const HitRatioPoint& point);

// nullptr: that was not simulated.
const SimResult* find(const HitRatioPoints& points, std::string_view workload, double ratio, std::string_view policy);
// What a policy finds of that which lies between faithful LRU and perfect knowledge: 0 is LRU's, 1 is all.
std::optional<double> gap_closed(const HitRatioPoints& points, const SimPoint& point);

}  // namespace farcached::bench
