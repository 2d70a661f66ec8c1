// SPDX-License-Identifier: BSD-3-Clause
#include "bench/hitratio/hitratio_options.h"

#include <atomic>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "bench/chart.h"
#include "bench/command.h"
#include "bench/hitratio/clients.h"
#include "bench/hitratio/hitratio_report.h"

namespace farcached::bench {

namespace {

std::vector<SimPoint> points_of(const HitRatioOptions& options) {
    std::vector<SimPoint> points;
    for (const WorkloadKind* workload : options.workloads)
        for (const double ratio : options.ratios)
            for (const Contestant* contestant : options.contestants) points.push_back({workload, ratio, contestant});
    return points;
}

std::map<Spread, Popularity> popularities(const HitRatioOptions& options) {
    std::map<Spread, Popularity> made;
    for (const WorkloadKind* workload : options.workloads)
        made.try_emplace(workload->spread, workload->spread, options.scale.keys, options.scale.theta);
    return made;
}

double thread_cpu_s() {
    timespec spent{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    return double(spent.tv_sec) + double(spent.tv_nsec) / 1e9;
}

// Runs the points in order, in a few threads that share only the list of results.
class Sweep {
  public:
    explicit Sweep(const HitRatioOptions& options)
        : options_(options), popularities_(popularities(options)), points_(points_of(options)), done_(points_.size()) {}

    // The results of the points simulated, in order.
    HitRatioPoints run() {
        std::vector<std::thread> others;
        for (uint32_t i = 1; i < options_.threads; i++) others.emplace_back([this] { work(); });
        work();
        for (std::thread& other : others) other.join();
        HitRatioPoints found;
        for (const auto& one : done_)
            if (one.has_value()) found.push_back(*one);
        return found;
    }

  private:
    void work() {
        for (size_t place = next_++; place < points_.size() && !interrupted.load(); place = next_++) {
            const double before_s = thread_cpu_s();
            const SimPoint& point = points_[place];
            done_[place] = {point, simulate(options_.scale, popularities_.at(point.workload->spread), point)};
            const double took_s = thread_cpu_s() - before_s;
            const double operations = double(options_.scale.warmup + options_.scale.operations);
            std::lock_guard hold(told_);
            std::fprintf(stderr, "%zu of %zu: %s; %.2f M operations per CPU second\n", ++finished_, points_.size(),
                         hitratio_line(*done_[place]).c_str(), operations / took_s / 1e6);
        }
    }

    const HitRatioOptions& options_;
    const std::map<Spread, Popularity> popularities_;
    const std::vector<SimPoint> points_;
    std::vector<std::optional<HitRatioPoint>> done_;  // each written by the thread that ran it
    std::atomic<size_t> next_{0};
    std::mutex told_;
    size_t finished_ = 0;  // under told_
};

void write(const HitRatioOutput& output, const HitRatioPoints& points) {
    if (!output.json_path.empty()) write_file(output.json_path, hitratio_json(points), std::ios::trunc);
    if (output.csv_folder.empty()) return;
    std::filesystem::create_directories(output.csv_folder);
    write_file(output.csv_folder + "/points.csv", hitratio_csv(points), std::ios::trunc);
    if (!points.empty()) draw_charts("hitratio", "hitratio_chart.py", output.chart_script, output.csv_folder);
}

// Runs against the given servers.
int ask(const HitRatioOptions& options) {
    SimPoint point{options.workloads[0], 0, options.contestants[0]};
    const auto spreads = popularities(options);
    const auto found = ask_servers(options.scale, spreads.at(point.workload->spread), point, options.servers);
    if (!found.has_value()) {
        std::fprintf(stderr, "farbench hitratio: interrupted\n");
        return exit_failed;
    }
    point.cache_ratio = found->cache_ratio;
    const HitRatioPoints points = {{point, found->result}};
    std::fputs(hitratio_text(options.scale, points).c_str(), stdout);
    std::fputs(latency_text(found->latencies).c_str(), stdout);
    std::printf("no step was late by more than %.3f s\n", found->late_s_max);
    if (!options.output.csv_folder.empty()) {
        std::filesystem::create_directories(options.output.csv_folder);
        write_file(options.output.csv_folder + "/latency.csv", latency_csv(options.scale, point, found->latencies),
                   std::ios::trunc);
    }
    write(options.output, points);
    if (found->failures.total() == 0) return exit_good;
    std::fprintf(stderr, "farbench hitratio: %llu answers were errors or wrong; the first: %s\n",
                 (unsigned long long)found->failures.total(), found->failures.first.c_str());
    return exit_failed;
}

}  // namespace

int hitratio_command(std::span<char* const> arguments) {
    HitRatioOptions options;
    const std::string wrong = read_hitratio_options(arguments, options);
    if (!wrong.empty()) {
        std::fprintf(stderr, "farbench hitratio: %s\nTry farbench --help.\n", wrong.c_str());
        return exit_usage;
    }
    catch_interrupts();
    if (!options.servers.empty()) return ask(options);
    const HitRatioPoints points = Sweep(options).run();
    std::fputs(hitratio_text(options.scale, points).c_str(), stdout);
    write(options.output, points);
    if (!interrupted.load()) return exit_good;
    std::fprintf(stderr, "farbench hitratio: interrupted\n");
    return exit_failed;
}

}  // namespace farcached::bench
