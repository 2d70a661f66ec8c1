// SPDX-License-Identifier: BSD-3-Clause
// One trial of one point of `farbench transport`: clients connect, store the keys, warm up together, run the measurement
// together, and disconnect. And the results of the trials: rows of CSV and their parsing, means, JSON, and tables. The tables
// stand beside those of "Evaluating RDMA for Distributed Cache Reads and Metadata Updates" (McGuinness), whose experiment it
// repeats, and beside the C-Hint paper's Table 1 and Figure 2. The results are pure.
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
#include "bench/transport/results.h"
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

struct Point {
    Transport transport;
    Workload workload;
    uint32_t clients;
    auto operator<=>(const Point&) const = default;
};

using Trial = TrialOf<Point>;
using PointResult = ResultOf<Point>;

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

// Throws std::runtime_error if the node is unreachable. None: interrupted.
std::optional<Outcome> run_plan(const Sweep& sweep, const TestedNode& node, const TrialPlan& plan, uint32_t number,
                                const std::atomic<bool>& stop);
std::optional<Trial> run_trial(const Sweep& sweep, const TestedNode& node, const Point& point, uint32_t number,
                               const std::atomic<bool>& stop);
// Different in each run: replacing a leased item earns no lease until the old lease ends.
uint16_t this_run();

// ---- results (transport_report.cc) -------------------------------------------------------------------------
// The cost of verifying an item's check.
struct CheckCost {
    uint32_t value_bytes;
    double us;
};
using CheckCosts = std::vector<CheckCost>;
// The value sizes in Table 1 of the C-Hint paper.
std::vector<uint32_t> table_1_sizes();

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
