// SPDX-License-Identifier: BSD-3-Clause
#include "bench/reports/reports_options.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/chart.h"
#include "bench/command.h"
#include "bench/reports/reports_client.h"
#include "bench/reports/result.h"
#include "bench/transport/node_process.h"
#include "bench/usage.h"

namespace farcached::bench {

namespace {

struct Node {
    std::vector<NodePlace> places;
    std::optional<int> pid;

    const NodePlace* reached(Via via) const {
        for (const NodePlace& place : places)
            if (place.via == via) return &place;
        return nullptr;
    }
};

Node node_of(const ReportsOptions& options, const NodeProcess* started) {
    Node node;
    node.places = started != nullptr ? started->places() : options.places;
    if (started != nullptr) node.pid = started->pid();
    if (options.node_pid != 0) node.pid = options.node_pid;
    return node;
}

std::vector<ReportPoint> points_of(const ReportsOptions& options, const Node& node) {
    std::vector<ReportPoint> points;
    for (const ReportWay* way : options.ways) {
        if (node.reached(way->via) == nullptr) {
            std::fprintf(stderr, "farbench reports: %s is skipped: the node has no address for it\n", way->name);
            continue;
        }
        for (const uint32_t bytes : options.bytes) points.push_back({way, bytes, {}});
    }
    return points;
}

ReportCost run_trial(const ReportsOptions& options, const Node& node, const ReportPoint& point) {
    Reach reach(*node.reached(point.way->via), options.spin);
    ReportsClient client(reach, options.spin, interrupted);
    client.connect(point.way->write);
    client.run(options.warmup, point.bytes, /* measured= */ false);
    const auto node_cpu_s = [&] { return node.pid.has_value() ? process_cpu_s(*node.pid) : 0; };
    const fabric::ChannelCounters& counters = client.counters();
    const uint64_t writes = counters.rdma_writes.get(), sends = counters.rdma_sends.get(),
                   doorbells = counters.rdma_doorbells.get();
    const double node_before_s = node_cpu_s(), before_s = thread_cpu_s();
    client.run(options.reports, point.bytes, /* measured= */ true);
    const double count = double(client.latency().count());
    ReportCost cost;
    if (count == 0) return cost;  // interrupted
    cost.client_cpu_us = (thread_cpu_s() - before_s) * 1e6 / count;
    if (node.pid.has_value()) cost.node_cpu_us = (node_cpu_s() - node_before_s) * 1e6 / count;
    cost.mean_us = client.latency().mean() / 1e3;
    cost.p50_us = double(client.latency().quantile(0.5)) / 1e3;
    cost.p99_us = double(client.latency().quantile(0.99)) / 1e3;
    cost.node_us = double(client.node_us()) / count;
    cost.writes = double(counters.rdma_writes.get() - writes) / count;
    cost.sends = double(counters.rdma_sends.get() - sends) / count;
    cost.doorbells = double(counters.rdma_doorbells.get() - doorbells) / count;
    return cost;
}

void measure(const ReportsOptions& options, const Node& node, std::vector<ReportPoint>& points) {
    size_t place = 0;
    for (uint32_t number = 1; number <= options.trials; number++)
        for (ReportPoint& point : points) {
            if (interrupted.load()) return;
            const ReportCost cost = run_trial(options, node, point);
            if (interrupted.load()) return;
            point.trials.push_back(cost);
            std::fprintf(stderr, "%zu of %zu: %s, %u bytes, trial %u: median %.1f us\n", ++place,
                         points.size() * options.trials, point.way->name, point.bytes, number, *cost.p50_us);
        }
}

void write(const ReportsOptions& options, const std::vector<ReportPoint>& points) {
    if (!options.json_path.empty()) write_file(options.json_path, reports_json(points), std::ios::trunc);
    if (options.csv_folder.empty()) return;
    std::filesystem::create_directories(options.csv_folder);
    write_file(options.csv_folder + "/points.csv", reports_csv(points), std::ios::trunc);
    draw_charts("reports", "reports_chart.py", options.chart_script, options.csv_folder);
}

}  // namespace

int reports_command(std::span<char* const> arguments) {
    ReportsOptions options;
    const std::string wrong = read_reports_options(arguments, options);
    if (!wrong.empty()) {
        std::fprintf(stderr, "farbench reports: %s\nTry farbench --help.\n", wrong.c_str());
        return exit_usage;
    }
    catch_interrupts();
    std::unique_ptr<NodeProcess> started;
    if (options.start.via != Via::none) started = std::make_unique<NodeProcess>(options.start, std::vector<std::string>());
    const Node node = node_of(options, started.get());
    std::vector<ReportPoint> points = points_of(options, node);
    if (points.empty()) throw std::runtime_error("nothing to measure");
    measure(options, node, points);
    std::erase_if(points, [](const ReportPoint& one) { return one.trials.empty(); });
    std::fputs(reports_text(options, points).c_str(), stdout);
    if (!points.empty()) write(options, points);
    if (!interrupted.load()) return exit_good;
    std::fprintf(stderr, "farbench reports: interrupted\n");
    return exit_failed;
}

}  // namespace farcached::bench
