// SPDX-License-Identifier: BSD-3-Clause
#include "bench/hitratio/hitratio.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "bench/command.h"
#include "bench/hitratio/clients.h"
#include "bench/usage.h"

namespace farcached::bench {

namespace {

constexpr uint32_t keys_min = 1000, keys_max = 100'000'000;
constexpr uint32_t value_bytes_max = 8192;
constexpr uint64_t operations_max = UINT64_C(1) << 40;
constexpr uint32_t hosts_max = 64, clients_max = 65'536, threads_max = 256;
constexpr uint32_t keys_per_second_per_operation = 80;  // see --rate
constexpr uint64_t warmup_per_key = 5, operations_per_key = 10;
constexpr uint64_t not_given = UINT64_MAX;

using T = HitRatioOptions;
using S = const std::string;

// Selects the entries of `all` that `text` names, in that order; "all" selects all.
template <class One>
const char* to_list(S& text, std::span<const One> all, std::vector<const One*>& list, const char* unknown) {
    list.clear();
    if (text == "all") {
        for (const One& one : all) list.push_back(&one);
        return nullptr;
    }
    return each_part(text, [&](std::string_view part) -> const char* {
        const auto found = std::find_if(all.begin(), all.end(), [&](const One& one) { return one.name == part; });
        if (found == all.end()) return unknown;
        return keep(list, &*found);
    });
}

// "5/80" or "0.0625".
const char* to_ratio(std::string_view text, double& ratio) {
    const size_t slash = text.find('/');
    double above = 0, below = 1;
    if (const char* wrong = to_number<double>(text.substr(0, slash), 0, 1e9, above)) return wrong;
    if (slash != text.npos)
        if (const char* wrong = to_number<double>(text.substr(slash + 1), 1, 1e9, below)) return wrong;
    ratio = above / below;
    return ratio > 0 && ratio <= 1 ? nullptr : "has a number that is not above 0 and at most 1";
}

const char* to_ratios(T& t, S& text) {
    t.ratios.clear();
    return each_part(text, [&](std::string_view part) {
        double ratio = 0;
        const char* wrong = to_ratio(part, ratio);
        t.ratios.push_back(ratio);
        return wrong;
    });
}

// "127.0.0.1:11211", "[::1]:11211".
const char* to_servers(T& t, S& text) {
    t.servers.clear();
    return each_part(text, [&](std::string_view part) -> const char* {
        const size_t colon = part.rfind(':');
        if (colon == part.npos) return "has an address without a port";
        std::string_view host = part.substr(0, colon);
        if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
        if (host.empty()) return "has an address without a host";
        Target server;
        server.host = host;
        server.port = part.substr(colon + 1);
        t.servers.push_back(server);
        return nullptr;
    });
}

const char* to_partitions(T& t, S& text) {
    const char* wrong = to_number<uint32_t>(text, 1, layout::partitions_max, t.scale.partitions);
    if (wrong != nullptr) return wrong;
    return (t.scale.partitions & (t.scale.partitions - 1)) == 0 ? nullptr : "is not a power of two";
}

// A run of seconds; later arguments override these values.
const char* quick(T& t, S&) {
    t.scale.keys = 80'000;
    t.scale.warmup = 150'000;
    t.scale.operations = 200'000;
    t.ratios = {1.0 / 80, 20.0 / 80};
    return to_list(std::string("zipf-95:5,scrambled-95:5"), workload_kinds(), t.workloads, "");
}

const OptionOf<T> table[] = {
    {{"workloads", "LIST", "all",
      "workloads: zipf-100:0, zipf-95:5, zipf-90:10 (GET:SET), scrambled-100:0, scrambled-95:5, scrambled-90:10, shifting, "
      "scan, one-hit"},
     [](T& t, S& s) { return to_list(s, workload_kinds(), t.workloads, "has an unknown workload"); }},
    {{"ratios", "LIST", "1/80,5/80,10/80,20/80,30/80,50/80", "memory for items, as a fraction of the bytes of all keys and values"},
     to_ratios},
    {{"policies", "LIST", "all",
      "policies: lru, mq, pdla, pdla_paper, s3fifo, approx_lru, clock, fixed_lease_128, fixed_lease_32, fixed_lease_8 (seconds), "
      "original"},
     [](T& t, S& s) { return to_list(s, contestants(), t.contestants, "has an unknown policy"); }},
    {{"keys", "N", "160000", "number of recurring keys"},
     [](T& t, S& s) { return to_number<uint32_t>(s, keys_min, keys_max, t.scale.keys); }},
    {{"value-bytes", "N", "1024", "length of values; keys have 23 bytes"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, value_bytes_max, t.scale.value_bytes); }},
    {{"zipf", "S", "0.99", "skew of the keys' popularity; 0: all alike"},
     [](T& t, S& s) { return to_number<double>(s, 0, 10, t.scale.theta); }},
    {{"operations", "N", nullptr, "operations counted at each point; default: ten per key"},
     [](T& t, S& s) { return to_number<uint64_t>(s, 1, operations_max, t.scale.operations); }},
    {{"warmup", "N", nullptr, "operations before the measurement; default: five per key"},
     [](T& t, S& s) { return to_number<uint64_t>(s, 0, operations_max, t.scale.warmup); }},
    {{"rate", "N", nullptr,
      "operations per second of virtual time of all clients, which scales the lease terms; default: one per 80 "
      "keys, like C-Hint's 36 clients at 36 us an operation with 80 million keys"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, 1'000'000'000, t.scale.rate); }},
    {{"clients", "N", "36", "number of clients, in round-robin order"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, clients_max, t.scale.clients); }},
    {{"hosts", "N", "3", "hosts of the clients; those of a host share their remote pointers"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, hosts_max, t.scale.hosts); }},
    {{"report-interval-s", "N", "10", "interval between reports of a host, in virtual time"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, 3600, t.scale.report_interval_s); }},
    {{"report-bytes", "N", "8192", "maximum size of a host's report"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 64, 1 << 24, t.scale.report_bytes); }},
    {{"history-items", "N", "4096", "items whose reads a host remembers"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, 1 << 20, t.scale.history_items); }},
    {{"shift-s", "N", "120", "shifting: interval between shifts, in virtual time"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, 1'000'000, t.scale.shift_s); }},
    {{"partitions", "N", "1", "of the node"}, to_partitions},
    {{"load", nullptr, nullptr, "before, store each key and get it once, in a random order"},
     [](T& t, S&) { return to_flag(t.scale.load); }},
    {{"flush", nullptr, nullptr, "flush_all when counting begins, then other keys of the same popularity"},
     [](T& t, S&) { return to_flag(t.scale.flush); }},
    {{"dead-share", "S", "0.0625",
      "share of the node's memory for dead slots: above it, a key with a dead slot earns no lease"},
     [](T& t, S& s) { return to_number<double>(s, 0, 1, t.scale.dead_share); }},
    {{"seed", "N", "1", "random seed; the same seed gives the same numbers"},
     [](T& t, S& s) { return to_number<uint64_t>(s, 0, UINT64_MAX, t.scale.seed); }},
    {{"threads", "N", "1", "points simulated in parallel"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, threads_max, t.threads); }},
    {{"servers", "LIST", nullptr,
      "use these farcached, HOST:PORT, in real time instead of simulating: each is a host. Requires one workload and policy, "
      "those of the servers; memory and reports are configured there"},
     to_servers},
    {{"quick", nullptr, nullptr,
      "a short run: 80000 keys, 200000 operations after 150000, zipf-95:5 and scrambled-95:5, ratios 1/80 and 20/80"},
     quick},
    {{"csv", "FOLDER", nullptr, "folder for points.csv and charts"},
     [](T& t, S& s) { return to_text(s, t.output.csv_folder); }},
    {{"json", "FILE", nullptr, "also write the points as JSON"},
     [](T& t, S& s) { return to_text(s, t.output.json_path); }},
};

}  // namespace

