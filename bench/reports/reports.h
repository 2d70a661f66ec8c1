// SPDX-License-Identifier: BSD-3-Clause
// `farbench reports`: the cost of reporting accesses to a node, by WRITE into its container and by SEND, and of its answer.
// It runs one trial of each point per round, so that changes on the machine affect all points. Here: its
// options, and its results: means over trials, CSV, JSON, and a table beside Figure 10 of "C-Hint: An Effective and Reliable
// Cache Management for RDMA-Accelerated Key-Value Stores". Pure, except for the command.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/command.h"
#include "bench/transport/transport.h"

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
    std::string csv_folder, json_path;
};

std::span<const OptionOf<ReportsOptions>> reports_options();

// Reads the arguments after `reports`. Returns an error, or an empty string.
std::string read_reports_options(std::span<char* const> arguments, ReportsOptions& options);

// Of one trial. Times in microseconds; all per report.
struct ReportCost {
    Number mean_us, p50_us, p99_us;     // from the report to its answer, without the next report
    Number node_us;                     // the node's time per report, by its own account
    Number node_cpu_us, client_cpu_us;  // whole processes
    Number writes, sends, doorbells;    // on this side, over RDMA
};

struct ReportMetric {
    const char* name;
    Number ReportCost::*field;
};
const std::vector<ReportMetric>& report_metrics();

struct ReportPoint {
    const ReportWay* way;
    uint32_t bytes;
    std::vector<ReportCost> trials;

    Number mean(Number ReportCost::*field) const;
    Number deviation(Number ReportCost::*field) const;  // sample standard deviation
};

std::string reports_csv(const std::vector<ReportPoint>& points);
// A list with one object per point.
std::string reports_json(const std::vector<ReportPoint>& points);
std::string reports_text(const ReportsOptions& options, const std::vector<ReportPoint>& points);

}  // namespace farcached::bench
