// SPDX-License-Identifier: BSD-3-Clause
// The options of `farbench hitratio`: one table, the source of parsing and help.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/command.h"
#include "bench/hitratio/sim.h"
#include "bench/load/options.h"

namespace farcached::bench {

struct HitRatioOutput {
    std::string csv_folder;
    std::string json_path;
    std::string chart_script;  // empty: the installed one
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

// `farbench hitratio`: the hit ratio of each policy, by workload and cache size, in virtual time
// (bench/hitratio/sim.h).
// Exit statuses: bench/command.h.
int hitratio_command(std::span<char* const> arguments);

}  // namespace farcached::bench
