// SPDX-License-Identifier: BSD-3-Clause
// farbench transport's pure parts: its options, means over trials, and its rows of CSV and back.
#include <cmath>
#include <string>
#include <vector>

#include "bench/transport_options.h"
#include "bench/transport_report.h"
#include "t/tap.h"

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
    const std::vector<PointResult> points = aggregate({trial(1, 100, 0), other, trial(2, 200, {}), trial(3, 300, 4)});
    tap::is(points.size(), size_t(2), "points are told apart");
    const PointResult& one = points.front();
    tap::ok(one.trials == 3 && one.mean.ops_per_s == 200, "the mean of three trials");
    tap::ok(std::abs(*one.deviation.ops_per_s - 100) < 1e-9, "and their sample standard deviation");
    tap::ok(one.mean.errors == 3, "errors are added up");
    tap::ok(one.mean.node_cpu_us_per_op == 2, "what one trial does not know is not 0");
    tap::ok(!points.back().deviation.ops_per_s.has_value(), "one trial deviates from nothing");
    tap::ok(!one.mean.begin_us.has_value(), "what nobody measured is nothing");
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
    const std::string text = transport_text(sweep, aggregate({trial(1, 1e5, 0)}));
    tap::ok(text.find("| ") != text.npos, "tables need no more than a point");
}

}  // namespace

}  // namespace farcached::bench

int main() {
    farcached::bench::check_options();
    farcached::bench::check_means();
    farcached::bench::check_rows();
    return tap::done();
}
