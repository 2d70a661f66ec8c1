// SPDX-License-Identifier: BSD-3-Clause
// farbench transport's pure parts: its options, means over trials, and its rows of CSV and back.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "bench/transport/rpc_points.h"
#include "bench/transport/transport.h"
#include "bench/transport/trial.h"
#include "t/lib/tap.h"

namespace farcached::bench {

namespace {

std::string read(std::vector<std::string> words, TransportOptions& options) {
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    return read_transport_options(arguments, options);
}

void check_options() {
    TransportOptions options;
    tap::is(read({"--spawn", "verbs"}, options), std::string(), "--spawn alone is enough");
    const Sweep& sweep = options.sweep;
    tap::ok(sweep.transports.size() == 5 && sweep.clients == std::vector<uint32_t>{1, 2, 4, 8} && sweep.workloads.size() == 2,
            "all of the paper's experiment, in both mixes");
    tap::ok(sweep.operations == 100'000 && sweep.warmup == 5000 && sweep.keys == 1024 && sweep.trials == 3 &&
                sweep.value_bytes == 64 && sweep.zipf == 0.8,
            "with the paper's numbers");
    TransportOptions other;
    tap::is(read({"--quick", "--operations=7", "tcp:[::1]:11300", "verbs:10.0.0.1:11301", "--transports",
                  "onesided+atomic,tcp", "--mix", "95:5", "--wait", "spin"},
                 other),
            std::string(), "addresses, and what stands behind --quick");
    tap::ok(other.places.size() == 2 && other.places[0].via == Via::tcp && other.places[0].host == "::1" &&
                other.places[1].via == Via::verbs && other.places[1].port == 11301,
            "are understood");
    tap::ok(other.sweep.operations == 7 && other.sweep.keys == 128 && other.sweep.spin &&
                other.sweep.transports == std::vector<Transport>{Transport::atomic, Transport::tcp} &&
                other.sweep.workloads == std::vector<Workload>{Workload::mixed},
            "each of them");
    for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
             {}, {"--spawn", "none"}, {"--spawn", "tcp", "--clients", ""}, {"--spawn", "tcp", "--value-bytes", "23"},
             {"--spawn", "tcp", "--zipf", "-1"}, {"--spawn", "tcp", "--quick=1"}, {"--spawn"}}) {
        TransportOptions ignored;
        tap::ok(!read(wrong, ignored).empty(), "refused: " + (wrong.empty() ? "nothing" : wrong.back()));
    }
}

Trial trial(uint32_t number, double ops, std::optional<double> cpu) {
    Trial made;
    made.point = {Transport::onesided, Workload::get, 2};
    made.number = number;
    Measured& m = made.measured;
    m.ops_per_s = ops;
    m.mean_us = m.p50_us = m.p95_us = m.p99_us = m.p999_us = 1e6 / ops;
    m.errors = 1;
    m.node_cpu_us_per_op = cpu;
    m.client_cpu_us_per_op = 3.5;
    return made;
}

void check_means() {
    Trial other = trial(1, 50, 1);
    other.point.clients = 1;
    const std::vector<PointResult> points = aggregate<Point>({trial(1, 100, 0), other, trial(2, 200, {}), trial(3, 300, 4)});
    tap::is(points.size(), size_t(2), "points are kept apart");
    const PointResult& one = points.front();
    tap::ok(one.trials == 3 && one.mean.ops_per_s == 200, "the mean of three trials");
    tap::ok(std::abs(*one.deviation.ops_per_s - 100) < 1e-9, "and their sample standard deviation");
    tap::ok(one.mean.errors == 3, "errors are added up");
    tap::ok(one.mean.node_cpu_us_per_op == 2, "a value missing in one trial does not count as 0");
    tap::ok(!points.back().deviation.ops_per_s.has_value(), "one trial deviates from nothing");
    tap::ok(!one.mean.profile.begin_us.has_value(), "a value missing in all trials stays absent");
    const std::string json = transport_json(points);
    const bool ordered = json.find("\"node_cpu_us_per_op\": 2.0,\n    \"client_cpu_us_per_op\": 3.5\n") != json.npos;
    tap::ok(ordered, "JSON, in its order");
    tap::ok(transport_json({}) == "[]\n", "a list, if an empty one");
}

