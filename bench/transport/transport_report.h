// SPDX-License-Identifier: BSD-3-Clause
// The results of `farbench transport`: rows of CSV and their parsing, means over trials, JSON, and tables. The tables
// stand beside those of "Evaluating RDMA for Distributed Cache Reads and Metadata Updates" (McGuinness), whose
// experiment it repeats, and beside the C-Hint paper's Table 1 and Figure 2. Pure.
//
// R1  A row of trials.csv begins with everything that its numbers depend on; two rows are the same trial only if all of
//     that agrees.
// R2  Missing measurements are empty in CSV and null in JSON, never 0.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/transport/trial.h"

namespace farcached::bench {

struct PointResult {
    Point point{};
    uint32_t trials = 0;
    Measured mean;  // over the trials with this number; errors: their sum
    Measured deviation;  // sample standard deviation; none for one trial
    std::string first_error;
};

// The cost of verifying an item's check.
struct CheckCost {
    uint32_t value_bytes;
    double us;
};
using CheckCosts = std::vector<CheckCost>;
// The value sizes in Table 1 of the C-Hint paper.
std::vector<uint32_t> table_1_sizes();

// In the order of the points' first appearance.
std::vector<PointResult> aggregate(const std::vector<Trial>& trials);

// Lines end with a newline. reached: the medium of the transport.
std::string trials_csv_head();
std::string trials_csv_row(const Sweep& sweep, Via reached, const Trial& trial);
std::string points_csv(const Sweep& sweep, const std::vector<PointResult>& points);
// The rows of a trials.csv that this sweep would write. An incomplete last line is ignored.
std::vector<Trial> read_trials(std::string_view csv, const Sweep& sweep, const TestedNode& node);

// A list with one object per point.
std::string transport_json(const std::vector<PointResult>& points);
// reached: the medium of READs.
std::string transport_text(const Sweep& sweep, Via reached, const std::vector<PointResult>& points, const CheckCosts& checks);
// One line of progress.
std::string trial_line(const Trial& trial);

}  // namespace farcached::bench
