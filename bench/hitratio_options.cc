// SPDX-License-Identifier: BSD-3-Clause
#include "bench/hitratio_options.h"

#include <algorithm>

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
        if (std::find(list.begin(), list.end(), &*found) != list.end()) return "names one twice";
        list.push_back(&*found);
        return nullptr;
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
    return ratio > 0 && ratio <= 1 ? nullptr : "has one that is not above 0 and at most 1";
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
        if (colon == part.npos) return "has one without a port";
        std::string_view host = part.substr(0, colon);
        if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
        if (host.empty()) return "has one without a host";
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
    return (t.scale.partitions & (t.scale.partitions - 1)) == 0 ? nullptr : "is no power of two";
}

const char* to_text(std::string& to, S& text) {
    to = text;
    return text.empty() ? "is empty" : nullptr;
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
      "of zipf-100:0, zipf-95:5, zipf-90:10 (GET:SET), scrambled-100:0, scrambled-95:5, scrambled-90:10, shifting, "
      "scan, one-hit"},
     [](T& t, S& s) { return to_list(s, workload_kinds(), t.workloads, "names a workload that there is not"); }},
    {{"ratios", "LIST", "1/80,5/80,10/80,20/80,30/80,50/80", "memory for items, of the bytes of all keys and values"},
     to_ratios},
    {{"policies", "LIST", "all",
      "of lru, mq, pdla, pdla_paper, s3fifo, approx_lru, clock, fixed_lease_128, fixed_lease_32, fixed_lease_8 (seconds), "
      "original"},
     [](T& t, S& s) { return to_list(s, contestants(), t.contestants, "names a policy that there is not"); }},
    {{"keys", "N", "160000", "different keys that come again"},
     [](T& t, S& s) { return to_number<uint32_t>(s, keys_min, keys_max, t.scale.keys); }},
    {{"value-bytes", "N", "1024", "length of values; keys have 23"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, value_bytes_max, t.scale.value_bytes); }},
    {{"zipf", "S", "0.99", "skew of the keys' popularity; 0: all alike"},
     [](T& t, S& s) { return to_number<double>(s, 0, 10, t.scale.theta); }},
    {{"operations", "N", nullptr, "that are counted at each point; ten for each key unless given"},
     [](T& t, S& s) { return to_number<uint64_t>(s, 1, operations_max, t.scale.operations); }},
    {{"warmup", "N", nullptr, "before; five for each key unless given"},
     [](T& t, S& s) { return to_number<uint64_t>(s, 0, operations_max, t.scale.warmup); }},
    {{"rate", "N", nullptr,
      "operations per second of virtual time, of all clients together, which says how long leases are; one for every 80 "
      "keys unless given, as 36 clients with 36 us an operation ask for the paper's 80 million keys"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, 1'000'000'000, t.scale.rate); }},
    {{"clients", "N", "36", "in turns"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, clients_max, t.scale.clients); }},
    {{"hosts", "N", "3", "that they are on; those of a host share their remote pointers"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, hosts_max, t.scale.hosts); }},
    {{"report-interval-s", "N", "10", "from one report of a host to the next, of virtual time"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, 3600, t.scale.report_interval_s); }},
    {{"report-bytes", "N", "8192", "of a host's report at most"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 64, 1 << 24, t.scale.report_bytes); }},
    {{"history-items", "N", "4096", "of which a host remembers that it read them"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, 1 << 20, t.scale.history_items); }},
    {{"shift-s", "N", "120", "shifting: from one shift to the next, of virtual time"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, 1'000'000, t.scale.shift_s); }},
    {{"partitions", "N", "1", "of the node"}, to_partitions},
    {{"load", nullptr, nullptr, "before, store each key and get it once, in a random order"},
     [](T& t, S&) -> const char* {
         t.scale.load = true;
         return nullptr;
     }},
    {{"flush", nullptr, nullptr, "when counting begins, flush_all, and other keys of the same popularity from then on"},
     [](T& t, S&) -> const char* {
         t.scale.flush = true;
         return nullptr;
     }},
    {{"dead-share", "S", "0.0625",
      "of the node's memory: above it in items that died under leases, keys that left one earn no lease"},
     [](T& t, S& s) { return to_number<double>(s, 0, 1, t.scale.dead_share); }},
    {{"seed", "N", "1", "of all chance; the same seed gives the same numbers"},
     [](T& t, S& s) { return to_number<uint64_t>(s, 0, UINT64_MAX, t.scale.seed); }},
    {{"threads", "N", "1", "points that are simulated at once"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, threads_max, t.threads); }},
    {{"servers", "LIST", nullptr,
      "ask these farcached, HOST:PORT, in real time instead of simulating: each is a host, and one workload and policy are "
      "to be named, which are theirs; what the nodes hold is not chosen here, nor how they report"},
     to_servers},
    {{"quick", nullptr, nullptr,
      "a run of seconds: 80000 keys, 200000 operations after 150000, zipf-95:5 and scrambled-95:5, ratios 1/80 and 20/80"},
     quick},
    {{"csv", "FOLDER", nullptr, "write points.csv and charts there"},
     [](T& t, S& s) { return to_text(t.output.csv_folder, s); }},
    {{"json", "FILE", nullptr, "write the points as JSON, too"},
     [](T& t, S& s) { return to_text(t.output.json_path, s); }},
    {{"chart-script", "FILE", nullptr, "hitratio_chart.py, if it is not where it is installed"},
     [](T& t, S& s) { return to_text(t.output.chart_script, s); }},
};

}  // namespace

std::span<const OptionOf<T>> hitratio_options() { return table; }

std::string read_hitratio_options(std::span<char* const> arguments, T& options) {
    SimScale& scale = options.scale;
    scale.warmup = scale.operations = not_given;
    scale.rate = 0;
    const std::string wrong = read_options(hitratio_options(), arguments, options, [](const std::string& text) {
        return "\"" + text + "\" is no option";
    });
    if (!wrong.empty()) return wrong;
    if (!options.servers.empty()) {
        if (scale.load || scale.flush) return "--load and --flush are for what is simulated";
        if (options.workloads.size() != 1 || options.contestants.size() != 1)
            return "--servers have one workload and one policy: name them";
        scale.hosts = uint32_t(options.servers.size());
    }
    if (scale.hosts > scale.clients) return "--hosts are more than --clients";
    if (scale.warmup == not_given) scale.warmup = warmup_per_key * scale.keys;
    if (scale.operations == not_given) scale.operations = operations_per_key * scale.keys;
    if (scale.rate == 0) scale.rate = scale.keys / keys_per_second_per_operation;
    return {};
}

}  // namespace farcached::bench
