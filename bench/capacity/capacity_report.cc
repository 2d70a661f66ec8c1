// SPDX-License-Identifier: BSD-3-Clause
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/capacity/capacity.h"

namespace farcached::bench {

namespace {

using Json = nlohmann::ordered_json;

double gib(uint64_t bytes) { return double(bytes) / double(UINT64_C(1) << 30); }
double mib(uint64_t bytes) { return double(bytes) / double(UINT64_C(1) << 20); }

const ModeResult& of(const FleetResult& result, RpcMode mode) { return result.modes[size_t(mode)]; }

// The lower and the higher rate: fewer misses of one kind may put another station in front.
std::pair<double, double> range(const AssessedFleet& fleet, RpcMode mode) {
    const double worst = of(fleet.worst, mode).mops, best = of(fleet.best, mode).mops, value = of(fleet.value, mode).mops;
    return {std::min({worst, best, value}), std::max({worst, best, value})};
}

std::string hits_line(const char* where, PerResource<double> FleetResult::*hits, const AssessedFleet& fleet) {
    std::string text;
    for (const Resource kind : {Resource::qpc, Resource::mpt, Resource::mtt})
        text += form("  %s %.0f %% (%.0f to %.0f)", resource_names[size_t(kind)], 100 * (fleet.value.*hits)[size_t(kind)],
                     100 * (fleet.worst.*hits)[size_t(kind)], 100 * (fleet.best.*hits)[size_t(kind)]);
    return form("  cache hits of READs at %-8s", where) + text + "\n";
}

std::string head(const CapacityReport& report) {
    const Fleet& fleet = report.options.fleet;
    std::string text;
    text += form("%u proxies of %u workers, %u nodes of %.3g GiB in pages of %s, GET:SET %g:%g, keys of %u and values of %u "
                 "bytes\n",
                 fleet.proxies, fleet.workers, fleet.nodes, gib(fleet.memory_bytes), fleet.page_bytes == 4096 ? "4 KiB" : "2 MiB",
                 100 * fleet.get_share, 100 - 100 * fleet.get_share, fleet.key_bytes, fleet.value_bytes);
    text += form("%.0f %% of GETs one-sided, Zipf %g, device %s: %s\n", 100 * fleet.one_sided_share, fleet.skew,
                 report.device.name.c_str(), report.device.title.c_str());
    text += form("CPU of a request: %g us at the proxy; two-sided %g us at the node, on %u threads\n\n", fleet.proxy_cpu_us,
                 fleet.node_cpu_us, fleet.node_threads);
    return text;
}

std::string counts_text(const CapacityReport& report) {
    const FleetCounts& counts = report.fleet.value.counts;
    std::string text;
    text += form("A node   %u queue pairs, %.1f GiB locked, %llu translations, %.1f million items\n", counts.node_queue_pairs,
                 gib(counts.node_locked_bytes), (unsigned long long)counts.node_translations, double(counts.items) / 1e6);
    text += hits_line("a node", &FleetResult::node_hits, report.fleet);
    text += form("A proxy  %u queue pairs, %.0f MiB locked\n", counts.proxy_queue_pairs, mib(counts.proxy_locked_bytes));
    text += hits_line("a proxy", &FleetResult::proxy_hits, report.fleet);
    text += form("The busiest node gets %.1f %% of the requests.\n\n", 100 * counts.busiest_share);
    return text;
}

std::string modes_text(const CapacityReport& report) {
    std::string text;
    text += form("%-6s %10s %10s %17s %14s %10s  %s\n", "rpc", "GET/s", "SET/s", "range of GET/s", "one-sided GET", "SET", "limit");
    text += form("%-6s %10s %10s %17s %14s %10s\n", "", "million", "million", "million", "us, idle", "us, idle");
    const double gets = report.options.fleet.get_share;
    for (const RpcMode mode : report.options.modes) {
        const ModeResult& one = of(report.fleet.value, mode);
        const auto [low, high] = range(report.fleet, mode);
        text += form("%-6s %10.2f %10.2f %17s %14.2f %10.2f  %s\n", rpc_mode_name(mode).data(), one.mops * gets,
                     one.mops * (1 - gets), form("%.2f to %.2f", low * gets, high * gets).c_str(), report.fleet.value.get_us,
                     one.set_us, one.bottleneck().c_str());
    }
    text += form("\nStations with %s, in million requests/s of the fleet:\n", rpc_mode_name(report.options.modes.front()).data());
    for (const Station& station : of(report.fleet.value, report.options.modes.front()).stations)
        text += form("%10.2f  %s\n", station.mops, station.name.c_str());
    return text;
}

std::string assumed_text(const DeviceFile& device) {
    std::string text;
    for (size_t i = 0; i < device_figures; i++) {
        const SourcedFigure& figure = device.figures[i];
        if (figure.assumed)
            text += form("  %-18s %8g (%g to %g) ", device_figure_rows()[i].key, figure.value, figure.low, figure.high) +
                    figure.source + "\n";
    }
    return text.empty() ? text : "\nAssumed of the device, which makes the ranges:\n" + text;
}

Json hits_json(const PerResource<double>& hits) {
    return {{"qpc", hits[size_t(Resource::qpc)]}, {"mpt", hits[size_t(Resource::mpt)]}, {"mtt", hits[size_t(Resource::mtt)]}};
}

Json modes_json(const CapacityReport& report) {
    Json list = Json::array();
    const double gets = report.options.fleet.get_share;
    for (const RpcMode mode : report.options.modes) {
        const ModeResult& one = of(report.fleet.value, mode);
        const auto [low, high] = range(report.fleet, mode);
        Json stations = Json::array();
        for (const Station& station : one.stations)
            stations.push_back({{"name", station.name}, {"requests_per_s", station.mops * 1e6}});
        list.push_back({{"rpc", rpc_mode_name(mode).data()},
                        {"get_per_s", one.mops * gets * 1e6},
                        {"set_per_s", one.mops * (1 - gets) * 1e6},
                        {"requests_per_s_low", low * 1e6},
                        {"requests_per_s_high", high * 1e6},
                        {"get_us", report.fleet.value.get_us},
                        {"set_us", one.set_us},
                        {"bottleneck", one.bottleneck()},
                        {"stations", stations}});
    }
    return list;
}

}  // namespace

std::string capacity_text(const CapacityReport& report) {
    std::string text = head(report);
    text += counts_text(report);
    text += modes_text(report);
    text += "\nAdvice:\n";
    for (const std::string& sentence : report.advice) text += "- " + sentence + "\n";
    return text + assumed_text(report.device);
}

std::string capacity_json(const CapacityReport& report) {
    const Fleet& fleet = report.options.fleet;
    const FleetResult& value = report.fleet.value;
    Json object;
    object["proxies"] = fleet.proxies;
    object["workers"] = fleet.workers;
    object["nodes"] = fleet.nodes;
    object["memory_bytes"] = fleet.memory_bytes;
    object["page_bytes"] = fleet.page_bytes;
    object["get_share"] = fleet.get_share;
    object["value_bytes"] = fleet.value_bytes;
    object["one_sided_share"] = fleet.one_sided_share;
    object["device"] = report.device.name;
    object["node"] = {{"queue_pairs", value.counts.node_queue_pairs},
                      {"locked_bytes", value.counts.node_locked_bytes},
                      {"translations", value.counts.node_translations},
                      {"regions", value.counts.node_regions},
                      {"items", value.counts.items},
                      {"busiest_share", value.counts.busiest_share},
                      {"hits", hits_json(value.node_hits)}};
    object["proxy"] = {{"queue_pairs", value.counts.proxy_queue_pairs},
                       {"locked_bytes", value.counts.proxy_locked_bytes},
                       {"hits", hits_json(value.proxy_hits)}};
    object["modes"] = modes_json(report);
    object["advice"] = report.advice;
    Json sweep = Json::array();
    for (const AssessedFleet& one : report.sweep)
        for (const RpcMode mode : report.options.modes) {
            const auto [low, high] = range(one, mode);
            sweep.push_back({{"proxies", one.fleet.proxies},
                             {"rpc", rpc_mode_name(mode).data()},
                             {"requests_per_s", of(one.value, mode).mops * 1e6},
                             {"low", low * 1e6},
                             {"high", high * 1e6},
                             {"bottleneck", of(one.value, mode).bottleneck()}});
        }
    object["sweep"] = sweep;
    return object.dump(1) + "\n";
}

std::string capacity_csv(const CapacityReport& report) {
    std::string text = "device,rpc,nodes,workers,pages,proxies,queue_pairs,mops,mops_low,mops_high,limit\n";
    for (const AssessedFleet& one : report.sweep)
        for (const RpcMode mode : report.options.modes) {
            const auto [low, high] = range(one, mode);
            text += form("%s,%s,%u,%u,%s,%u,%u,%.9g,%.9g,%.9g,\"%s\"\n", report.device.name.c_str(), rpc_mode_name(mode).data(),
                         one.fleet.nodes, one.fleet.workers, one.fleet.page_bytes == 4096 ? "4k" : "2m", one.fleet.proxies,
                         one.value.counts.node_queue_pairs, of(one.value, mode).mops, low, high,
                         of(one.value, mode).bottleneck().c_str());
        }
    return text;
}

}  // namespace farcached::bench
