// SPDX-License-Identifier: BSD-3-Clause
// What `farbench transport` has measured: rows of CSV and back, means over trials, JSON, and tables beside those of
// "Evaluating RDMA for Distributed Cache Reads and Metadata Updates" (McGuinness), whose experiment it is. Pure.
//
// R1  A row of trials.csv begins with all that the numbers depend upon; only what agrees in all of that is the same trial.
// R2  What was not measured is empty in CSV and null in JSON, never 0.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/transport_trial.h"

namespace farcached::bench {

struct PointResult {
    Point point{};
    uint32_t trials = 0;
    Measured mean;  // over the trials that know the number; errors: their sum
    Measured deviation;  // sample standard deviation; nothing of one trial
    std::string first_error;
};

// In the order in which points first appear.
std::vector<PointResult> aggregate(const std::vector<Trial>& trials);

// Lines end with a newline. reached: over what the transport goes.
std::string trials_csv_head();
std::string trials_csv_row(const Sweep& sweep, Via reached, const Trial& trial);
std::string points_csv(const Sweep& sweep, const std::vector<PointResult>& points);
// The rows of a trials.csv that this sweep would write. A last line that was not written whole is none.
std::vector<Trial> read_trials(std::string_view csv, const Sweep& sweep, const TestedNode& node);

// A list of one object for each point.
std::string transport_json(const std::vector<PointResult>& points);
std::string transport_text(const Sweep& sweep, const std::vector<PointResult>& points);
// One line of progress.
std::string trial_line(const Trial& trial);

}  // namespace farcached::bench
