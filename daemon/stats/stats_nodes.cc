// SPDX-License-Identifier: BSD-3-Clause
// The groups of `stats` about nodes: nodes, leases, pointers, and their part of proxy.
#include <algorithm>
#include <cstdio>
#include <string>

#include "daemon/stats/own_stats.h"
#include "daemon/stats/stats.h"
#include "node/service_counters.h"
#include "proxy/onesided_share.h"

namespace farcached::daemon {

namespace {

std::string hex(uint64_t number) {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
    return digits;
}

// The text may come from a node: it must not end a client's line.
std::string one_line(std::string text) {
    for (char& c : text)
        if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
    return text;
}

void write_denials(StatWriter& out, const std::string& prefix, const LinkTotals& link) {
    proxy::each_pointer_denial(link, [&](std::string_view name, std::string_view, uint64_t count) {
        out.number(prefix + "lease_" + std::string(name), count);
    });
}

void write_node(StatWriter& out, const NodeShown& shown, const NodeTotals& totals) {
    const std::string prefix = shown.name + ":";
    auto put = [&](const char* name, const std::string& value) {
        if (!value.empty()) out.text(prefix + name, one_line(value));
    };
#define X(name, help, value) put(#name, value);
    NODE_ROWS(X)
#undef X
    out.number(prefix + "get_local", totals.local.local_hits);
#define X(name, help) out.number(prefix + #name, totals.link.name);
    LINK_COUNTERS(X)
    LINK_GAUGES(X)
    CHANNEL_COUNTERS(X)
#undef X
    write_denials(out, prefix, totals.link);
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
#define X(name, help) out.number(#name, links.name);
    LINK_COUNTERS(X)
    LINK_GAUGES(X)
    CHANNEL_COUNTERS(X)
#undef X
    write_denials(out, "", links);
    write_onesided(out, links);
    const uint64_t* down = links.downs.data();
    const uint64_t* channel_end = links.channel_ends.data();
    const uint64_t* frame_error = links.frame_errors.data();
#define X(name, help) out.number("down_" #name, *down++);
    LINK_DOWNS(X)
#undef X
#define X(name, help) out.number("channel_end_" #name, *channel_end++);
    CHANNEL_ENDS(X)
#undef X
#define X(name, help) out.number("frame_" #name, *frame_error++);
    FRAME_ERRORS(X)
#undef X
#define X(name, help, value) out.number(#name, value);
    NODES_OWN_STATS(X)
#undef X
}

void write_leases(StatWriter out, const Sample& sample, const std::vector<NodeNumbers>& nodes,
                  std::string_view told) {
    const node::Stats& s = sample.node;
#define X(name, kind, value, help) out.number(#name, value);
    LEASE_STATS(X)
#undef X
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
#define X(name, help, value) out.number(#name, value);
    POINTER_ROWS(X)
#undef X
    constexpr auto bounds = proxy::PointerTable::lease_left_bounds_s;
    uint64_t within = 0;
    for (size_t i = 0; i < bounds.size(); i++) {
        within += s.lease_left[i];
        out.number("lease_left_le_" + std::to_string(bounds[i] * 1000), within);
    }
}

}  // namespace farcached::daemon
