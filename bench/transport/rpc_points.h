// SPDX-License-Identifier: BSD-3-Clause
// The points of `farbench transport --rpc`: the ways of requests over RDMA under the workloads of a paper, and their results as
// text, CSV and JSON. The paper is "RFP: A Remote Fetching Paradigm for RDMA-Accelerated Systems" (Su et al.). Its numbers stand
// beside ours. Pure.
//
// P1  A number of the paper stands only beside the point that the paper measured. A number that it only draws is none.
// P2  Rates depend on the device. A device made in software has one rate for the operations that it posts and that it serves, so
//     no ratio of rates here compares with the paper's. A NIC's rate comes from a model (nic_mops()), and is marked so.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/rpc_mode.h"
#include "bench/command.h"
#include "bench/data.h"
#include "bench/transport/transport.h"
#include "bench/transport/trial.h"

namespace farcached::bench {

struct RpcPoint {
    uint32_t figure = 0;       // of the paper
    uint32_t get_percent = 0;  // the others are SETs
    uint32_t value_bytes = 0;  // 0: as in the trace (trace_sizes())
    bool skewed = false;       // Zipf 0.99; else uniform
    uint32_t rfs = 0;          // the paper's remote fetching size
    RpcMode mode = RpcMode::automatic;
    uint32_t clients = 0;

    auto operator<=>(const RpcPoint&) const = default;
};

// Figures with points. Figure 5 has the latencies of Figure 4.
constexpr std::string_view rpc_figure_names[] = {"4", "6", "7", "8", "9", "10"};
constexpr uint32_t rpc_figures[] = {4, 6, 7, 8, 9, 10};

// Figure 4 at each number of clients, the others at the largest. Figure 8 varies a property of `rfp`: without the other modes.
// The modes of a workload stand side by side.
std::vector<RpcPoint> rpc_points(const RpcSweep& rpc, std::span<const uint32_t> clients);

// Bytes of a READ of a reply that holds as much of a value as the paper's READ of `rfs` bytes does. The paper has 4 bytes ahead of
// a value; here stand the head of the slot, the frame, the reply and the item's metadata.
uint32_t fetch_bytes_of(uint32_t rfs);

// Lengths from 1 to 899 bytes with a mean of 43, as the paper states of its trace. A geometric distribution with that mean has
// 1 of 171,000 values above 512 bytes; the trace has 1 of 151,000.
std::vector<ValueSizes> trace_sizes();

// The workload of the point, for run_plan().
TrialPlan plan_of(const RpcPoint& point);

// The numbers that the paper's text states. Its rates are peaks, at one number of clients; they stand at the most of ours.
struct RpcPaper {
    Number mops, round_trips, mean_us;
};
RpcPaper paper_of(const RpcPoint& point, uint32_t clients_most);

// Model: million operations a second of the paper's NIC with so many operations that it serves and that it posts. Its Tables I and
// II have the rate of either; the rarer resource limits.
Number nic_mops(const Number& operations_in, const Number& operations_out);

// ---- results (rpc_report.cc) -------------------------------------------------------------------------------
using RpcTrial = TrialOf<RpcPoint>;
using RpcResult = ResultOf<RpcPoint>;

// As for transports (bench/transport/trial.h).
std::string rpc_trials_head();
std::string rpc_trials_row(const Sweep& sweep, const RpcTrial& trial);
std::vector<RpcTrial> read_rpc_trials(std::string_view csv, const Sweep& sweep, const RpcSweep& rpc);

std::string rpc_csv(const Sweep& sweep, const std::vector<RpcResult>& points);
// A list with one object per point.
std::string rpc_json(const std::vector<RpcResult>& points);
std::string rpc_text(const Sweep& sweep, const std::vector<RpcResult>& points);
// One line of progress.
std::string rpc_line(const RpcTrial& trial);

}  // namespace farcached::bench
