// SPDX-License-Identifier: BSD-3-Clause
// Prometheus metrics of a node: the rows of node/service/node_stats.h and ServiceCounters, with the values of `stats`. Any thread.
#include <algorithm>
#include <string>
#include <string_view>

#include "base/metrics_text.h"
#include "base/stat_row.h"
#include "node/service/node_stats.h"

namespace farcached::node {

namespace {

using Kind = MetricsText::Kind;

// Rows that differ in their last word form one metric family, with that word as a label.
struct Grouped {
    std::string_view prefix, family, label, help;
};
constexpr Grouped groups[] = {
    {"lease_denied_", "lease_denied", "reason", "leases denied"},
    {"queue_", "queue_items", "queue", "items in each queue of the policy"},
};

void put(MetricsText& out, Kind kind, std::string_view name, std::string_view help, uint64_t value) {
    for (const Grouped& group : groups)
        if (name.starts_with(group.prefix))
            return out.number(kind, group.family, group.help, value, {{group.label, name.substr(group.prefix.size())}});
    out.stat(kind, name, help, value);
    const std::string_view old_name = old_name_of(name);
    if (!old_name.empty()) out.stat(kind, old_name, old_name_help(name), value);
}

void put_classes(MetricsText& out, const Stats& s) {
    for (size_t i = 1; i < s.classes.size(); i++) {
        const ClassStats& c = s.classes[i];
        if (c.pages == 0) continue;
        const std::string id = std::to_string(i);
        auto put = [&](const ClassRow& row) {
            out.stat(MetricsText::kind_of(row.kind), "class_" + std::string(MetricsText::conventional(row.name)), row.help,
                     row.of(c), {{"class", id}});
        };
        std::ranges::for_each(class_rows, put);
        std::ranges::for_each(class_sum_rows, put);
    }
}

}  // namespace

void NodeStats::append_metrics(NodeSeconds now, MetricsText& out) const {
    const Stats s = node_.stats(now);
    const LeaseConfig& config = node_.config().lease;
    out.number(Kind::gauge, "info", "1; the node's name and its policy are labels", 1,
               {{"node", name_}, {"policy", name_of(node_.config().policy)}});
    out.number(Kind::gauge, "uptime_seconds", "time since the node began to serve", seconds_since(started_, now));
    out.number(Kind::gauge, "lease_enabled", "1: leases are granted", config.enabled ? 1 : 0);
    const auto put_row = [&](const auto& row, uint64_t value) {
        put(out, MetricsText::kind_of(row.kind), row.name, row.help, value);
    };
    for (const auto& row : node_rows) put_row(row, row.of(s));
    for (const auto& row : lease_rows) put_row(row, row.of(s));
    for (const ClassRow& row : class_sum_rows) put_row(row, sum_of(row, s.classes));
    for (const auto& row : ServiceCounters::rows()) put_row(row, total(row.where));
    each_end([&](const EndKind& kind, std::string_view reason, uint64_t count) {
        out.number(Kind::counter, kind.family, kind.help, count, {{"reason", reason}});
    });
    put_classes(out, s);
}

}  // namespace farcached::node
