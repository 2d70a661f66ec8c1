// SPDX-License-Identifier: BSD-3-Clause
#include "bench/transport/transport_options.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/command.h"
#include "bench/transport/node_process.h"
#include "bench/transport/transport_report.h"
#include "bench/transport/trial.h"

namespace farcached::bench {

namespace {

namespace fs = std::filesystem;

std::string read_file(const std::string& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

// The trials of a sweep and their file.
class Kept {
  public:
    Kept(const TransportOptions& options, const TestedNode& node) : sweep_(options.sweep), node_(node) {
        if (options.output.csv_folder.empty()) return;
        fs::create_directories(options.output.csv_folder);
        path_ = options.output.csv_folder + "/trials.csv";
        std::string known = read_file(path_);
        if (options.output.resume) trials_ = read_trials(known, sweep_, node_);
        const bool ours = known.starts_with(trials_csv_head());
        if (!options.output.resume || !ours) {
            write_file(path_, trials_csv_head(), std::ios::trunc);
        } else if (!known.ends_with('\n')) {  // an earlier run was killed while it wrote
            known.resize(known.rfind('\n') + 1);
            write_file(path_, known, std::ios::trunc);
        }
    }

    bool has(const Point& point, uint32_t number) const {
        return std::any_of(trials_.begin(), trials_.end(),
                           [&](const Trial& one) { return one.point == point && one.number == number; });
    }
    void add(const Trial& trial, Via reached) {
        trials_.push_back(trial);
        if (!path_.empty()) write_file(path_, trials_csv_row(sweep_, reached, trial), std::ios::app);
    }
    const std::vector<Trial>& trials() const { return trials_; }

  private:
    const Sweep& sweep_;
    const TestedNode& node_;
    std::string path_;
    std::vector<Trial> trials_;
};

// The transports that reach this node; the others are printed.
std::vector<Transport> possible(const Sweep& sweep, const TestedNode& node) {
    std::vector<Transport> list;
    for (Transport transport : sweep.transports) {
        std::string why;
        if (place_for(transport, node, why).has_value())
            list.push_back(transport);
        else
            std::fprintf(stderr, "farbench transport: %s is skipped: %s\n", transport_names[size_t(transport)].data(),
                         why.c_str());
    }
    return list;
}

void measure(const Sweep& sweep, const TestedNode& node, Kept& kept) {
    const size_t whole = sweep.trials * sweep.workloads.size() * sweep.transports.size() * sweep.clients.size();
    size_t place = 0;
    for (uint32_t number = 1; number <= sweep.trials; number++)
        for (Workload workload : sweep.workloads)
            for (Transport transport : sweep.transports)
                for (uint32_t clients : sweep.clients) {
                    const Point point{transport, workload, clients};
                    place++;
                    if (kept.has(point, number)) continue;
                    if (interrupted.load()) return;
                    const std::optional<Trial> trial = run_trial(sweep, node, point, number, interrupted);
                    if (!trial.has_value()) return;
                    std::string why;
                    kept.add(*trial, place_for(transport, node, why)->via);
                    std::fprintf(stderr, "%zu of %zu: %s\n", place, whole, trial_line(*trial).c_str());
                }
}

TestedNode tested_node(const TransportOptions& options, const NodeProcess* started) {
    TestedNode node;
    node.places = started != nullptr ? started->places() : options.places;
    node.here = started != nullptr;
    if (started != nullptr) node.pid = started->pid();
    if (options.node_pid != 0) node.pid = options.node_pid;
    return node;
}

CheckCosts check_costs() {
    CheckCosts costs;
    for (const uint32_t bytes : table_1_sizes()) costs.push_back({bytes, check_cost_us(bytes)});
    return costs;
}

Via reads_over(const TestedNode& node) {
    std::string why;
    const std::optional<NodePlace> place = place_for(Transport::onesided, node, why);
    return place.has_value() ? place->via : Via::none;
}

int run(std::span<char* const> arguments) {
    TransportOptions options;
    const std::string wrong = read_transport_options(arguments, options);
    if (!wrong.empty()) return refuse_arguments("transport", wrong);
    catch_interrupts();
    std::unique_ptr<NodeProcess> started;
    if (options.start.via != Via::none) {
        std::vector<std::string> more;
        if (options.start.via == Via::verbs) more = {"--access_tracking", "atomic"};
        started = std::make_unique<NodeProcess>(options.start, more);
    }
    const TestedNode node = tested_node(options, started.get());
    options.sweep.transports = possible(options.sweep, node);
    if (options.sweep.transports.empty()) throw std::runtime_error("nothing to measure");
    Kept kept(options, node);
    measure(options.sweep, node, kept);
    const std::vector<PointResult> points = aggregate(kept.trials());
    std::fputs(transport_text(options.sweep, reads_over(node), points, check_costs()).c_str(), stdout);
    if (!options.output.json_path.empty()) write_file(options.output.json_path, transport_json(points), std::ios::trunc);
    if (!options.output.csv_folder.empty()) {
        write_file(options.output.csv_folder + "/points.csv", points_csv(options.sweep, points), std::ios::trunc);
        if (!points.empty())
            draw_charts("transport", "transport_chart.py", options.output.chart_script, options.output.csv_folder);
    }
    if (interrupted.load()) std::fprintf(stderr, "farbench transport: interrupted; continue with --resume\n");
    const bool good = std::all_of(points.begin(), points.end(), [](const auto& one) { return *one.mean.errors == 0; });
    return good && !interrupted.load() ? exit_good : exit_failed;
}

}  // namespace

Command transport_command() {
    return {"transport", "[ADDRESS]...",
            "Comparison of transports to a farnode: TCP, two-sided and one-sided RDMA, with and without metadata atomics.\n"
            "ADDRESS: tcp:HOST:PORT, verbs:HOST:PORT, shm:PATH; or --spawn.",
            {transport_options().begin(), transport_options().end()}, run};
}

}  // namespace farcached::bench
