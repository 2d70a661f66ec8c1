// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/stats/metrics.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/stat_row.h"
#include "process/json_text.h"
#include "proxy/onesided_share.h"

namespace farcached::daemon {

namespace {

using process::JsonText;

void add_latency(JsonText& out, const LatencyTotals& latency, bool nodes) {
    out.begin("latency", '[');
    latency.each(nodes, [&](std::string_view verb, std::string_view way, const LatencyTotals::One& one) {
        out.begin('{');
        out.add("op", verb);
        out.add("path", way);
        out.add("count", one.count());
        out.begin("counts", '[');
        for (uint64_t count : one.counts) out.value(count);
        out.end(']');
        out.add("p50_us", one.quantile_us(0.5));
        out.add("p99_us", one.quantile_us(0.99));
        out.add("p999_us", one.quantile_us(0.999));
        out.end('}');
    });
    out.end(']');
}

// Reads that failed their checks or were not made, by counter name.
void add_failed_reads(JsonText& out, const Sample& sample) {
    out.begin("failed_reads", '{');
    for (const auto& row : LocalTotals::rows())
        if (row.name != "local_hits") out.add(row.name, row.of(sample.local));
    const LinkTotals links = sample.all_links();
    for (const auto& row : proxy::LinkCells<uint64_t>::rows())
        if (row.name.starts_with("read_") || row.name.starts_with("reads_failed_") || row.name == "index_not_found" ||
            row.name == "index_unproven")
            out.add(row.name, row.of(links));
    out.end('}');
}

// The reasons for GETs without a one-sided read, and for denied pointers; none without nodes.
void add_reasons(JsonText& out, const LinkTotals& links, bool nodes) {
    const auto add = [&](std::string_view name, std::string_view help, uint64_t count) {
        out.begin('{');
        out.add("reason", name);
        out.add("help", help);
        out.add("count", count);
        out.end('}');
    };
    out.begin("not_one_sided", '[');
    if (nodes) proxy::each_onesided_reason(links, add);
    out.end(']');
    out.begin("pointer_denials", '[');
    if (nodes) proxy::each_pointer_denial(links, add);
    out.end(']');
}

void add_memory(JsonText& out, const node::Stats& s, const node::ClassStats& classes) {
    out.begin("memory", '{');
    out.add("items", s.items);
    out.add("bytes", s.bytes);
    out.add("memory_limit_bytes", s.memory_limit_bytes);
    out.add("pages_used", s.pages_used);
    out.add("pages_limit", s.pages_limit);
    out.add("evictions", classes.evicted);
    out.add("lease_bytes", s.leases.bytes);
    out.add("reclaim_pending_bytes", s.leases.dead_bytes);
    out.end('}');
}

void add_node(JsonText& out, const NodeShown& shown, const std::vector<NodeNumbers>& told) {
    out.begin('{');
    out.add("name", shown.name);
    out.add("state", node_state_name(shown.state));
    out.add("address", shown.address);
    out.add("links", shown.links);
    out.add("links_up", shown.links_up);
    out.add("down_reason", shown.down_reason);
    const auto of_node = std::ranges::find(told, shown.name, &NodeNumbers::name);
    if (of_node == told.end())
        out.add_null("memory");
    else
        add_memory(out, of_node->stats, of_node->all_classes);
    out.end('}');
}

void add_nodes(JsonText& out, const MetricsSource& source) {
    out.begin("nodes", '[');
    if (source.nodes == nullptr) {
        out.begin('{');
        out.add("name", "embedded");
        out.add("state", "up");
        out.add("address", "in this process");
        add_memory(out, source.sample.node, source.sample.node_classes);
        out.end('}');
    } else {
        for (const NodeShown& shown : source.nodes->all()) add_node(out, shown, source.told);
    }
    out.end(']');
}

void add_requests(JsonText& out, const Sample& s, const LinkTotals& links) {
    const ClassTotals classes = s.all_classes();
    out.add("requests", s.workers.requests);
    out.add("gets", s.workers.get_cmds);
    out.add("get_hits", classes.get_hits);
    out.add("get_misses", s.workers.get_misses);
    out.add("sets", classes.cmd_set);
    out.add("received_bytes", s.workers.bytes_read);
    out.add("sent_bytes", s.workers.bytes_written);
    out.add("get_unavailable", s.workers.get_unavailable);
    out.add("mutations_unavailable", s.workers.mutations_unavailable);
    out.add(old_name_of("mutations_unavailable"), s.workers.mutations_unavailable);
    out.add("slow_requests", s.workers.slow_requests);
    out.add("pointer_hits", links.pointer_hits);
    out.add("pointer_misses", links.pointer_misses);
    out.add("pointer_expired", links.pointer_expired);
    out.begin("gets_by_path", '{');
    out.add("local", s.local.local_hits);
    out.add("one_sided", links.get_onesided);
    out.add("index", links.get_index);
    out.add("two_sided", links.get_twosided);
    out.end('}');
    out.add("one_sided_share", proxy::onesided_share(links));
}

}  // namespace

std::string status_json(const MetricsSource& source, const std::string& not_ready) {
    const Sample& s = source.sample;
    const LinkTotals links = s.all_links();
    const bool nodes = source.nodes != nullptr;
    JsonText out;
    out.begin('{');
    out.add("version", source.version);
    out.add("ready", not_ready.empty());
    out.add("not_ready_reason", not_ready);
    out.add("started_unix", s.started_unix);
    out.add("uptime_s", s.now);
    out.add("workers", s.workers_running);
    out.add("connections", s.server.curr_connections);
    out.add("connections_limit", s.server.connections_max);
    add_requests(out, s, links);
    add_reasons(out, links, nodes);
    out.begin("latency_bounds_us", '[');
    for (size_t i = 0; i < LatencyHistogram::bounds; i++) out.value(LatencyHistogram::bound_us(i));
    out.end(']');
    add_latency(out, s.latency, nodes);
    add_failed_reads(out, s);
    add_nodes(out, source);
    out.end('}');
    return out.text() + "\n";
}

}  // namespace farcached::daemon
