// SPDX-License-Identifier: BSD-3-Clause
// The results of `farbench reports`: means over trials, CSV, JSON, and a table beside Figure 10 of "C-Hint: An
// Effective and Reliable Cache Management for RDMA-Accelerated Key-Value Stores". Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/reports/reports_options.h"

namespace farcached::bench {

// Of one trial. Times in microseconds; all per report. Unknown values are none: empty in CSV, null in JSON.
struct ReportCost {
    using Number = std::optional<double>;
    Number mean_us, p50_us, p99_us;     // from the report to its answer, without the next report
    Number node_us;                     // the node's time per report, by its own account
    Number node_cpu_us, client_cpu_us;  // whole processes
    Number writes, sends, doorbells;    // on this side, over RDMA
};

struct ReportMetric {
    const char* name;
    ReportCost::Number ReportCost::*field;
};
const std::vector<ReportMetric>& report_metrics();

struct ReportPoint {
    const ReportWay* way;
    uint32_t bytes;
    std::vector<ReportCost> trials;

    ReportCost::Number mean(ReportCost::Number ReportCost::*field) const;
    ReportCost::Number deviation(ReportCost::Number ReportCost::*field) const;  // sample standard deviation
};

std::string reports_csv(const std::vector<ReportPoint>& points);
// A list with one object per point.
std::string reports_json(const std::vector<ReportPoint>& points);
std::string reports_text(const ReportsOptions& options, const std::vector<ReportPoint>& points);

}  // namespace farcached::bench
