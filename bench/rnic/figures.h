// SPDX-License-Identifier: BSD-3-Clause
// The figures of "Toward Scalable RDMA Through Resource Prefetching" (Ma et al.) from the model of bench/rnic/nic.h, and those
// of "RFP" (Jakiro) from the two costs of bench/rnic/rpc_costs.h. Each point that a paper's text states stands beside
// ours. A point that a paper only draws has no number of the paper. Pure.
//
// F1  `fitted`: this number of the paper decided a parameter. All others are predictions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/command.h"
#include "bench/rnic/nic.h"

namespace farcached::bench {

enum class RnicFigure : uint8_t { three, four, five, six, abstract, jakiro };

struct FigurePoint {
    RnicFigure figure{};
    std::string series;
    double x = 0;
    const char* unit = "";  // of the numbers
    Number paper, ours;  // none: not available
    bool fitted = false;
    const char* note = "";
};
using FigurePoints = std::vector<FigurePoint>;

// The adapter of the paper's evaluation, with the fitted chunk, fetch units and cache.
RnicDevice paper_device();
// Figure 4's messages: the send queue of each queue pair is never empty.
RnicWorkload paper_workload(uint32_t queue_pairs);
constexpr uint32_t paper_window = 7;  // where Figure 4 reaches the peak

// The points of those figures, in order. abstract: with three or four of the throughput, with six of the latency.
FigurePoints rnic_points(std::span<const RnicFigure> figures, uint64_t seed);

// The deviation of ours from the paper, as a fraction; none without one of them.
Number deviation_of(const FigurePoint& point);
// A list with one object per point.
std::string figures_json(const FigurePoints& points);
std::string figures_text(const FigurePoints& points);

}  // namespace farcached::bench
