// SPDX-License-Identifier: BSD-3-Clause
#include "bench/transport/rpc_points.h"

#include <algorithm>
#include <cmath>

#include "bench/rnic/rpc_costs.h"
#include "fabric/verbs/verbs_slots.h"
#include "protocol/frame_layout.h"

namespace farcached::bench {

namespace {

constexpr uint32_t small_bytes = 32;
constexpr uint32_t rfs_small = 36, rfs_medium = 132, rfs_trace = 512;
constexpr uint32_t shares_of_gets[] = {95, 50, 5};

struct Workloads {
    uint32_t figure;
    std::vector<uint32_t> get_percents, value_bytes;
    bool skewed;
    uint32_t rfs;
};

std::vector<Workloads> all_workloads() {
    const std::vector<uint32_t> shares(std::begin(shares_of_gets), std::end(shares_of_gets));
    return {
        {4, {95}, {small_bytes}, false, rfs_small},
        {6, shares, {small_bytes}, false, rfs_small},
        {7, {95}, {32, 64, 128, 256, 512, 1024}, false, rfs_small},
        {8, {95}, {32, 64, 128}, false, rfs_medium},
        {9, shares, {small_bytes}, true, rfs_small},
        {10, shares, {0}, false, rfs_trace},
    };
}

constexpr uint32_t trace_bytes_max = 899, trace_bytes_mean = 43;

}  // namespace

std::vector<RpcPoint> rpc_points(const RpcSweep& rpc, std::span<const uint32_t> clients) {
    std::vector<RpcPoint> points;
    const uint32_t most = *std::max_element(clients.begin(), clients.end());
    const std::vector<uint32_t> only_most{most}, each(clients.begin(), clients.end());
    auto add = [&](const Workloads& kind, uint32_t get_percent, uint32_t value_bytes) {
        for (const uint32_t count : kind.figure == 4 ? each : only_most)
            for (const RpcMode mode : rpc.modes)
                if (kind.figure != 8 || mode == RpcMode::rfp)
                    points.push_back({kind.figure, get_percent, value_bytes, kind.skewed, kind.rfs, mode, count});
    };
    for (const Workloads& kind : all_workloads()) {
        if (std::find(rpc.figures.begin(), rpc.figures.end(), kind.figure) == rpc.figures.end()) continue;
        for (const uint32_t get_percent : kind.get_percents)
            for (const uint32_t value_bytes : kind.value_bytes) add(kind, get_percent, value_bytes);
    }
    return points;
}

uint32_t fetch_bytes_of(uint32_t rfs) {
    using namespace protocol;
    constexpr uint32_t theirs = 4;  // two of the header, two of the value's length
    constexpr uint32_t ours = sizeof(fabric::SlotHead) + sizeof(FrameHeader) + sizeof(ClockRecord) + sizeof(ReplyHeader) +
                              sizeof(MetaRecord);
    static_assert(ours == 104);
    return rfs - theirs + ours;
}

std::vector<ValueSizes> trace_sizes() {
    constexpr double whole = 1 << 30, shorter = 1.0 / trace_bytes_mean;
    std::vector<ValueSizes> sizes;
    for (uint32_t bytes = 1; bytes <= trace_bytes_max; bytes++) {
        const double weight = whole * shorter * std::pow(1 - shorter, bytes - 1);
        sizes.push_back({bytes, bytes, uint32_t(std::max(1.0, std::round(weight)))});
    }
    return sizes;
}

TrialPlan plan_of(const RpcPoint& point) {
    constexpr double skew = 0.99;
    TrialPlan plan;
    plan.transport = Transport::twosided;
    plan.clients = point.clients;
    plan.sets_percent = 100 - point.get_percent;
    plan.zipf = point.skewed ? skew : 0;
    plan.sizes = point.value_bytes == 0 ? trace_sizes() : std::vector<ValueSizes>{{point.value_bytes, point.value_bytes}};
    plan.rpc = {point.mode, fetch_bytes_of(point.rfs)};
    plan.key_prefix = form("rpc-%04x:", unsigned(this_run()));  // with its digits a key of 16 bytes, as in the paper
    return plan;
}

// Section V: B and C (Figures 4 and 5), D (Figures 6 to 10).
RpcPaper paper_of(const RpcPoint& point, uint32_t clients_most) {
    constexpr double rfp_peak = 5.5, write_peak = 2.1, send_peak = 1.3;
    RpcPaper paper;
    if (point.clients != clients_most) return paper;
    const bool rfp = point.mode == RpcMode::rfp, write = point.mode == RpcMode::write, send = point.mode == RpcMode::send;
    const bool as_figure_4 = point.get_percent == 95 && point.value_bytes == small_bytes && !point.skewed;
    if (as_figure_4 && point.rfs == rfs_small) {
        if (rfp) paper = {rfp_peak, 2.005, 5.78};
        if (write) paper = {write_peak, 2.0, 12.06};
        if (send) paper = {send_peak, {}, 14.76};
        return paper;
    }
    switch (point.figure) {
        case 6:
            if (rfp) paper.mops = rfp_peak;
            if (write) paper.mops = write_peak;
            break;
        case 7:
            if (rfp && point.value_bytes <= 512) paper.mops = 0.68 * rfp_peak;  // "about 32 % lower"
            if (rfp && point.value_bytes <= 512) paper.round_trips = 3;
            if (rfp && point.value_bytes == 1024) paper.mops = 3.1;
            break;
        case 8: paper.mops = rfp_peak; break;
        case 9:
            if (rfp) paper.mops = rfp_peak;
            if (write || (send && point.get_percent == 95)) paper.mops = write_peak;
            break;
        case 10:
            if (rfp) paper.mops = 5.4;
            break;
        default: break;
    }
    return paper;
}

Number nic_mops(const Number& operations_in, const Number& operations_out) {
    if (!operations_in.has_value() || !operations_out.has_value() || *operations_in + *operations_out == 0) return {};
    return jakiro_costs.mops({*operations_in, *operations_out, 0, 0});
}

}  // namespace farcached::bench
