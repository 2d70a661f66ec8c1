// SPDX-License-Identifier: BSD-3-Clause
#include "bench/capacity/capacity.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "base/limits.h"

namespace farcached::bench {

namespace {

constexpr uint32_t proxies_max = 10'000;
constexpr uint64_t memory_min = UINT64_C(1) << 20, memory_max = UINT64_C(256) << 30;  // of one node
constexpr uint32_t value_bytes_max = 1 << 20;
constexpr uint32_t sweep_points = 16;

using T = CapacityOptions;
using S = const std::string;

constexpr std::string_view mode_words[] = {"send", "write", "rfp"};
constexpr std::string_view page_words[] = {"4k", "2m"};

// "64g", "512m".
const char* to_memory(T& t, S& text) {
    const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    const std::string unit = text.substr(digits);
    const size_t found = std::string_view("kmgt").find(unit.empty() ? '?' : char(std::tolower(unit[0])));
    if (unit.size() != 1 || found == std::string_view::npos) return "is no size, as in 512m or 64g";
    uint64_t number = 0;
    const int shift = 10 * (int(found) + 1);
    if (const char* wrong = to_number<uint64_t>(text.substr(0, digits), 1, memory_max >> shift, number)) return wrong;
    t.fleet.memory_bytes = number << shift;
    return t.fleet.memory_bytes < memory_min ? "is too small" : nullptr;
}

const char* to_pages(T& t, S& text) {
    uint8_t word = 0;
    const char* wrong = to_word(text, page_words, word, "is neither 4k nor 2m");
    t.fleet.page_bytes = word == 0 ? 4096 : UINT64_C(2) << 20;
    return wrong;
}

// "95:5".
const char* to_mix(T& t, S& text) {
    const size_t colon = text.find(':');
    double gets = 0, sets = 0;
    if (colon == text.npos || to_number<double>(text.substr(0, colon), 0, 1e6, gets) != nullptr ||
        to_number<double>(text.substr(colon + 1), 0, 1e6, sets) != nullptr || gets + sets <= 0)
        return "is not GET:SET, as in 95:5";
    t.fleet.get_share = gets / (gets + sets);
    return nullptr;
}

const char* to_modes(T& t, S& text) {
    t.modes.clear();
    return each_part(text, [&](std::string_view part) -> const char* {
        RpcMode one{};
        const char* wrong = to_word(part, mode_words, one, "has a word other than send, write, rfp");
        return keep(t.modes, one, wrong);
    });
}

const OptionOf<T> table[] = {
    {{"proxies", "N", "50", "farcached processes"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, proxies_max, t.fleet.proxies); }},
    {{"workers", "N", "4", "workers of each (-t); each has a link to each node"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, limits::workers_max, t.fleet.workers); }},
    {{"links-per-node", "N", "0", "links of a proxy to each node; 0: one for each worker, as farcached has"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 0, limits::workers_max, t.fleet.links_per_node); }},
    {{"nodes", "N", "20", "farnode processes, each on another host"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, limits::nodes_max, t.fleet.nodes); }},
    {{"memory", "SIZE", "64g", "memory for items of each node (-m)"}, to_memory},
    {{"pages", "SIZE", "4k", "pages that the items lie in: 4k, or 2m (-L)"}, to_pages},
    {{"mix", "GET:SET", "95:5", "ratio of GETs and SETs"}, to_mix},
    {{"value-bytes", "N", "100", "length of values"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, value_bytes_max, t.fleet.value_bytes); }},
    {{"key-bytes", "N", "20", "length of keys"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, limits::key_bytes_max, t.fleet.key_bytes); }},
    {{"zipf", "S", "0.99", "skew of the keys' popularity; 0: all alike"},
     [](T& t, S& s) { return to_number<double>(s, 0, 10, t.fleet.skew); }},
    {{"one-sided-share", "S", "0.97", "share of GETs by READ; farctl status shows it as ONE-SIDED"},
     [](T& t, S& s) { return to_number<double>(s, 0, 1, t.fleet.one_sided_share); }},
    {{"device", "NAME|FILE", "cx5", "network interface of all hosts: cx3, cx5, cx7, or a TOML file like theirs"},
     [](T& t, S& s) { return to_text(s, t.device); }},
    {{"rpc", "LIST", "send,write,rfp", "ways of two-sided requests: send, write (replies by WRITE), rfp (replies by READ)"},
     to_modes},
    {{"fetch-bytes", "N", "512", "rfp: bytes of the first READ of a reply"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, 1 << 20, t.fleet.fetch_bytes); }},
    {{"node-threads", "N", "4", "threads of each node (-t)"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, limits::workers_max, t.fleet.node_threads); }},
    {{"proxy-cpu-us", "N", "1.2", "CPU of a proxy for a request, in us; farbench load --server-pid measures it"},
     [](T& t, S& s) { return to_number<double>(s, 0, 1e6, t.fleet.proxy_cpu_us); }},
    {{"node-cpu-us", "N", "1", "CPU of a node for a two-sided request, in us; farbench load --back-pid measures it"},
     [](T& t, S& s) { return to_number<double>(s, 0, 1e6, t.fleet.node_cpu_us); }},
    {{"csv", "FOLDER", nullptr, "folder for points.csv and a chart of throughput by the number of proxies"},
     [](T& t, S& s) { return to_text(s, t.csv_folder); }},
    {{"json", "FILE", nullptr, "also write the results as JSON"}, [](T& t, S& s) { return to_text(s, t.json_path); }},
    {{"print-device", "NAME", nullptr, "print the file of cx3, cx5 or cx7, with the source of each figure, and end"},
     [](T& t, S& s) { return to_text(s, t.print_device); }},
    {{"seed", "N", "1", "random seed; the same seed gives the same numbers"},
     [](T& t, S& s) { return to_number<uint64_t>(s, 0, UINT64_MAX, t.fleet.seed); }},
};

