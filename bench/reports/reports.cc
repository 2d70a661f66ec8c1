// SPDX-License-Identifier: BSD-3-Clause
#include "bench/reports/reports.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/command.h"
#include "bench/reports/reports_client.h"
#include "bench/transport/node_process.h"
#include "bench/usage.h"
#include "protocol/frame.h"

namespace farcached::bench {

namespace {

constexpr uint64_t reports_most = UINT64_C(1) << 32;
constexpr uint32_t report_bytes_least = sizeof(protocol::FrameHeader) + sizeof(protocol::AccessRecord);

using R = ReportsOptions;
using S = const std::string;

const char* to_ways(R& r, S& text) {
    r.ways.clear();
    return each_part(text, [&](std::string_view part) -> const char* {
        for (const ReportWay& way : report_ways)
            if (part == way.name) return keep(r.ways, &way);
        return "has a word other than tcp, shm-send, shm-write, verbs-send, verbs-write";
    });
}

const char* to_bytes(R& r, S& text) {
    r.bytes.clear();
    return each_part(text, [&](std::string_view part) {
        uint32_t one = 0;
        const char* wrong = to_number<uint32_t>(part, report_bytes_least, protocol::report_bytes_max, one);
        return keep(r.bytes, one, wrong);
    });
}

const OptionOf<R> table[] = {
    {{"spawn", "HOW", nullptr, "start a farnode for it: shm, tcp, or verbs (and tcp)"},
     [](R& r, S& s) { return to_started(s, r.start); }},
    {{"verbs-address", "ADDR", nullptr, "with --spawn verbs: address of an RDMA device; default: the first one"},
     [](R& r, S& s) { return to_text(s, r.start.host); }},
    {{"farnode", "PATH", nullptr, "path of farnode; default: in farbench's folder, or on PATH"},
     [](R& r, S& s) { return to_text(s, r.start.program); }},
    {{"node-pid", "PID", nullptr, "process id of the node, for its CPU time"},
     [](R& r, S& s) { return to_number<int>(s, 1, 1 << 30, r.node_pid); }},
    {{"ways", "LIST", "tcp,shm-send,shm-write,verbs-send,verbs-write", "transports in this order: in frames, or in containers"},
     to_ways},
    {{"bytes", "LIST", "1024,2048,4096,8192", "lengths of reports"}, to_bytes},
    {{"reports", "N", "20000", "reports measured at each point, one after the other"},
     [](R& r, S& s) { return to_number<uint64_t>(s, 1, reports_most, r.reports); }},
    {{"warmup", "N", "1000", "reports before the measurement"},
     [](R& r, S& s) { return to_number<uint64_t>(s, 0, reports_most, r.warmup); }},
    {{"trials", "N", "3", "trials of each point"}, [](R& r, S& s) { return to_number<uint32_t>(s, 1, 1000, r.trials); }},
    {{"wait", "HOW", "sleep", "waiting for a reply: sleep in poll(), or spin"},
     [](R& r, S& s) { return to_word(s, wait_names, r.spin, "is not spin or sleep"); }},
    {{"quick", nullptr, nullptr, "a short run: 500 reports, 50 before, one trial"},
     [](R& r, S&) -> const char* {
         r.reports = 500;
         r.warmup = 50;
         r.trials = 1;
         return nullptr;
     }},
    {{"csv", "FOLDER", nullptr, "folder for points.csv and a chart"}, [](R& r, S& s) { return to_text(s, r.csv_folder); }},
    {{"json", "FILE", nullptr, "also write the points as JSON"}, [](R& r, S& s) { return to_text(s, r.json_path); }},
};

}  // namespace

std::span<const OptionOf<ReportsOptions>> reports_options() { return table; }

std::string read_reports_options(std::span<char* const> arguments, ReportsOptions& options) {
    options.start.threads = 1;
    options.start.lease_ms = 4000;
    return read_node_options(reports_options(), arguments, options);
}

namespace {

std::vector<ReportPoint> points_of(const ReportsOptions& options, const TestedNode& node) {
    std::vector<ReportPoint> points;
    for (const ReportWay* way : options.ways) {
        if (node.over(way->via) == nullptr) {
            std::fprintf(stderr, "farbench reports: %s is skipped: the node has no address for it\n", way->name);
            continue;
        }
        for (const uint32_t bytes : options.bytes) points.push_back({way, bytes, {}});
    }
    return points;
}

ReportCost run_trial(const ReportsOptions& options, const TestedNode& node, const ReportPoint& point) {
    Reach reach(*node.over(point.way->via), options.spin);
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

void measure(const ReportsOptions& options, const TestedNode& node, std::vector<ReportPoint>& points) {
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
    draw_charts("reports", options.csv_folder);
}

int run(std::span<char* const> arguments) {
    ReportsOptions options;
    const std::string wrong = read_reports_options(arguments, options);
    if (!wrong.empty()) return refuse_arguments("reports", wrong);
    catch_interrupts();
    std::unique_ptr<NodeProcess> started;
    if (options.start.via != Via::none) started = std::make_unique<NodeProcess>(options.start, std::vector<std::string>());
    const TestedNode node = tested_node(started.get(), options.places, options.node_pid);
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

}  // namespace

Command reports_command() {
    return {"reports", "[ADDRESS]...",
            "Cost of access reports to a farnode: written into its container, or sent in frames. ADDRESS: as of transport.",
            {std::begin(table), std::end(table)}, run};
}

}  // namespace farcached::bench