std::span<const OptionOf<T>> hitratio_options() { return table; }

std::string read_hitratio_options(std::span<char* const> arguments, T& options) {
    SimScale& scale = options.scale;
    scale.warmup = scale.operations = not_given;
    scale.rate = 0;
    const std::string wrong = read_options(hitratio_options(), arguments, options, [](const std::string& text) {
        return "\"" + text + "\" is not an option";
    });
    if (!wrong.empty()) return wrong;
    if (!options.servers.empty()) {
        if (scale.load || scale.flush) return "--load and --flush are only for simulations";
        if (options.workloads.size() != 1 || options.contestants.size() != 1)
            return "--servers requires one --workload and one --policy";
        scale.hosts = uint32_t(options.servers.size());
    }
    if (scale.hosts > scale.clients) return "--hosts is more than --clients";
    if (scale.warmup == not_given) scale.warmup = warmup_per_key * scale.keys;
    if (scale.operations == not_given) scale.operations = operations_per_key * scale.keys;
    if (scale.rate == 0) scale.rate = scale.keys / keys_per_second_per_operation;
    return {};
}

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
    if (!points.empty()) draw_charts("hitratio", output.csv_folder);
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

int run(std::span<char* const> arguments) {
    HitRatioOptions options;
    const std::string wrong = read_hitratio_options(arguments, options);
    if (!wrong.empty()) return refuse_arguments("hitratio", wrong);
    catch_interrupts();
    if (!options.servers.empty()) return ask(options);
    const HitRatioPoints points = Sweep(options).run();
    std::fputs(hitratio_text(options.scale, points).c_str(), stdout);
    write(options.output, points);
    if (!interrupted.load()) return exit_good;
    std::fprintf(stderr, "farbench hitratio: interrupted\n");
    return exit_failed;
}

}  // namespace

Command hitratio_command() {
    return {"hitratio", "",
            "Hit ratios of eviction and lease policies by workload and cache size: the node's own code in virtual time. Of all\n"
            "GETs, and of one-sided GETs.",
            {std::begin(table), std::end(table)}, run};
}

}  // namespace farcached::bench
