// SPDX-License-Identifier: BSD-3-Clause
// `farbench hitratio`: the hit ratio of each policy, by workload and cache size, in virtual time (bench/hitratio/sim.h). Its
// options, and its results: CSV, JSON and tables. One table compares them with Figures 5 and 6 of "C-Hint: An Effective and
// Reliable Cache Management for RDMA-Accelerated Key-Value Stores" (Wang, Meng, Zhang and Tan), with a reason for each
// difference. Pure, except for the command.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/command.h"
#include "bench/hitratio/clients.h"
#include "bench/hitratio/sim.h"
#include "bench/load/options.h"

namespace farcached::bench {

struct HitRatioOutput {
    std::string csv_folder;
    std::string json_path;
};

struct HitRatioOptions {
    std::vector<const WorkloadKind*> workloads;
    std::vector<double> ratios;  // cache size to data size
    std::vector<const Contestant*> contestants;
    SimScale scale;
    uint32_t threads = 1;  // points in parallel
    std::vector<Target> servers;  // not empty: run against these instead of the simulation
    HitRatioOutput output;
};

std::span<const OptionOf<HitRatioOptions>> hitratio_options();

// Reads the arguments after `hitratio`. Returns an error, or an empty string.
std::string read_hitratio_options(std::span<char* const> arguments, HitRatioOptions& options);

struct HitRatioPoint {
    SimPoint point{};
    SimResult result;
};
using HitRatioPoints = std::vector<HitRatioPoint>;

// Lines end with a newline.
std::string hitratio_csv(const HitRatioPoints& points);
// A list with one object per point.
std::string hitratio_json(const HitRatioPoints& points);
std::string hitratio_text(const SimScale& scale, const HitRatioPoints& points);
// One line of progress, without a newline.
std::string hitratio_line(const HitRatioPoint& point);

// nullptr: not simulated.
const SimResult* find(const HitRatioPoints& points, std::string_view workload, double ratio, std::string_view policy);
// The policy's share of the gap between faithful LRU and perfect knowledge: 0 is LRU, 1 is all.
Number gap_closed(const HitRatioPoints& points, const SimPoint& point);

// Latencies of a point of `farbench hitratio --servers`, as in Figures 7 to 9 of the paper. Pure.
// One row per nonempty interval, eight to a power of two. Lines end with a newline.
std::string latency_csv(const SimScale& scale, const SimPoint& point, const Latencies& latencies);
// The quantiles as text.
std::string latency_text(const Latencies& latencies);

}  // namespace farcached::bench
