// SPDX-License-Identifier: BSD-3-Clause
// `stats route KEY`: a key's route as text.
#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <string>

#include "daemon/stats/dump.h"
#include "daemon/stats/own_stats.h"
#include "daemon/stats/stats.h"

namespace farcached::daemon {

namespace {

// The values of ROUTE_ROWS; empty: not shown.
struct RouteShown {
    std::string key, hashed, distribution, hash, place, point;
    std::string node, address, weight, state, drained, links_up, down_reason;
    std::string failover, asked, why, ways;
    std::string pointer, lease_left_ms, pointer_from, incarnation, region, offset, bytes, generation;
};

std::string hex32(uint32_t number) {
    char digits[9];
    std::snprintf(digits, sizeof digits, "%08" PRIx32, number);
    return digits;
}

std::string hex64(uint64_t number) { return hex32(uint32_t(number >> 32)) + hex32(uint32_t(number)); }

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
    r.incarnation = hex64(route.target.incarnation);
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
    if (route.walk.size() > 1) r.place = hex32(route.place);
    if (route.point.has_value()) r.point = hex32(*route.point);
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

// The text may come from a node: it must not end the line.
std::string one_line(std::string text) {
    for (char& c : text)
        if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
    return text;
}

}  // namespace

void write_route(StatWriter out, std::string_view key, const Route* route) {
    const RouteShown r = route == nullptr ? embedded(key) : shown_of(key, *route);
    auto put = [&](const char* name, const std::string& value) {
        if (!value.empty()) out.text(name, one_line(value));
    };
#define X(name, help, text) put(#name, text);
    ROUTE_ROWS(X)
#undef X
    if (route == nullptr) return;
    for (size_t i = 1; i < std::min(route->walk.size(), Route::walk_shown); i++)
        out.text("next_" + std::to_string(i),
                 route->walk[i].name + " " + std::string(node_state_name(route->walk[i].state)));
}

}  // namespace farcached::daemon