void check_rows() {
    Sweep sweep;
    TransportOptions options;
    tap::is(read({"verbs:10.0.0.1:1"}, options), std::string(), "a node over RDMA");
    sweep = options.sweep;
    TestedNode node;
    node.places = options.places;
    const std::string rows =
        trials_csv_row(sweep, Via::verbs, trial(1, 100, {})) + trials_csv_row(sweep, Via::verbs, trial(3, 300, 4));
    const std::string csv = trials_csv_head() + rows;
    const std::vector<Trial> back = read_trials(csv, sweep, node);
    tap::is(back.size(), size_t(2), "rows are read again");
    tap::ok(back.size() == 2 && back[1].number == 3 && back[1].measured.ops_per_s == 300 &&
                back[1].measured.node_cpu_us_per_op == 4 && !back[0].measured.node_cpu_us_per_op.has_value(),
            "with all that they say");
    size_t whole = 0;
    for (size_t cut = 0; cut <= csv.size(); cut++) {
        const size_t read_then = read_trials(csv.substr(0, cut), sweep, node).size();
        if (read_then < whole || read_then > 2) break;
        whole = read_then;
    }
    tap::is(whole, size_t(2), "cut anywhere, a file has its whole rows and no others");
    tap::ok(read_trials(trials_csv_head() + rows + rows, sweep, node).size() == 2, "a trial counts once");
    Sweep otherwise = sweep;
    otherwise.seed++;
    tap::ok(read_trials(csv, otherwise, node).empty(), "of another seed they are other trials");
    otherwise = sweep;
    otherwise.spin = true;
    tap::ok(read_trials(csv, otherwise, node).empty(), "and of another way to wait");
    node.places[0].via = Via::shm;
    tap::ok(read_trials(csv, sweep, node).empty(), "and over another transport");
    tap::ok(read_trials("other," + csv, sweep, node).empty(), "another version's file is none");
    const std::string text = transport_text(sweep, Via::verbs, aggregate<Point>({trial(1, 1e5, 0)}), {});
    tap::ok(text.find("| ") != text.npos, "tables need no more than a point");
    tap::ok(text.find("C-Hint") == text.npos, "and tell of no figure without what it takes");
}

PointResult point(Transport transport, Workload workload, uint32_t clients, double us) {
    Trial made = trial(1, double(clients) * 1e6 / us, us / 2);
    made.point = {transport, workload, clients};
    made.measured.onesided_share = transport == Transport::onesided ? 1 : 0;
    return aggregate<Point>({made}).front();
}

