// SPDX-License-Identifier: BSD-3-Clause
// The groups of `stats` about nodes: nodes, leases, pointers, and their part of proxy.
#include <algorithm>
#include <cstdio>
#include <string>

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

}  // namespace farcached::daemon
