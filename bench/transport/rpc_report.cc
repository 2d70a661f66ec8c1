// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/command.h"
#include "bench/transport/rpc_points.h"

namespace farcached::bench {

namespace {

std::string value_text(const RpcPoint& point) { return point.value_bytes == 0 ? "trace" : std::to_string(point.value_bytes); }

Number trips_of(const Measured& m) {
    if (!m.device.operations_in.has_value() || !m.device.operations_out.has_value()) return {};
    return *m.device.operations_in + *m.device.operations_out;
}

uint32_t clients_most(const std::vector<RpcResult>& points) {
    uint32_t most = 0;
    for (const RpcResult& one : points) most = std::max(most, one.point.clients);
    return most;
}

// ---- tables -----------------------------------------------------------------------------------------

const char* title_of(uint32_t figure) {
    switch (figure) {
        case 4: return "Figure 4, and the means of Figure 5: by the number of clients";
        case 6: return "Figure 6: by the share of GETs";
        case 7: return "Figure 7: by the length of values";
        case 8: return "Figure 8: READs that hold 128 bytes of a value";
        case 9: return "Figure 9: keys by Zipf 0.99";
        default: return "Figure 10: lengths as in the trace";
    }
}

std::string row_of(const RpcResult& one, const RpcPaper& paper) {
    const Measured& m = one.mean;
    const RpcPoint& point = one.point;
    std::string text = form("%-5s %4u %6s %7u", rpc_mode_name(point.mode).data(), point.get_percent, value_text(point).c_str(),
                            point.clients);
    for (const Number& count :
         {trips_of(m), m.device.operations_in, m.device.operations_out, m.device.node_sends, m.rfp.fetched, m.rfp.fetches_early,
          m.rfp.second_reads})
        text += form(" %7s", shown(count, "%.3f").c_str());
    text += form(" %9s %8.2f %9.1f %9.1f", shown(m.node_cpu_us_per_op, "%.1f").c_str(), *m.ops_per_s / 1e3, *m.mean_us, *m.p99_us);
    text += form("  | %6s %6s %6s %6s", shown(nic_mops(m.device.operations_in, m.device.operations_out), "%.2f").c_str(),
                 shown(paper.mops, "%.2f").c_str(), shown(paper.round_trips, "%.3f").c_str(),
                 shown(paper.mean_us, "%.2f").c_str());
    return text + (one.rpc == rpc_mode_name(point.mode) ? "" : "  by " + one.rpc) + "\n";
}

std::string figure_table(uint32_t figure, const std::vector<RpcResult>& points) {
    std::string rows;
    uint32_t rfs = 0;
    for (const RpcResult& one : points) {
        if (one.point.figure != figure) continue;
        rfs = one.point.rfs;
        rows += row_of(one, paper_of(one.point, clients_most(points)));
    }
    if (rows.empty()) return {};
    std::string text = form("\n%s; the paper's READs have %u bytes, ours %u\n", title_of(figure), rfs, fetch_bytes_of(rfs));
    text += form("%-5s %4s %6s %7s %7s %7s %7s %7s %7s %7s %7s %9s %8s %9s %9s  | %6s %6s %6s %6s\n", "rpc", "GET%", "bytes",
                 "clients", "trips", "served", "posted", "SENDs", "fetched", "early", "second", "node us", "*kops/s", "*mean us",
                 "*p99 us", "model", "MOPS", "trips", "us");
    return text + rows;
}

// A ratio of the paper between two ways of requests, beside ours and the model's.
std::string ratio_line(const std::vector<RpcResult>& points, RpcPoint of, RpcMode over, double paper) {
    const RpcResult* a = find_point(points, of);
    of.mode = over;
    const RpcResult* b = find_point(points, of);
    if (a == nullptr || b == nullptr) return {};
    const Number model_a = nic_mops(a->mean.device.operations_in, a->mean.device.operations_out);
    const Number model_b = nic_mops(b->mean.device.operations_in, b->mean.device.operations_out);
    Number model;
    if (model_a.has_value() && model_b.has_value()) model = *model_a / *model_b;
    return form("rfp over %-5s, %2u %% GET: rate x %.2f here*, x %s by the model, x %.2f in RFP\n", rpc_mode_name(over).data(),
                of.get_percent, *a->mean.ops_per_s / *b->mean.ops_per_s, shown(model, "%.2f").c_str(), paper);
}

std::string ratios(const std::vector<RpcResult>& points) {
    constexpr double over_write = 2.58, over_send = 4.1, over_send_puts = 15;  // "158 %", "310 %", "14X" higher
    std::string text;
    for (const RpcResult& one : points) {
        const RpcPoint& point = one.point;
        if (point.mode != RpcMode::rfp) continue;
        if (point.figure == 4) {
            text += ratio_line(points, point, RpcMode::write, over_write);
            text += ratio_line(points, point, RpcMode::send, over_send);
        }
        if (point.figure == 6 && point.get_percent == 5) text += ratio_line(points, point, RpcMode::send, over_send_puts);
    }
    return text.empty() ? text : "\n" + text;
}

constexpr const char* columns_text =
    "RPC over RDMA, as in RFP: A Remote Fetching Paradigm for RDMA-Accelerated Systems (Su et al.); behind |, the model and the\n"
    "paper's text. Its write is ServerReply, its send RDMA-Memcached. Per operation:\n"
    "  trips    RDMA operations of both ends: served and posted\n"
    "  served   operations that the node's device serves\n"
    "  posted   operations that the node posts; SENDs: of these, by the counters of a device that both ends use\n"
    "  fetched  replies that READs brought; early: READs that found none; second: READs of the rest of a long reply\n"
    "  node us  CPU time of the node in microseconds\n"
    "* depends on the device: no rate or latency of a device made in software (soft-RoCE) compares with the paper's\n";

constexpr const char* tables_text =
    "\nTables I and II, operations of 32 bytes: a NIC of the paper serves 11.26 MOPS (in-bound) and posts 2.11 MOPS (out-bound);\n"
    "from 1.5 KB on the rates are equal. Not measured: a device made in software has one rate for both.\n"
    "model: MOPS of that NIC for the operations counted here: 11.26 / served or 2.11 / posted, the less; without its bandwidth\n";

// ---- CSV --------------------------------------------------------------------------------------------

constexpr std::string_view point_names = "figure,rpc,get_percent,value_bytes,zipf,rfs,fetch_bytes,clients";

std::string point_cells(const RpcPoint& point) {
    return form("%u,%s,%u,%s,%s,%u,%u,%u", point.figure, rpc_mode_name(point.mode).data(), point.get_percent,
                value_text(point).c_str(), point.skewed ? "0.99" : "0", point.rfs, fetch_bytes_of(point.rfs), point.clients);
}

std::string parameters(const Sweep& sweep, const RpcPoint& point) {
    return point_cells(point) + form(",%llu,%llu,%llu,%llu,%s,%s", (unsigned long long)sweep.operations,
                                     (unsigned long long)sweep.warmup, (unsigned long long)sweep.keys,
                                     (unsigned long long)sweep.seed, wait_names[size_t(sweep.spin)].data(),
                                     sweep.profile ? "yes" : "no");
}

}  // namespace

std::string rpc_trials_head() {
    return trials_head(std::string(point_names) + ",operations,warmup,keys,seed,wait,profile");
}

std::string rpc_trials_row(const Sweep& sweep, const RpcTrial& trial) {
    return trial_row(parameters(sweep, trial.point), trial.number, trial);
}

std::vector<RpcTrial> read_rpc_trials(std::string_view csv, const Sweep& sweep, const RpcSweep& rpc) {
    return read_trials_of(csv, rpc_trials_head(), rpc_points(rpc, sweep.clients), sweep.trials,
                          [&](const RpcPoint& point) { return parameters(sweep, point); });
}

std::string rpc_csv(const Sweep& sweep, const std::vector<RpcResult>& points) {
    std::string text = std::string(point_names) + ",rpc_at_end,trials,operations,wait,model_mops,paper_mops,paper_round_trips,"
                       "paper_mean_us" + mean_names() + "\n";
    for (const RpcResult& one : points) {
        const RpcPaper paper = paper_of(one.point, clients_most(points));
        text += point_cells(one.point) + "," + rpc_cell(one.rpc);
        text += form(",%u,%llu,%s", one.trials, (unsigned long long)sweep.operations, wait_names[size_t(sweep.spin)].data());
        for (const Number& number :
             {nic_mops(one.mean.device.operations_in, one.mean.device.operations_out), paper.mops, paper.round_trips,
              paper.mean_us})
            text += "," + csv_number(number);
        text += mean_cells(one.mean, one.deviation) + "\n";
    }
    return text;
}

std::string rpc_json(const std::vector<RpcResult>& points) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const RpcResult& one : points) {
        const RpcPoint& point = one.point;
        const Measured& m = one.mean;
        const RpcPaper paper = paper_of(point, clients_most(points));
        nlohmann::ordered_json object;
        object["figure"] = point.figure;
        object["rpc"] = rpc_mode_name(point.mode);
        object["rpc_at_end"] = one.rpc;
        object["get_percent"] = point.get_percent;
        object["value_bytes"] = point.value_bytes == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(point.value_bytes);
        object["zipf"] = point.skewed ? 0.99 : 0;
        object["rfs"] = point.rfs;
        object["fetch_bytes"] = fetch_bytes_of(point.rfs);
        object["clients"] = point.clients;
        add_numbers(object, m);
        object["round_trips_per_op"] = or_null(trips_of(m));
        object["operations_in_per_op"] = or_null(m.device.operations_in);
        object["operations_out_per_op"] = or_null(m.device.operations_out);
        object["node_sends_per_op"] = or_null(m.device.node_sends);
        object["writes_per_op"] = or_null(m.verbs.writes);
        object["fetches_per_op"] = or_null(m.rfp.fetches);
        object["fetched_per_op"] = or_null(m.rfp.fetched);
        object["fetches_early_per_op"] = or_null(m.rfp.fetches_early);
        object["second_reads_per_op"] = or_null(m.rfp.second_reads);
        object["wakeups_per_op"] = or_null(m.rfp.wakeups);
        object["switched_per_op"] = or_null(m.rfp.switched);
        object["model_mops"] = or_null(nic_mops(m.device.operations_in, m.device.operations_out));
        object["paper_mops"] = or_null(paper.mops);
        object["paper_round_trips"] = or_null(paper.round_trips);
        object["paper_mean_us"] = or_null(paper.mean_us);
        list.push_back(std::move(object));
    }
    return list.dump(2) + "\n";
}

std::string rpc_text(const Sweep& sweep, const std::vector<RpcResult>& points) {
    std::string text = columns_text;
    text += form("%llu operations a trial after %llu, %u trials, %llu keys of 16 bytes, clients %s\n",
                 (unsigned long long)sweep.operations, (unsigned long long)sweep.warmup, sweep.trials,
                 (unsigned long long)sweep.keys, wait_names[size_t(sweep.spin)].data());
    text += tables_text;
    for (const uint32_t figure : rpc_figures) text += figure_table(figure, points);
    text += ratios(points);
    return text + errors_text(points);
}

std::string rpc_line(const RpcTrial& trial) {
    const Measured& m = trial.measured;
    const RpcPoint& point = trial.point;
    return form("Figure %u, %s, %u %% GET, %s bytes, %u clients, trial %u: %.0f operations/s, median %.1f us, %.0f errors",
                point.figure, rpc_mode_name(point.mode).data(), point.get_percent, value_text(point).c_str(), point.clients,
                trial.number, *m.ops_per_s, *m.p50_us, *m.errors);
}

}  // namespace farcached::bench