void check_chint() {
    TransportOptions options;
    tap::is(read({"--spawn", "shm", "--value-bytes", "1024000", "--mix", "set"}, options), std::string(),
            "values of a thousand KB, SETs only");
    tap::ok(options.sweep.workloads == std::vector<Workload>{Workload::set}, "are understood");
    TransportOptions ignored;
    tap::ok(!read({"--spawn", "shm", "--value-bytes", "1024001"}, ignored).empty(), "no longer ones");
    tap::ok(table_1_sizes() == std::vector<uint32_t>{1024, 10'240, 102'400, 1'024'000}, "the sizes of Table 1");
    const std::vector<PointResult> points = {
        point(Transport::onesided, Workload::get, 1, 20), point(Transport::twosided, Workload::get, 1, 100),
        point(Transport::twosided, Workload::set, 1, 150), point(Transport::onesided, Workload::get, 4, 25),
        point(Transport::twosided, Workload::get, 4, 250)};
    Sweep sweep = options.sweep;
    sweep.value_bytes = 10'240;
    const CheckCosts checks = {{1024, 0.125}, {10'240, 1.5}};
    const std::string text = transport_text(sweep, Via::shm, points, checks);
    const auto has = [&](const char* what) { return text.find(what) != text.npos; };
    tap::ok(has("\n      1024       5.2      0.12  |       4.3         -  |        33.8         -\n"),
            "Table 1: the paper's CRC64 beside our check");
    tap::ok(has("\n     10240      40.3      1.50  |       8.1      20.0  |        45.4     150.0\n"),
            "and READs and SETs of the size that was measured");
    tap::ok(has("10240 bytes, 4 clients\n"), "Figure 2: of the most clients");
    tap::ok(has("by READ                     10.00 (C-Hint: -)\n"), "the paper has no figure for such long values");
    tap::ok(has("by request              10.00 (C-Hint, 32 clients, 99:1: up to 16.2)\n"), "throughput");
    tap::ok(has("125.00 and 12.50 (C-Hint: a busy core and none)\n"), "the node's CPU time");
    tap::ok(has("not reproduced: over shm"), "over shm it reports no such figure, and why");
    std::vector<PointResult> half = points;
    half[0].mean.onesided_share = 0.5;
    tap::ok(transport_text(sweep, Via::shm, half, checks).find("|       8.1         -  |        45.4     150.0\n") !=
                std::string::npos,
            "GETs that were not one-sided are no READs");
    const std::string rdma = transport_text(sweep, Via::verbs, points, checks);
    tap::ok(rdma.find("not reproduced") == rdma.npos && rdma.find("soft-RoCE") != rdma.npos, "over RDMA what it depends on");
    sweep.value_bytes = 64;
    tap::ok(transport_text(sweep, Via::shm, points, checks).find("(C-Hint: up to 10)\n") != std::string::npos,
            "of shorter ones it does");
    tap::ok(check_cost_us(1024) > 0, "a check takes time");
}

void check_rpc_options() {
    TransportOptions options;
    tap::is(read({"--spawn", "verbs", "--rpc", "send,write,rfp"}, options), std::string(), "--rpc, of a node over RDMA");
    tap::ok(options.rpc.modes == std::vector<RpcMode>{RpcMode::send, RpcMode::write, RpcMode::rfp}, "in this order");
    tap::is(rpc_points(options.rpc, options.sweep.clients).size(), size_t(3 * (4 + 3 + 6 + 3 + 3) + 3),
            "the points of all figures");
    TransportOptions other;
    tap::is(read({"verbs:10.0.0.1:1", "--rpc", "auto", "--figures", "8,10", "--clients", "1,3"}, other), std::string(),
            "some figures, and the automatic choice");
    const std::vector<RpcPoint> points = rpc_points(other.rpc, other.sweep.clients);
    tap::ok(points.size() == 3 && points[0].figure == 10 && points[0].get_percent == 95 && points[2].get_percent == 5 &&
                points[0].clients == 3,
            "Figure 8 is of rfp alone; each figure but the fourth has the most clients");
    for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
             {"--spawn", "shm", "--rpc", "rfp"}, {"--spawn", "verbs", "--rpc", "rfp,recv"},
             {"--spawn", "verbs", "--rpc", "rfp,rfp"}, {"--spawn", "verbs", "--rpc", "rfp", "--figures", "5"}}) {
        TransportOptions ignored;
        tap::ok(!read(wrong, ignored).empty(), "refused: " + wrong[3] + " " + wrong.back());
    }
}

void check_rpc_points() {
    tap::is(fetch_bytes_of(36), 136u, "a READ of 36 bytes in the paper, and ours, hold a value of 32 bytes");
    tap::ok(fetch_bytes_of(132) == 136 + 96 && fetch_bytes_of(512) == 136 + 476, "longer READs hold as much more");
    double values = 0, bytes = 0, above_512 = 0;
    uint32_t shortest = UINT32_MAX, longest = 0;
    for (const ValueSizes& one : trace_sizes()) {
        values += one.weight;
        bytes += double(one.weight) * one.bytes_min;
        if (one.bytes_min > 512) above_512 += one.weight;
        shortest = std::min(shortest, one.bytes_min);
        longest = std::max(longest, one.bytes_max);
    }
    tap::ok(shortest == 1 && longest == 899 && std::abs(bytes / values - 43) < 0.01, "lengths of the trace, and their mean");
    tap::ok(std::abs(above_512 / values * 50e6 - 331) < 50, "and how many are above 512 bytes");
    const RpcPoint rfp{4, 95, 32, false, 36, RpcMode::rfp, 8};
    tap::ok(paper_of(rfp, 8).mops == 5.5 && paper_of(rfp, 8).round_trips == 2.005 && paper_of(rfp, 8).mean_us == 5.78,
            "the paper's numbers stand beside its point");
    tap::ok(!paper_of(rfp, 16).mops.has_value(), "and not at fewer clients");
    const TrialPlan plan = plan_of({10, 5, 0, false, 512, RpcMode::rfp, 2});
    tap::ok(plan.sets_percent == 95 && plan.sizes.size() == 899 && plan.zipf == 0 && plan.rpc.mode == RpcMode::rfp &&
                plan.rpc.fetch_bytes == 612 && plan.key_prefix.size() == 9,
            "a point is a workload");
}

