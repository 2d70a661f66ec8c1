// SPDX-License-Identifier: BSD-3-Clause
// The options of `farbench reports`: one table, the source of parsing and help.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/command.h"
#include "bench/transport/transport_options.h"

namespace farcached::bench {

// The transport of a report and its answer.
struct ReportWay {
    const char* name;
    Via via;
    bool write;  // into containers; otherwise in frames
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
    int node_pid = 0;  // process to measure; 0: the started node
    std::vector<const ReportWay*> ways;
    std::vector<uint32_t> bytes;  // of a report, header included
    uint64_t reports = 0, warmup = 0;
    uint32_t trials = 0;
    bool spin = false;
    std::string csv_folder, json_path, chart_script;  // as in TransportOutput
};

std::span<const OptionOf<ReportsOptions>> reports_options();

// Reads the arguments after `reports`. Returns an error, or an empty string.
std::string read_reports_options(std::span<char* const> arguments, ReportsOptions& options);

// `farbench reports`: the cost of reporting accesses to a node, by WRITE into its container and by SEND, and of its
// answer. Runs one trial of each point per round, so that changes on the machine affect all points.
// Exit statuses: bench/command.h; an interrupt ends it with the partial results.
int reports_command(std::span<char* const> arguments);

}  // namespace farcached::bench
