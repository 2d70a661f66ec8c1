// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/status_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace farcached::daemon {

namespace {

using Json = nlohmann::ordered_json;

Json latency_of(const LatencyTotals& latency, bool nodes) {
    Json rows = Json::array();
    for (size_t way = 0; way < size_t(Way::count); way++)
        for (size_t verb = 0; verb < verbs_measured; verb++) {
            if (!can_be(Way(way), Verb(verb), nodes)) continue;
            const LatencyTotals::One& one = latency.of[way][verb];
            rows.push_back({{"op", verb_names[verb]},
                            {"path", way_names[way]},
                            {"count", one.count()},
                            {"counts", one.counts},
                            {"p50_us", one.quantile_us(0.5)},
                            {"p99_us", one.quantile_us(0.99)},
                            {"p999_us", one.quantile_us(0.999)}});
        }
    return rows;
}

// Why reads were not believed, or not carried out, by counters' names.
Json failed_reads(const Sample& sample) {
    Json reasons = Json::object();
#define X(name, help) \
    if (std::string_view(#name) != "local_hits") reasons[#name] = sample.local.name;
    LOCAL_GET_COUNTERS(X)
#undef X
    const LinkTotals links = sample.all_links();
#define X(name, help)                                                                                          \
    if (std::string_view(#name).starts_with("read_") || std::string_view(#name).starts_with("reads_failed_") || \
        std::string_view(#name) == "index_not_found" || std::string_view(#name) == "index_unproven")            \
        reasons[#name] = links.name;
    LINK_COUNTERS(X)
#undef X
    return reasons;
}

Json memory_of(const node::Stats& s, const node::ClassStats& classes) {
    return {{"items", s.items},
            {"bytes", s.bytes},
            {"memory_limit_bytes", s.memory_limit_bytes},
            {"pages_used", s.pages_used},
            {"pages_limit", s.pages_limit},
            {"evictions", classes.evicted},
            {"lease_bytes", s.leases.bytes},
            {"reclaim_pending_bytes", s.leases.pending_bytes}};
}

Json nodes_of(const MetricsSource& source) {
    Json rows = Json::array();
    if (source.nodes == nullptr) {
        Json row = {{"name", "embedded"}, {"state", "up"}, {"address", "in this process"}};
        row["memory"] = memory_of(source.sample.node, source.sample.node_classes);
        rows.push_back(row);
        return rows;
    }
    for (const NodeShown& shown : source.nodes->all()) {
        Json row = {{"name", shown.name},   {"state", node_state_name(shown.state)}, {"address", shown.address},
                    {"links", shown.links}, {"links_up", shown.links_up},            {"down_reason", shown.down_reason}};
        row["memory"] = nullptr;
        for (const NodeNumbers& one : source.told)
            if (one.name == shown.name) row["memory"] = memory_of(one.stats, one.all_classes);
        rows.push_back(row);
    }
    return rows;
}

}  // namespace

std::string status_json(const MetricsSource& source, const std::string& not_ready) {
    const Sample& s = source.sample;
    const ClassTotals classes = s.all_classes();
    const LinkTotals links = s.all_links();
    Json bounds = Json::array();
    for (size_t i = 0; i < LatencyHistogram::bounds; i++) bounds.push_back(LatencyHistogram::bound_us(i));
    const Json status = {
        {"version", source.version},
        {"ready", not_ready.empty()},
        {"not_ready_reason", not_ready},
        {"started_unix", s.started_unix},
        {"uptime_s", s.now},
        {"workers", s.workers_running},
        {"connections", s.server.curr_connections},
        {"connections_limit", s.server.connections_max},
        {"requests", s.workers.requests},
        {"gets", s.workers.get_cmds},
        {"get_hits", classes.get_hits},
        {"get_misses", s.workers.get_misses},
        {"sets", classes.cmd_set},
        {"received_bytes", s.workers.bytes_read},
        {"sent_bytes", s.workers.bytes_written},
        {"get_unavailable", s.workers.get_unavailable},
        {"change_unavailable", s.workers.change_unavailable},
        {"slow_requests", s.workers.slow_requests},
        {"pointer_hits", links.pointer_hits},
        {"pointer_misses", links.pointer_misses},
        {"pointer_expired", links.pointer_expired},
        {"gets_by_path",
         {{"local", s.local.local_hits},
          {"one_sided", links.get_onesided},
          {"index", links.get_index},
          {"two_sided", links.get_twosided}}},
        {"latency_bounds_us", bounds},
        {"latency", latency_of(s.latency, source.nodes != nullptr)},
        {"failed_reads", failed_reads(s)},
        {"nodes", nodes_of(source)},
    };
    // Names and reasons are of others: what is no UTF-8 is replaced.
    return status.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace farcached::daemon