RpcTrial rpc_trial(const RpcPoint& point, double ops, double in, double out) {
    RpcTrial made;
    made.point = point;
    made.number = 1;
    made.rpc = rpc_mode_name(point.mode);
    Measured& m = made.measured;
    m.ops_per_s = ops;
    m.mean_us = m.p50_us = m.p99_us = m.p999_us = 1e6 / ops;
    m.errors = 0;
    m.device.operations_in = in;
    m.device.operations_out = out;
    return made;
}

void check_rpc_report() {
    tap::ok(!nic_mops(2.0, {}).has_value(), "the model needs both counts");
    tap::ok(std::abs(*nic_mops(2.005, 0.0) - 5.616) < 0.001 && *nic_mops(1.0, 1.0) == 2.11, "and takes the rarer resource");
    RpcPoint point{4, 95, 32, false, 36, RpcMode::write, 2};
    const RpcTrial write = rpc_trial(point, 1000, 1, 1);
    point.mode = RpcMode::rfp;
    const RpcTrial rfp = rpc_trial(point, 1500, 2, 0);
    const std::vector<RpcResult> points = aggregate<RpcPoint>({write, rfp, rfp});
    tap::ok(points.size() == 2 && points[1].trials == 2 && points[1].mean.ops_per_s == 1500, "trials of a point are one result");
    Sweep sweep;
    const std::string text = rpc_text(sweep, points);
    const auto has = [&](const char* what) { return text.find(what) != text.npos; };
    tap::ok(has("Figure 4, and the means of Figure 5: by the number of clients; the paper's READs have 36 bytes, ours 136\n"),
            "a table of a figure");
    tap::ok(has("\nrfp     95     32       2   2.000   2.000   0.000       -       -       -       -         -     1.50     666.7"),
            "our numbers");
    tap::ok(has("  |   5.63   5.50  2.005   5.78\n"), "the model's, and the paper's");
    tap::ok(has("\nrfp over write, 95 % GET: rate x 1.50 here*, x 2.67 by the model, x 2.58 in RFP\n"), "a ratio of all three");
    tap::ok(!has("Figure 7"), "no table without points");
    const std::string json = rpc_json(points);
    tap::ok(json.find("\"rpc\": \"rfp\"") != json.npos && json.find("\"node_cpu_us_per_op\": null") != json.npos, "JSON");
    tap::is(rpc_json({}), "[]\n", "a list, if an empty one");
    const std::string csv = rpc_csv(sweep, points);
    tap::ok(csv.find(",model_mops,paper_mops,") != csv.npos && csv.find("\n4,rfp,95,32,0,36,136,2,rfp,2,") != csv.npos, "CSV");
}

void check_rpc_rows() {
    TransportOptions options;
    tap::is(read({"--spawn", "verbs", "--rpc", "rfp,auto", "--figures", "6", "--clients", "2", "--csv", "x", "--resume"}, options),
            std::string(), "--resume, of ways of requests");
    const Sweep& sweep = options.sweep;
    RpcTrial one = rpc_trial({6, 50, 32, false, 36, RpcMode::automatic, 2}, 1000, 1, 1);
    one.rpc = "send, rfp";
    const std::string rows = rpc_trials_head() + rpc_trials_row(sweep, one);
    const std::vector<RpcTrial> back = read_rpc_trials(rows, sweep, options.rpc);
    tap::ok(back.size() == 1 && back[0].point == one.point && back[0].number == 1 && back[0].measured.device.operations_out == 1 &&
                !back[0].measured.device.node_sends.has_value(),
            "rows are read again");
    tap::is(back.empty() ? "" : back[0].rpc, "send, rfp", "with the ways at the end");
    Sweep other = sweep;
    other.keys++;
    tap::ok(read_rpc_trials(rows, other, options.rpc).empty(), "of another number of keys they are other trials");
    RpcSweep less = options.rpc;
    less.modes = {RpcMode::rfp};
    tap::ok(read_rpc_trials(rows, sweep, less).empty(), "and of another way of requests");
    tap::ok(read_rpc_trials(trials_csv_head() + rows, sweep, options.rpc).empty(), "a file of transports is none");
}

}  // namespace

}  // namespace farcached::bench

int main() {
    farcached::bench::check_options();
    farcached::bench::check_means();
    farcached::bench::check_rows();
    farcached::bench::check_chint();
    farcached::bench::check_rpc_options();
    farcached::bench::check_rpc_points();
    farcached::bench::check_rpc_report();
    farcached::bench::check_rpc_rows();
    return tap::done();
}
