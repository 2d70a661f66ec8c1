// SPDX-License-Identifier: BSD-3-Clause
#include "node/node_stats.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <iterator>

#include "base/renamed_stats.h"
#include "node/node.h"

namespace farcached::node {

namespace {

void line(std::string& text, std::string_view name, std::string_view value) {
    text.append(name).append(" ").append(value).append("\n");
}

void line(std::string& text, std::string_view name, uint64_t value) {
    line(text, name, std::to_string(value));
    if (const std::string_view old_name = old_name_of(name); !old_name.empty()) line(text, old_name, std::to_string(value));
}

std::string hex(uint64_t number) {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
    return digits;
}

rusage own_usage() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage;
}

std::string seconds_text(const timeval& time) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%lld.%06ld", static_cast<long long>(time.tv_sec), long(time.tv_usec));
    return digits;
}

// Pages move between classes; counts stay.
bool is_used(const ClassStats& c) {
    uint64_t counted = 0;
#define X(name, value, help) counted |= (value);
    NODE_CLASS_SUMS(X)
#undef X
    return c.pages != 0 || counted != 0;
}

}  // namespace

NodeStats::NodeStats(const Node& node, std::string name, NodeSeconds started)
    : node_(node), name_(std::move(name)), started_(started) {}

template <class CounterOf>
uint64_t NodeStats::total(CounterOf counter_of) const {
    uint64_t sum = 0;
    for (const ServiceCounters* one : counters_) sum += counter_of(*one).get();
    return sum;
}

bool NodeStats::append(std::string_view group, NodeSeconds now, std::string& text) const {
    if (group.empty()) group = "general";
#define X(name, help) \
    if (group == #name) return append_##name(now, text), true;
    NODE_STAT_GROUPS(X)
#undef X
    return false;
}

void NodeStats::append_general(NodeSeconds now, std::string& text) const {
#define X(name, value, help) line(text, #name, value);
    NODE_IDENTITY(X)
#undef X
    const Stats s = node_.stats(now);
#define X(name, kind, value, help) line(text, #name, uint64_t(value));
    NODE_STATS(X)
    LEASE_STATS(X)
#undef X
#define X(name, value, help)                                    \
    {                                                           \
        uint64_t total = 0;                                     \
        for (const ClassStats& c : s.classes) total += (value); \
        line(text, #name, total);                               \
    }
    NODE_CLASS_SUMS(X)
#undef X
#define X(name, help) \
    line(text, #name, total([](const ServiceCounters& c) -> const Counter& { return c.name; }));
    SERVICE_COUNTERS(X)
#undef X
}

void NodeStats::append_leases(NodeSeconds now, std::string& text) const {
    const LeaseConfig config = node_.lease_config();
    const LeaseTerms terms(node_.config().policy, config);
    const Stats s = node_.stats(now);
    line(text, "incarnation", hex(node_.view().header->incarnation));
#define X(name, value, help) line(text, #name, value);
    NODE_LEASE_TERMS(X)
#undef X
#define X(name, kind, value, help) line(text, #name, uint64_t(value));
    LEASE_STATS(X)
#undef X
}

void NodeStats::append_classes(NodeSeconds now, std::string& text) const {
    const Stats s = node_.stats(now);
    for (size_t i = 1; i < s.classes.size(); i++) {
        const ClassStats& c = s.classes[i];
        if (!is_used(c)) continue;
        const std::string prefix = std::to_string(i) + ":";
#define X(name, value, help) line(text, prefix + #name, uint64_t(value));
        NODE_CLASS_STATS(X)
        NODE_CLASS_SUMS(X)
#undef X
    }
}

void NodeStats::append_all(NodeSeconds now, std::string& text) const {
    append_general(now, text);
    append_classes(now, text);
}

void NodeStats::append_connections(NodeSeconds, std::string& text) const {
    auto rows = [&](const char* prefix, const auto& names, auto array) {
        for (size_t i = 0; i < std::size(names); i++)
            line(text, prefix + std::string(names[i]),
                 total([&](const ServiceCounters& c) -> const Counter& { return (c.*array)[i]; }));
    };
#define X(name, help) #name,
    constexpr std::string_view ends[] = {SERVICE_ENDS(X)};
    constexpr std::string_view channel_ends[] = {CHANNEL_ENDS(X)};
    constexpr std::string_view refusals[] = {REFUSALS(X)};
    constexpr std::string_view frame_errors[] = {FRAME_ERRORS(X)};
#undef X
    rows("end_", ends, &ServiceCounters::ends);
    rows("channel_end_", channel_ends, &ServiceCounters::channel_ends);
    rows("refusal_", refusals, &ServiceCounters::refusals);
    rows("frame_", frame_errors, &ServiceCounters::frame_errors);
}

}  // namespace farcached::node
