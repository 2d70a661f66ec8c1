// SPDX-License-Identifier: BSD-3-Clause
// The groups of `stats` about nodes: nodes, leases, pointers, and their part of proxy.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>

#include "daemon/stats/dump.h"
#include "daemon/stats/own_stats.h"
#include "daemon/stats/stats.h"
#include "node/service/node_stats.h"
#include "proxy/onesided_share.h"

namespace farcached::daemon {

namespace {

void write_counters(StatWriter& out, const std::string& prefix, const LinkTotals& link) {
    out.numbers(proxy::LinkCells<uint64_t>::rows(), link, prefix);
    out.numbers(fabric::ChannelCells<uint64_t>::rows(), link.channel, prefix);
    proxy::each_pointer_denial(link, [&](std::string_view name, std::string_view, uint64_t count) {
        out.number(prefix + "lease_" + std::string(name), count);
    });
}

void write_node(StatWriter& out, const NodeShown& shown, const NodeTotals& totals) {
    const std::string prefix = shown.name + ":";
    for (const auto& row : node_shown_rows) out.shown(prefix + std::string(row.name), row.of(shown));
    out.number(prefix + "get_local", totals.local.local_hits);
    write_counters(out, prefix, totals.link);
}

// The share of one-sided GETs, and the reasons of the others (proxy/onesided_share.h).
void write_onesided(StatWriter& out, const LinkTotals& links) {
    char share[16];
    std::snprintf(share, sizeof share, "%.3f", proxy::onesided_share(links));
    out.text("get_onesided_share", share);
    const auto write = [&](std::string_view name, std::string_view, uint64_t count) {
        out.number("get_reason_" + std::string(name), count);
    };
    proxy::each_onesided_reason(links, write);
    proxy::each_pointer_denial(links, write);
}

}  // namespace

void write_nodes(StatWriter out, const Sample& sample) {
    for (const NodeTotals& node : sample.nodes) write_node(out, node.shown, node);
}

void write_links(StatWriter& out, const Sample& sample) {
    const LinkTotals links = sample.all_links();
    write_counters(out, "", links);
    write_onesided(out, links);
    proxy::each_end(links, [&](std::string_view name, std::string_view, uint64_t count) { out.number(name, count); });
    out.numbers(nodes_own_rows, sample);
}

void write_leases(StatWriter out, const Sample& sample, const std::vector<NodeNumbers>& nodes,
                  std::string_view told) {
    const node::Stats& s = sample.node;
    out.numbers(node::lease_rows, s);
    out.number("nodes_unavailable", sample.nodes_unavailable);
    auto node = nodes.begin();
    each_told(told, [&](std::string_view node_name, std::optional<std::string_view> text) {
        if (!text.has_value()) return;
        const std::string prefix = std::string(node_name) + ":";
        const node::Stats& numbers = (node++)->stats;
        each_line(*text, [&](std::string_view name, std::string_view value) {
            const std::string full = prefix + std::string(name);
            if (const std::optional<uint64_t> number = lease_number(numbers, name))
                out.number(full, *number);
            else
                out.text(full, value);
        });
    });
}

void write_pointers(StatWriter out, const proxy::PointerTable::Occupancy& s) {
    out.numbers(pointer_rows, s);
    constexpr auto bounds = proxy::PointerTable::lease_left_bounds_s;
    uint64_t within = 0;
    for (size_t i = 0; i < bounds.size(); i++) {
        within += s.lease_left[i];
        out.number("lease_left_le_" + std::to_string(bounds[i] * 1000), within);
    }
}

// `stats route KEY`: a key's route as text.

namespace {

std::string_view pointer_word(Route::Pointer pointer) {
    constexpr std::string_view words[] = {"unused", "none", "expired", "valid"};
    return words[size_t(pointer)];
}

std::string why_own(const Route& route) {
    if (route.walk.size() == 1) return "it is the only node";
    if (route.point.has_value()) return "its point is the first on the ring that is not before the key's hash";
    return "the key's hash modulo " + std::to_string(route.walk.size()) + " nodes";
}

std::string why_of(const Route& route) {
    const bool by_chance = route.placement.distribution == Distribution::random;
    if (route.asked == 0) return by_chance ? "random distribution: a node is drawn for each request" : why_own(route);
    const NodeShown& own = route.walk.front();
    const std::string reason = own.name + " is " + std::string(node_state_name(own.state));
    if (route.asked.has_value())
        return reason + ", and " + route.walk[*route.asked].name + " is the next on the ring that is up";
    if (!route.failover) return reason + ", and failover is off: its keys are unavailable";
    return "no node is up";
}

void show_node(const NodeShown& node, RouteShown& r) {
    r.node = node.name;
    r.address = node.address;
    r.weight = std::to_string(node.weight);
    r.state = node_state_name(node.state);
    r.drained = node.state == NodeState::drained ? "yes" : "no";
    r.links_up = std::to_string(node.links_up) + " of " + std::to_string(node.links);
    r.down_reason = node.down_reason;
}

void show_pointer(const Route& route, RouteShown& r) {
    if (!route.asked.has_value()) return;
    r.ways = route.ways;
    r.pointer = pointer_word(route.pointer);
    if (route.pointer != Route::Pointer::valid) return;
    r.lease_left_ms = std::to_string(route.lease_left_ns / 1'000'000);
    r.pointer_from = route.pointer_shared ? "another process" : "this process";
    r.incarnation = hex_text(route.target.incarnation);
    r.region = std::to_string(route.target.region);
    r.offset = std::to_string(route.target.offset);
    r.bytes = std::to_string(route.target.length);
    r.generation = std::to_string(route.target.generation);
}

RouteShown shown_of(std::string_view key, const Route& route) {
    RouteShown r;
    r.key = uri_encoded(key);
    if (route.hashed != key) r.hashed = uri_encoded(route.hashed);
    r.distribution = name_of(route.placement.distribution);
    if (route.placement.distribution != Distribution::random) r.hash = name_of(route.placement.hash);
    if (route.walk.size() > 1) r.place = hex_text(route.place, 8);
    if (route.point.has_value()) r.point = hex_text(*route.point, 8);
    show_node(route.walk.front(), r);
    r.failover = route.failover ? "on" : "off";
    r.asked = route.asked.has_value() ? route.walk[*route.asked].name : "none";
    r.why = why_of(route);
    show_pointer(route, r);
    return r;
}

RouteShown embedded(std::string_view key) {
    RouteShown r;
    r.key = uri_encoded(key);
    r.node = r.asked = "(embedded)";
    r.state = "up";
    r.why = "no nodes are configured: items are in this process";
    r.ways = "local";
    r.pointer = pointer_word(Route::Pointer::unused);
    return r;
}

}  // namespace

void write_route(StatWriter out, std::string_view key, const Route* route) {
    const RouteShown r = route == nullptr ? embedded(key) : shown_of(key, *route);
    for (const auto& row : route_rows) out.shown(row.name, row.of(r));
    if (route == nullptr) return;
    for (size_t i = 1; i < std::min(route->walk.size(), Route::walk_shown); i++)
        out.text("next_" + std::to_string(i),
                 route->walk[i].name + " " + std::string(node_state_name(route->walk[i].state)));
}

}  // namespace farcached::daemon
