// SPDX-License-Identifier: BSD-3-Clause
// The options of `farbench hitratio`: one table, from which arguments are read and help is printed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/hitratio_sim.h"
#include "bench/option_text.h"
#include "bench/options.h"

namespace farcached::bench {

struct HitRatioOutput {
    std::string csv_folder;
    std::string json_path;
    std::string chart_script;  // empty: where it is installed
};

struct HitRatioOptions {
    std::vector<const WorkloadKind*> workloads;
    std::vector<double> ratios;  // of the cache to the data
    std::vector<const Contestant*> contestants;
    SimScale scale;
    uint32_t threads = 1;  // points at once
    std::vector<Target> servers;  // not empty: these are asked, and nothing is simulated
    HitRatioOutput output;
};

std::span<const OptionOf<HitRatioOptions>> hitratio_options();

// Reads the arguments behind `hitratio`. Returns what is wrong, or an empty string.
std::string read_hitratio_options(std::span<char* const> arguments, HitRatioOptions& options);

}  // namespace farcached::bench
