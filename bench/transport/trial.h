// SPDX-License-Identifier: BSD-3-Clause
// One trial of one point of `farbench transport`: clients connect, store the keys, warm up together, run the measurement
// together, and disconnect. And the results of the trials: rows of CSV and their parsing, means, JSON, and tables. The tables
// stand beside those of "Evaluating RDMA for Distributed Cache Reads and Metadata Updates" (McGuinness), whose experiment it
// repeats, and beside the C-Hint paper's Table 1 and Figure 2. The results are pure.
//
// R1  A row of trials.csv begins with everything that its numbers depend on; two rows are the same trial only if all of
//     that agrees.
// R2  Missing measurements are empty in CSV and null in JSON, never 0.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/rpc_mode.h"
#include "bench/data.h"
#include "bench/transport/node_process.h"
#include "bench/transport/transport.h"
#include "fabric/verbs/verbs_channel.h"

namespace farcached::bench {

// Counters of RDMA devices, as reported by `rdma statistic show`.
struct DeviceCounters {
    uint64_t sends = 0;    // completed SENDs
    uint64_t packets = 0;  // packets sent

    DeviceCounters operator-(const DeviceCounters& earlier) const {
        return {sends - earlier.sends, packets - earlier.packets};
    }
};

// The sum over all devices of this host; none if no device has these counters (soft-RoCE has).
std::optional<DeviceCounters> device_counters();

// Measures the cost of verifying an item's check (protocol/layout_hash.h), as every reader by READ does. Table 1 of the
// C-Hint paper has it for CRC64.
// Microseconds per item with a value of that size, in this thread and from the cache: the median of some rounds.
double check_cost_us(uint32_t value_bytes);

// The measurements; unknown ones are none. Times in microseconds, counts per operation.
struct Measured {
    Number ops_per_s, mean_us, p50_us, p95_us, p99_us, p999_us, errors;
    Number node_cpu_us_per_op, client_cpu_us_per_op;
    Number onesided_share;  // GETs answered by a READ
    Number reads, sends, receives, atomics, doorbells, wire_bytes;  // by this program's counters
    Number writes, wakeups, fetches, fetches_early, second_reads, switched;  // likewise (fabric/channel.h)
    Number fetched;  // replies that READs brought
    Number operations_in, operations_out;  // RDMA operations that the node's device served, and those that the node posted
    Number node_sends;                     // SENDs among the latter, by a device that both ends use
    Number device_sends, device_packets;                            // by the RDMA devices' counters; the values expected there
    Number expected_sends, expected_packets;
    Number begin_us, post_us, wait_us, finish_us;  // Sweep::profile
};

struct Metric {
    const char* name;
    Number Measured::*field;
};
const std::vector<Metric>& metrics();

struct Point {
    Transport transport;
    Workload workload;
    uint32_t clients;
    auto operator<=>(const Point&) const = default;
};

struct Trial {
    Point point{};
    uint32_t number = 0;  // from 1
    Measured measured;
    std::string first_error;
};

// The node's address for that transport, or the reason why there is none.
Result<NodePlace> place_for(Transport transport, const TestedNode& node);

// The load of a trial's clients, beside the sweep's numbers.
struct TrialPlan {
    Transport transport{};
    uint32_t clients = 0;
    uint32_t sets_percent = 0;
    double zipf = 0;
    std::vector<ValueSizes> sizes;  // of values
    fabric::RpcWish rpc = {RpcMode::send};
    std::string key_prefix;
};
struct Outcome {
    Measured measured;
    std::string first_error;
    std::string rpc;  // way of requests at the end: "rfp", "send, rfp"; empty: not over RDMA
};

// Throws std::runtime_error if the node is unreachable. None: interrupted.
std::optional<Outcome> run_plan(const Sweep& sweep, const TestedNode& node, const TrialPlan& plan, uint32_t number,
                                const std::atomic<bool>& stop);
std::optional<Trial> run_trial(const Sweep& sweep, const TestedNode& node, const Point& point, uint32_t number,
                               const std::atomic<bool>& stop);
// Different in each run: replacing a leased item earns no lease until the old lease ends.
uint16_t this_run();

// ---- results (transport_report.cc) -------------------------------------------------------------------------
struct PointResult {
    Point point{};
    uint32_t trials = 0;
    Measured mean;  // over the trials with this number; errors: their sum
    Measured deviation;  // sample standard deviation; none for one trial
    std::string first_error;
};

// Mean and deviation of these trials, number by number, over those that have it; errors: their sum.
void summarise(const std::vector<const Measured*>& trials, Measured& mean, Measured& deviation);

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
