// SPDX-License-Identifier: BSD-3-Clause
// Prometheus metrics of a node: the rows of node/service_counters.h, with the values of `stats`. Any thread.
#include <iterator>
#include <string>
#include <string_view>

#include "base/metrics_text.h"
#include "base/renamed_stats.h"
#include "node/node.h"
#include "node/node_stats.h"

namespace farcached::node {

namespace {

using Kind = MetricsText::Kind;

constexpr Kind kind_of(StatKind kind) { return kind == StatKind::counter ? Kind::counter : Kind::gauge; }

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
        auto row = [&](Kind kind, std::string_view name, std::string_view help, uint64_t value) {
            out.stat(kind, "class_" + std::string(MetricsText::conventional(name)), help, value, {{"class", id}});
        };
#define X(name, value, help) row(Kind::gauge, #name, help, uint64_t(value));
        NODE_CLASS_STATS(X)
#undef X
#define X(name, value, help) row(Kind::counter, #name, help, uint64_t(value));
        NODE_CLASS_SUMS(X)
#undef X
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
#define X(name, kind, value, help) put(out, kind_of(StatKind::kind), #name, help, uint64_t(value));
    NODE_STATS(X)
    LEASE_STATS(X)
#undef X
#define X(name, value, help)                                    \
    {                                                           \
        uint64_t sum = 0;                                       \
        for (const ClassStats& c : s.classes) sum += (value);   \
        put(out, Kind::counter, #name, help, sum);              \
    }
    NODE_CLASS_SUMS(X)
#undef X
    auto total = [&](auto counter_of) {
        uint64_t sum = 0;
        for (const ServiceCounters* one : counters_) sum += counter_of(*one).get();
        return sum;
    };
#define X(name, help) \
    put(out, Kind::counter, #name, help, total([](const ServiceCounters& c) -> const Counter& { return c.name; }));
    SERVICE_COUNTERS(X)
#undef X
    auto reasons = [&](std::string_view family, std::string_view help, const auto& names, auto array) {
        for (size_t i = 0; i < std::size(names); i++)
            out.number(Kind::counter, family, help,
                       total([&](const ServiceCounters& c) -> const Counter& { return (c.*array)[i]; }), {{"reason", names[i]}});
    };
#define X(name, help) #name,
    constexpr std::string_view ends[] = {SERVICE_ENDS(X)};
    constexpr std::string_view channel_ends[] = {CHANNEL_ENDS(X)};
    constexpr std::string_view refusals[] = {REFUSALS(X)};
    constexpr std::string_view frame_errors[] = {FRAME_ERRORS(X)};
#undef X
    reasons("connections_ended", "connections ended, by reason", ends, &ServiceCounters::ends);
    reasons("channel_ends", "ends of channels, by reason", channel_ends, &ServiceCounters::channel_ends);
    reasons("greetings_refused", "greetings refused, by reason", refusals, &ServiceCounters::refusals);
    reasons("frame_errors", "invalid frames, by reason", frame_errors, &ServiceCounters::frame_errors);
    put_classes(out, s);
}

}  // namespace farcached::node
