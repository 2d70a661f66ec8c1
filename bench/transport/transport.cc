// SPDX-License-Identifier: BSD-3-Clause
#include "bench/transport/transport.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/command.h"
#include "bench/data.h"
#include "bench/transport/node_process.h"
#include "bench/transport/rpc_points.h"
#include "bench/transport/trial.h"
#include "conf/addresses.h"

namespace farcached::bench {

namespace {

constexpr uint32_t clients_max = 256;
constexpr uint32_t trials_max = 1000;
constexpr uint64_t operations_max = UINT64_C(1) << 40;
constexpr uint64_t keys_max = 10'000'000;  // limited by the digits of a key
constexpr uint32_t value_bytes_max = 1000 * 1024;  // the longest in the C-Hint paper
constexpr uint64_t long_operations = 1'000'000;

using T = TransportOptions;
using S = const std::string;

const char* to_transports(T& t, S& text) {
    t.sweep.transports.clear();
    return each_part(text, [&](std::string_view part) {
        Transport one{};
        const char* wrong = to_word(part, transport_names, one,
                                    "has a word other than tcp, twosided, onesided, index, onesided+atomic");
        return keep(t.sweep.transports, one, wrong);
    });
}

const char* to_clients(T& t, S& text) {
    t.sweep.clients.clear();
    return each_part(text, [&](std::string_view part) {
        uint32_t one = 0;
        const char* wrong = to_number<uint32_t>(part, 1, clients_max, one);
        return keep(t.sweep.clients, one, wrong);
    });
}

const char* to_workloads(T& t, S& text) {
    t.sweep.workloads = {Workload::get, Workload::mixed};
    if (text == "both") return nullptr;
    Workload one{};
    const char* wrong = to_word(text, workload_names, one, "is not one of get, 95:5, set, both");
    t.sweep.workloads = {one};
    return wrong;
}

const char* to_rpc(T& t, S& text) {
    t.rpc.modes.clear();
    return each_part(text, [&](std::string_view part) {
        const auto found = std::find(rpc_mode_names.begin(), rpc_mode_names.end(), part);
        const bool known = found != rpc_mode_names.end();
        return keep(t.rpc.modes, RpcMode(found - rpc_mode_names.begin()),
                    known ? nullptr : "has a word other than send, write, rfp, auto");
    });
}

const char* to_figures(T& t, S& text) {
    t.rpc.figures.clear();
    return each_part(text, [&](std::string_view part) {
        const auto found = std::find(std::begin(rpc_figure_names), std::end(rpc_figure_names), part);
        if (found == std::end(rpc_figure_names)) return "has a number other than 4, 6, 7, 8, 9, 10";
        return keep(t.rpc.figures, rpc_figures[found - std::begin(rpc_figure_names)]);
    });
}

const OptionOf<T> table[] = {
    {{"spawn", "HOW", nullptr, "start a farnode for it: shm, tcp, or verbs (and tcp)"},
     [](T& t, S& s) { return to_started(s, t.start); }},
    {{"verbs-address", "ADDR", nullptr, "with --spawn verbs: address of an RDMA device; default: the first one"},
     [](T& t, S& s) { return to_text(s, t.start.host); }},
    {{"farnode", "PATH", nullptr, "path of farnode; default: in farbench's folder, or on PATH"},
     [](T& t, S& s) { return to_text(s, t.start.program); }},
    {{"farnode-threads", "N", "4", "threads of the farnode"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, 64, t.start.threads); }},
    {{"lease-ms", "MS", "4000", "lease term of the farnode"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 100, 250'000, t.start.lease_ms); }},
    {{"node-pid", "PID", nullptr, "process id of the node, for its CPU time"},
     [](T& t, S& s) { return to_number<int>(s, 1, 1 << 30, t.node_pid); }},
    {{"transports", "LIST", "tcp,twosided,onesided,index,onesided+atomic", "transports in this order"}, to_transports},
    {{"rpc", "LIST", nullptr,
      "instead of transports, compare the ways of requests over RDMA: send, write, rfp, auto (rpc of farcached). The workloads are "
      "those of a paper, RFP (Su et al.), and its numbers stand beside ours"},
     to_rpc},
    {{"figures", "LIST", "4,6,7,8,9,10",
      "with --rpc: figures of the paper. 4 has each number of clients, the others have the largest"},
     to_figures},
    {{"clients", "LIST", "1,2,4,8", "numbers of clients, each a thread with its own connection"}, to_clients},
    {{"mix", "MIX", "both", "get: GETs only; 95:5: with 5 % SETs; both; set: SETs only"}, to_workloads},
    {{"operations", "N", "100000", "operations measured at each point, by all clients together"},
     [](T& t, S& s) { return to_number<uint64_t>(s, 1, operations_max, t.sweep.operations); }},
    {{"warmup", "N", "5000", "operations before the measurement"},
     [](T& t, S& s) { return to_number<uint64_t>(s, 0, operations_max, t.sweep.warmup); }},
    {{"keys", "N", "1024", "number of keys, stored before the warm-up"},
     [](T& t, S& s) { return to_number<uint64_t>(s, 1, keys_max, t.sweep.keys); }},
    {{"value-bytes", "N", "64", "length of values; all items should fit into half of the node's memory"},
     [](T& t, S& s) {
         return to_number<uint32_t>(s, Values::verified_bytes_min, value_bytes_max, t.sweep.value_bytes);
     }},
    {{"zipf", "S", "0.8", "skew of the keys' popularity; 0: all alike"},
     [](T& t, S& s) { return to_number<double>(s, 0, 10, t.sweep.zipf); }},
    {{"trials", "N", "3", "trials of each point"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, trials_max, t.sweep.trials); }},
    {{"seed", "N", "1", "random seed"},
     [](T& t, S& s) { return to_number<uint64_t>(s, 0, UINT64_MAX, t.sweep.seed); }},
    {{"wait", "HOW", "sleep", "waiting for a reply: sleep in poll(), or spin, which takes a CPU for each client"},
     [](T& t, S& s) { return to_word(s, wait_names, t.sweep.spin, "is not spin or sleep"); }},
    {{"quick", nullptr, nullptr, "a short run: 2000 operations, 200 before, 1 and 2 clients, one trial, 128 keys"},
     [](T& t, S&) -> const char* {
         t.sweep.operations = 2000;
         t.sweep.warmup = 200;
         t.sweep.clients = {1, 2};
         t.sweep.trials = 1;
         t.sweep.keys = 128;
         return nullptr;
     }},
    {{"long", nullptr, nullptr, "a million operations at each point"},
     [](T& t, S&) -> const char* {
         t.sweep.operations = long_operations;
         return nullptr;
     }},
    {{"profile", nullptr, nullptr, "also time the parts of an operation, which adds to it"},
     [](T& t, S&) { return to_flag(t.sweep.profile); }},
    {{"csv", "FOLDER", nullptr, "folder for trials.csv, points.csv and charts; with --rpc: rpc-trials.csv, rpc.csv and others"},
     [](T& t, S& s) { return to_text(s, t.output.csv_folder); }},
    {{"resume", nullptr, nullptr, "skip trials in that file with the same parameters"},
     [](T& t, S&) { return to_flag(t.output.resume); }},
    {{"json", "FILE", nullptr, "also write the points as JSON"},
     [](T& t, S& s) { return to_text(s, t.output.json_path); }},
};

}  // namespace

std::string read_node_place(const std::string& text, NodePlace& place) {
    const auto parsed = conf::parse_node("node=" + text);
    if (auto* wrong = std::get_if<conf::Complaints>(&parsed)) return wrong->front();
    const conf::NodeSpec& spec = std::get<conf::NodeSpec>(parsed);
    if (spec.channel == conf::NodeChannel::shm)
        place = {Via::shm, spec.path, 0};
    else
        place = {spec.channel == conf::NodeChannel::tcp ? Via::tcp : Via::verbs, spec.host, spec.port};
    return {};
}

const char* to_started(const std::string& text, NodeToStart& start) {
    const char* wrong = "is not one of shm, tcp, verbs";
    return text == "none" ? wrong : to_word(text, via_names, start.via, wrong);
}

std::span<const OptionOf<TransportOptions>> transport_options() { return table; }

std::string read_transport_options(std::span<char* const> arguments, TransportOptions& options) {
    const std::string wrong = read_node_options(transport_options(), arguments, options);
    if (!wrong.empty()) return wrong;
    if (options.output.resume && options.output.csv_folder.empty()) return "--resume needs --csv";
    if (options.rpc.modes.empty()) return {};
    const auto over_rdma = [](const NodePlace& place) { return place.via == Via::verbs; };
    const bool spawned = options.start.via == Via::verbs;
    if (!spawned && std::none_of(options.places.begin(), options.places.end(), over_rdma))
        return "--rpc needs a node over RDMA: verbs:HOST:PORT or --spawn verbs";
    return {};
}

namespace {

namespace fs = std::filesystem;

std::string read_file(const std::string& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

// The trials of a sweep and their file.
template <class P>
class Kept {
  public:
    using Reader = std::function<std::vector<TrialOf<P>>(const std::string& csv)>;
    Kept(const TransportOutput& output, const char* name, const std::string& head, const Reader& trials_in) {
        if (output.csv_folder.empty()) return;
        fs::create_directories(output.csv_folder);
        path_ = output.csv_folder + "/" + name;
        std::string known = read_file(path_);
        if (output.resume) trials_ = trials_in(known);
        const bool ours = known.starts_with(head);
        if (!output.resume || !ours) {
            write_file(path_, head, std::ios::trunc);
        } else if (!known.ends_with('\n')) {  // an earlier run was killed while it wrote
            known.resize(known.rfind('\n') + 1);
            write_file(path_, known, std::ios::trunc);
        }
    }

    bool has(const P& point, uint32_t number) const {
        return std::any_of(trials_.begin(), trials_.end(),
                           [&](const auto& one) { return one.point == point && one.number == number; });
    }
    void add(const TrialOf<P>& trial, const std::string& row) {
        trials_.push_back(trial);
        if (!path_.empty()) write_file(path_, row, std::ios::app);
    }
    const std::vector<TrialOf<P>>& trials() const { return trials_; }

  private:
    std::string path_;
    std::vector<TrialOf<P>> trials_;
};

// The transports that reach this node; the others are printed.
std::vector<Transport> possible(const Sweep& sweep, const TestedNode& node) {
    std::vector<Transport> list;
    for (Transport transport : sweep.transports) {
        const auto place = place_for(transport, node);
        if (const auto* problem = std::get_if<Problem>(&place))
            std::fprintf(stderr, "farbench transport: %s is skipped: %s\n", transport_names[size_t(transport)].data(),
                         problem->text.c_str());
        else
            list.push_back(transport);
    }
    return list;
}

void measure(const Sweep& sweep, const TestedNode& node, Kept<Point>& kept) {
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
                    kept.add(*trial, trials_csv_row(sweep, std::get<0>(place_for(transport, node)).via, *trial));
                    std::fprintf(stderr, "%zu of %zu: %s\n", place, whole, trial_line(*trial).c_str());
                }
}

CheckCosts check_costs() {
    CheckCosts costs;
    for (const uint32_t bytes : table_1_sizes()) costs.push_back({bytes, check_cost_us(bytes)});
    return costs;
}

Via reads_over(const TestedNode& node) {
    const auto found = place_for(Transport::onesided, node);
    const auto* place = std::get_if<NodePlace>(&found);
    return place != nullptr ? place->via : Via::none;
}

// Writes the files of a run, and draws its charts. Returns the exit status.
template <class P>
int finish(const TransportOutput& output, const std::vector<ResultOf<P>>& points, const std::string& json,
           const std::string& csv_name, const std::string& csv, const char* script) {
    if (!output.json_path.empty()) write_file(output.json_path, json, std::ios::trunc);
    if (!output.csv_folder.empty()) {
        write_file(output.csv_folder + "/" + csv_name, csv, std::ios::trunc);
        if (!points.empty()) draw_charts("transport", output.csv_folder, script);
    }
    if (interrupted.load()) std::fprintf(stderr, "farbench transport: interrupted; continue with --resume\n");
    const bool good = std::all_of(points.begin(), points.end(), [](const auto& one) { return *one.mean.errors == 0; });
    return good && !interrupted.load() ? exit_good : exit_failed;
}

// Each round has every point once, as in measure().
void measure_rpc(const Sweep& sweep, const RpcSweep& rpc, const TestedNode& node, Kept<RpcPoint>& kept) {
    const std::vector<RpcPoint> points = rpc_points(rpc, sweep.clients);
    size_t place = 0;
    for (uint32_t number = 1; number <= sweep.trials; number++)
        for (const RpcPoint& point : points) {
            place++;
            if (kept.has(point, number)) continue;
            if (interrupted.load()) return;
            std::optional<Outcome> outcome = run_plan(sweep, node, plan_of(point), number, interrupted);
            if (!outcome.has_value()) return;
            const RpcTrial trial{std::move(*outcome), point, number};
            kept.add(trial, rpc_trials_row(sweep, trial));
            std::fprintf(stderr, "%zu of %zu: %s\n", place, points.size() * sweep.trials, rpc_line(trial).c_str());
        }
}

int run_rpc(const TransportOptions& options, const TestedNode& node) {
    const Sweep& sweep = options.sweep;
    Kept<RpcPoint> kept(options.output, "rpc-trials.csv", rpc_trials_head(),
                        [&](const std::string& csv) { return read_rpc_trials(csv, sweep, options.rpc); });
    measure_rpc(sweep, options.rpc, node, kept);
    const std::vector<RpcResult> points = aggregate(kept.trials());
    std::fputs(rpc_text(sweep, points).c_str(), stdout);
    return finish(options.output, points, rpc_json(points), "rpc.csv", rpc_csv(sweep, points), "rpc_chart.py");
}

int run_transports(TransportOptions& options, const TestedNode& node) {
    Sweep& sweep = options.sweep;
    sweep.transports = possible(sweep, node);
    if (sweep.transports.empty()) throw std::runtime_error("nothing to measure");
    Kept<Point> kept(options.output, "trials.csv", trials_csv_head(),
                     [&](const std::string& csv) { return read_trials(csv, sweep, node); });
    measure(sweep, node, kept);
    const std::vector<PointResult> points = aggregate(kept.trials());
    std::fputs(transport_text(sweep, reads_over(node), points, check_costs()).c_str(), stdout);
    return finish(options.output, points, transport_json(points), "points.csv", points_csv(sweep, points), "transport_chart.py");
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
    const TestedNode node = tested_node(started.get(), options.places, options.node_pid);
    return options.rpc.modes.empty() ? run_transports(options, node) : run_rpc(options, node);
}

}  // namespace

Command transport_command() {
    return {"transport", "[ADDRESS]...",
            "Comparison of transports to a farnode: TCP, two-sided and one-sided RDMA, with and without metadata atomics.\n"
            "With --rpc: of the ways of requests over RDMA.\n"
            "ADDRESS: tcp:HOST:PORT, verbs:HOST:PORT, shm:PATH; or --spawn.",
            {transport_options().begin(), transport_options().end()}, run};
}

}  // namespace farcached::bench
