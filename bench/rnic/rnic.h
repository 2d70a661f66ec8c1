// SPDX-License-Identifier: BSD-3-Clause
// `farbench rnic`: its options, and one run of the model with any parameters. Pure, except for the command.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/command.h"
#include "bench/rnic/figures.h"
#include "bench/rnic/nic.h"

namespace farcached::bench {

struct RnicOptions {
    std::vector<RnicFigure> figures;  // empty: one run
    RnicDevice device = paper_device();
    RnicWorkload workload;
    Prefetching prefetching;
    std::string json_path;
};

std::span<const OptionOf<RnicOptions>> rnic_options();

// Reads the arguments after `rnic`. Returns an error, or an empty string.
std::string read_rnic_options(std::span<char* const> arguments, RnicOptions& options);

// Lines end with a newline.
std::string rnic_text(const RnicOptions& options, const RnicResult& result);
std::string rnic_json(const RnicOptions& options, const RnicResult& result);

}  // namespace farcached::bench
