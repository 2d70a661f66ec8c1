// SPDX-License-Identifier: BSD-3-Clause
// The results of `farbench transport` for both kinds of points: of transports, and of ways of requests over RDMA. They are means
// over trials, rows of CSV with their parsing, and JSON. Pure.
//
// R1  A row of a trials' file begins with everything that its numbers depend on; two rows are the same trial only if all of
//     that agrees.
// R2  Missing measurements are empty in CSV and null in JSON, never 0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/command.h"

namespace farcached::bench {

// What the program posted to its RDMA device, by its own counters (fabric/channel.h).
struct VerbsMeasured {
    Number reads, sends, receives, atomics, doorbells, wire_bytes, writes;
};

// The requests by rfp, by the same counters.
struct RfpMeasured {
    Number wakeups, fetches, fetches_early, second_reads, switched;
    Number fetched;  // replies that READs brought
};

// The work of the RDMA devices.
struct DeviceMeasured {
    Number operations_in, operations_out;     // RDMA operations that the node's device served, and those that the node posted
    Number node_sends;                        // SENDs among the latter, by a device that both ends use
    Number sends, packets;                    // by the devices' counters
    Number expected_sends, expected_packets;  // the values expected there
};

// Sweep::profile: the parts of an operation.
struct ProfileMeasured {
    Number begin_us, post_us, wait_us, finish_us;
};

// The measurements; unknown ones are none. Times in microseconds, counts per operation.
struct Measured {
    Number ops_per_s, mean_us, p50_us, p95_us, p99_us, p999_us, errors;
    Number node_cpu_us_per_op, client_cpu_us_per_op;
    Number onesided_share;  // GETs answered by a READ
    VerbsMeasured verbs;
    RfpMeasured rfp;
    DeviceMeasured device;
    ProfileMeasured profile;
};

struct Metric {
    const char* name;
    const Number& (*of)(const Measured&);
    Number& (*in)(Measured&);  // the same, to set it
};
const std::vector<Metric>& metrics();

struct Outcome {
    Measured measured;
    std::string first_error;
    std::string rpc;  // way of requests at the end: "rfp", "send, rfp"; empty: not over RDMA
};

template <class P>
struct TrialOf : Outcome {
    P point{};
    uint32_t number = 0;  // from 1
};

template <class P>
struct ResultOf {
    P point{};
    uint32_t trials = 0;
    std::string rpc;     // of the last trial
    Measured mean;       // over the trials with this number; errors: their sum
    Measured deviation;  // sample standard deviation; none for one trial
    std::string first_error;
};

// Mean and deviation of these trials, number by number, over those that have it; errors: their sum.
void summarise(const std::vector<const Measured*>& trials, Measured& mean, Measured& deviation);

// Null: it was not measured.
template <class P>
const ResultOf<P>* find_point(const std::vector<ResultOf<P>>& points, const P& point) {
    const auto found = std::find_if(points.begin(), points.end(), [&](const auto& one) { return one.point == point; });
    return found == points.end() ? nullptr : &*found;
}

// In the order of the points' first appearance.
template <class P>
std::vector<ResultOf<P>> aggregate(const std::vector<TrialOf<P>>& trials) {
    std::vector<ResultOf<P>> points;
    for (const TrialOf<P>& trial : trials) {
        if (find_point(points, trial.point) != nullptr) continue;
        ResultOf<P>& result = points.emplace_back();
        result.point = trial.point;
        std::vector<const Measured*> same;
        for (const TrialOf<P>& one : trials) {
            if (one.point != trial.point) continue;
            same.push_back(&one.measured);
            result.rpc = one.rpc;
            if (result.first_error.empty()) result.first_error = one.first_error;
        }
        result.trials = uint32_t(same.size());
        summarise(same, result.mean, result.deviation);
    }
    return points;
}

// ---- CSV. Lines end with a newline. -------------------------------------------------------------------

// parameters: those of R1, separated by commas; here their names.
std::string trials_head(std::string_view parameters);
std::string trial_row(const std::string& parameters, uint32_t number, const Outcome& outcome);

// The trials 1 to trials_max in rows with these parameters, each once. An incomplete last line is ignored.
struct NumberedOutcome {
    uint32_t number = 0;
    Outcome outcome;
};
std::vector<NumberedOutcome> read_trial_rows(std::string_view csv, const std::string& parameters, uint32_t trials_max);

// The trials of these points in a file with that head. parameters(point): R1's; empty: none of this run.
template <class P, class Parameters>
std::vector<TrialOf<P>> read_trials_of(std::string_view csv, const std::string& head, const std::vector<P>& points,
                                       uint32_t trials_max, Parameters parameters) {
    std::vector<TrialOf<P>> trials;
    if (!csv.starts_with(head)) return trials;
    for (const P& point : points) {
        const std::string wanted = parameters(point);
        if (wanted.empty()) continue;
        for (NumberedOutcome& row : read_trial_rows(csv.substr(head.size()), wanted, trials_max)) {
            TrialOf<P>& trial = trials.emplace_back();
            static_cast<Outcome&>(trial) = std::move(row.outcome);
            trial.point = point;
            trial.number = row.number;
        }
    }
    return trials;
}

// The means' columns, each with its deviation: ",mean_us,mean_us_sd" and so on.
std::string mean_names();
std::string mean_cells(const Measured& mean, const Measured& deviation);
// A way of requests as a cell: "send+rfp".
std::string rpc_cell(const std::string& rpc);

// ---- JSON, and the end of a text --------------------------------------------------------------------------

nlohmann::ordered_json or_null(const Number& number);
// Rate, latencies, errors, and CPU time of both sides.
void add_numbers(nlohmann::ordered_json& object, const Measured& mean);

std::string errors_text(double errors, const std::string& first);
template <class P>
std::string errors_text(const std::vector<ResultOf<P>>& points) {
    double errors = 0;
    std::string first;
    for (const ResultOf<P>& one : points) {
        errors += one.mean.errors.value_or(0);
        if (first.empty()) first = one.first_error;
    }
    return errors_text(errors, first);
}

}  // namespace farcached::bench
