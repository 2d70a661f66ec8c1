// SPDX-License-Identifier: BSD-3-Clause
// The options of `farbench reports`: one table, from which arguments are read and help is printed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/option_text.h"
#include "bench/transport_options.h"

namespace farcached::bench {

// How a report reaches its node and the answer comes back.
struct ReportWay {
    const char* name;
    Via via;
    bool write;  // into containers; else in frames
};
constexpr ReportWay report_ways[] = {
    {"tcp", Via::tcp, false},
    {"shm-send", Via::shm, false},
    {"shm-write", Via::shm, true},
    {"verbs-send", Via::verbs, false},
    {"verbs-write", Via::verbs, true},
};

struct ReportsOptions {
    std::vector<NodePlace> places;
    NodeToStart start;
    int node_pid = 0;  // whose CPU time is measured; 0: that of the one that was started
    std::vector<const ReportWay*> ways;
    std::vector<uint32_t> bytes;  // of a report, with its header
    uint64_t reports = 0, warmup = 0;
    uint32_t trials = 0;
    bool spin = false;
    std::string csv_folder, json_path, chart_script;  // as TransportOutput has them
};

std::span<const OptionOf<ReportsOptions>> reports_options();

// Reads the arguments behind `reports`. Returns what is wrong, or an empty string.
std::string read_reports_options(std::span<char* const> arguments, ReportsOptions& options);

}  // namespace farcached::bench
