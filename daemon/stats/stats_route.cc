// SPDX-License-Identifier: BSD-3-Clause
// `stats route KEY`: a key's route as text.
#include <algorithm>
#include <cstdint>
#include <string>

#include "daemon/stats/dump.h"
#include "daemon/stats/own_stats.h"
#include "daemon/stats/stats.h"

namespace farcached::daemon {

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