// Returns an error, or an empty string.
std::string find_device(const std::string& name, DeviceFile& device) {
    if (const char* text = known_device_text(name)) return read_device_file(name, text, device);
    errno = 0;
    std::ifstream file(name);
    std::error_code none;
    const bool folder = std::filesystem::is_directory(name, none);
    if (folder || !file.is_open())
        return "--device " + name + ": it is none of cx3, cx5 and cx7, and as a file it cannot be opened: " +
               std::strerror(folder ? EISDIR : errno);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return read_device_file(name, text, device);
}

int print_device(const std::string& name) {
    const char* text = known_device_text(name);
    if (text == nullptr) return refuse_arguments("capacity", "--print-device " + name + " is none of cx3, cx5 and cx7");
    std::fputs(text, stdout);
    return std::fflush(stdout) == 0 ? exit_good : exit_failed;
}

int run(std::span<char* const> arguments) {
    CapacityOptions options;
    DeviceFile device;
    std::string wrong = read_capacity_options(arguments, options);
    if (wrong.empty() && !options.print_device.empty()) return print_device(options.print_device);
    if (wrong.empty()) wrong = find_device(options.device, device);
    if (!wrong.empty()) return refuse_arguments("capacity", wrong);
    CapacityReport report{options, device, assess_range(options.fleet, device), {}, {}};
    report.advice = advice(options.fleet, device, report.fleet.value, options.modes.front());
    if (!options.csv_folder.empty() || !options.json_path.empty()) report.sweep = sweep_proxies(options.fleet, device);
    std::fputs(capacity_text(report).c_str(), stdout);
    if (!options.json_path.empty()) write_file(options.json_path, capacity_json(report), std::ios::trunc);
    if (!options.csv_folder.empty()) {
        std::filesystem::create_directories(options.csv_folder);
        write_file(options.csv_folder + "/points.csv", capacity_csv(report), std::ios::trunc);
        draw_charts("capacity", options.csv_folder);
    }
    return std::fflush(stdout) == 0 ? exit_good : exit_failed;
}

}  // namespace

std::span<const OptionOf<T>> capacity_options() { return table; }

std::string read_capacity_options(std::span<char* const> arguments, T& options) {
    return read_options(capacity_options(), arguments, options,
                        [](const std::string& text) { return "\"" + text + "\" is not an option"; });
}

AssessedFleet assess_range(const Fleet& fleet, const DeviceFile& device) {
    return {fleet, assess(fleet, values_of(device, Assumption::value)), assess(fleet, values_of(device, Assumption::worst)),
            assess(fleet, values_of(device, Assumption::best))};
}

std::vector<AssessedFleet> sweep_proxies(const Fleet& fleet, const DeviceFile& device) {
    std::vector<uint32_t> counts = {1, fleet.proxies};
    for (uint32_t i = 1; i <= sweep_points; i++) counts.push_back(std::max(1u, 2 * fleet.proxies * i / sweep_points));
    std::sort(counts.begin(), counts.end());
    counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
    std::vector<AssessedFleet> found;
    for (const uint32_t proxies : counts) {
        Fleet one = fleet;
        one.proxies = proxies;
        found.push_back(assess_range(one, device));
    }
    return found;
}

Command capacity_command() {
    return {"capacity", "",
            "What a fleet over RDMA takes and reaches, by a model of its network interfaces: queue pairs, locked memory, cache\n"
            "hits, throughput, latency, the bottleneck, and advice. The default CPU times are of a virtual Xeon of 2.5 GHz.",
            {std::begin(table), std::end(table)}, run};
}

}  // namespace farcached::bench
