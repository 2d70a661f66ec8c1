// SPDX-License-Identifier: BSD-3-Clause
#include "node/service/node_stats.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <numeric>
#include <random>

#include "base/out_buffer.h"
#include "base/stat_row.h"
#include "node/store/pages.h"
#include "node/store/prefix_deletes.h"
#include "node/store/tiers.h"

namespace farcached::node {

namespace {

void line(std::string& text, std::string_view name, std::string_view value) {
    text.append(name).append(" ").append(value).append("\n");
}

void line(std::string& text, std::string_view name, uint64_t value) {
    line(text, name, std::to_string(value));
    if (const std::string_view old_name = old_name_of(name); !old_name.empty()) line(text, old_name, std::to_string(value));
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
    return c.pages != 0 || std::ranges::any_of(class_sum_rows, [&](const ClassRow& row) { return row.of(c) != 0; });
}

uint64_t if_enabled(const NodeNow& n, uint64_t value) { return n.node.lease_config().enabled ? value : 0; }
LeaseTerms terms_of(const NodeNow& n) { return {n.node.config().policy, n.node.lease_config()}; }

// The processor time of this thread.
uint64_t thread_cpu_us() {
    timespec at{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return uint64_t(at.tv_sec) * 1'000'000 + uint64_t(at.tv_nsec) / 1000;
}

}  // namespace

std::span<const NodeNowRow> identity_rows() {
    static constexpr NodeNowRow rows[] = {
        {"node", "name of the node", [](const NodeNow& n) { return std::string(n.name); }},
        {"incarnation", "id of this run, 16 hexadecimal digits",
         [](const NodeNow& n) { return hex_text(n.node.view().header->incarnation); }},
        {"pid", "its process id", [](const NodeNow&) { return std::to_string(getpid()); }},
        {"uptime", "seconds since the node began to serve",
         [](const NodeNow& n) { return std::to_string(seconds_since(n.started, n.now)); }},
        {"rusage_user", "user CPU time, in seconds", [](const NodeNow&) { return seconds_text(own_usage().ru_utime); }},
        {"rusage_system", "system CPU time, in seconds", [](const NodeNow&) { return seconds_text(own_usage().ru_stime); }},
        {"item_size_max", "maximum item size including the key, in bytes",
         [](const NodeNow& n) { return std::to_string(n.node.config().item_bytes_max); }},
        {"farnode_version", "version of the program", [](const NodeNow&) { return std::string(PACKAGE_VERSION); }},
    };
    return rows;
}

std::span<const NodeNowRow> lease_term_rows() {
    static constexpr NodeNowRow rows[] = {
        {"lease_enabled", "1: leases are granted", [](const NodeNow& n) { return std::to_string(if_enabled(n, 1)); }},
        {"lease_term_ms", "the longest lease, in milliseconds",
         [](const NodeNow& n) { return std::to_string(if_enabled(n, terms_of(n).longest_ms())); }},
        {"lease_grace_ms", "milliseconds from the end of a lease to the reuse of its memory",
         [](const NodeNow& n) { return std::to_string(if_enabled(n, n.node.lease_config().grace_ms)); }},
        {"lease_term_ms_min", "the shortest, in milliseconds, where terms differ",
         [](const NodeNow& n) { return std::to_string(if_enabled(n, terms_of(n).shortest_ms())); }},
        {"policy", "eviction policy", [](const NodeNow& n) { return std::string(name_of(n.node.config().policy)); }},
        {"pdla_alpha_ms", "current increase of the lease term per doubling of accesses, in milliseconds; 0: one term",
         [](const NodeNow& n) { return std::to_string(if_enabled(n, n.stats.leases.alpha_ms)); }},
    };
    return rows;
}

NodeStats::NodeStats(Node& node, std::string name, NodeSeconds started, const fabric::PeerTls* peers)
    : node_(node), name_(std::move(name)), started_(started), peers_(peers) {}

std::span<const NodeStats::Group> NodeStats::groups() {
    static constexpr Group rows[] = {
        {"general", "default group: identity, items, memory and requests", &NodeStats::append_general},
        {"leases", "leases granted and denied, and memory waiting for their ends", &NodeStats::append_leases},
        {"classes", "each size class with pages or counts", &NodeStats::append_classes},
        {"all", "general and classes: the source of a proxy's memcached statistics", &NodeStats::append_all},
        {"connections", "ends of connections, by reason", &NodeStats::append_connections},
        {"keys", "open connections by role and name of the key that the proxy proved (--auth-key-file)", &NodeStats::append_keys},
        {"proxies", "connected proxies by process, each as NAME@HOST:PID:name, and the epochs of their lists of nodes",
         &NodeStats::append_proxies},
        {"transport", "traffic of connections: bytes, and RDMA work requests", &NodeStats::append_transport},
        {"groups", "this list, each with a 1", &NodeStats::append_groups},
    };
    return rows;
}

bool append_prefix_count(Node& node, std::string_view words, std::string& text) {
    const size_t blank = words.find(' ');
    if (blank == words.npos) return false;
    const std::string_view token = words.substr(0, blank), prefix = words.substr(blank + 1);
    if (prefix.empty() || prefix.find(' ') != prefix.npos) return false;
    constexpr std::string_view states[] = {"unknown", "busy", "running", "complete"};
    const PrefixCount count = token == "deleted" ? node.prefixes().counts().of_delete(prefix) :
        node.prefixes().counts().count(token, prefix);
    line(text, "state", states[size_t(count.state)]);
    line(text, "order", count.order);
    line(text, "pages_done", count.pages_done);
    line(text, "pages", count.pages);
    line(text, "pages_walked", count.pages_walked);
    if (count.items) line(text, "items", *count.items);
    return true;
}

// A stride that shares no factor with the number of pages visits each page once. An unused page costs only a look. Text is
// reserved before a page's lock is taken; only long keys allocate under it.
void append_key_sample(Node& node, NodeSeconds now, std::string& text, uint32_t cpu_us_max) {
    constexpr uint64_t keys_wanted = 1000;
    constexpr size_t page_text_bytes = 64 << 10;
    constexpr uint64_t unused_pages_per_visit = 64;  // in time
    const uint64_t pages = node.pages().count(), end_us = thread_cpu_us() + cpu_us_max;
    std::random_device chance;
    uint64_t page = chance() % pages, stride = 1 + chance() % pages, keys = 0, seen = 0, cost = 0;
    while (std::gcd(stride, pages) != 1) stride++;
    for (; seen < pages && keys < keys_wanted; seen++, page = (page + stride) % pages) {
        const bool is_used = size_class_of(node, page) != 0;
        if (cost >= key_sample_pages * unused_pages_per_visit) {
            if (thread_cpu_us() >= end_us) break;
            cost = 0;
        }
        cost += is_used ? unused_pages_per_visit : 1;
        if (!is_used) continue;
        if (text.capacity() - text.size() < page_text_bytes) text.reserve(2 * text.size() + page_text_bytes);
        node.pages().visit(page, now, [&](const ItemView& item) {
            const bool is_word = std::ranges::none_of(item.key, [](unsigned char c) { return c <= ' ' || c >= 0x7f; });
            if (is_word) line(text, "key", item.key);
            keys += is_word;
        });
    }
    line(text, "items", node.stats(now).items);
    line(text, "pages", pages);
    line(text, "pages_seen", seen);
}

bool NodeStats::append(std::string_view group, NodeSeconds now, std::string& text) const {
    if (group.empty()) group = "general";
    for (const Group& one : groups())
        if (one.name == group) return (this->*one.where)(now, text), true;
    if (group == "key_sample") return append_key_sample(node_, now, text), true;
    constexpr std::string_view of_prefix = "prefix ";
    return group.starts_with(of_prefix) && append_prefix_count(node_, group.substr(of_prefix.size()), text);
}

void NodeStats::append_general(NodeSeconds now, std::string& text) const {
    const Stats s = node_.stats(now);
    const NodeNow moment{node_, name_, started_, now, s};
    for (const NodeNowRow& row : identity_rows()) line(text, row.name, row.of(moment));
    if (peers_ != nullptr) line(text, "peer_certificate_expires", uint64_t(peers_->expires_unix()));
    each_of_right([&](const auto& row, uint64_t value) { line(text, row.name, value); });
    for (const auto& row : node_rows) line(text, row.name, row.of(s));
    for (const auto& row : lease_rows) line(text, row.name, row.of(s));
    for (const ClassRow& row : class_sum_rows) line(text, row.name, sum_of(row, s.classes));
    for (const auto& row : ServiceCounters::rows()) line(text, row.name, total(row.where));
    if (const DiskStore* disk = node_.config().disk) {
        const DiskStatistics numbers = disk->statistics();
        for (const auto& row : DiskStatistics::rows()) line(text, row.name, row.of(numbers));
    }
    if (const PeerStore* peer = node_.config().peer) {
        const PeerStatistics numbers = peer->statistics();
        for (const auto& row : PeerStatistics::rows()) line(text, row.name, row.of(numbers));
    }
}

void NodeStats::append_leases(NodeSeconds now, std::string& text) const {
    const Stats s = node_.stats(now);
    line(text, "incarnation", hex_text(node_.view().header->incarnation));
    for (const NodeNowRow& row : lease_term_rows()) line(text, row.name, row.of(NodeNow{node_, name_, started_, now, s}));
    for (const auto& row : lease_rows) line(text, row.name, row.of(s));
}

void NodeStats::append_classes(NodeSeconds now, std::string& text) const {
    const Stats s = node_.stats(now);
    for (size_t i = 1; i < s.classes.size(); i++) {
        const ClassStats& c = s.classes[i];
        if (!is_used(c)) continue;
        const std::string prefix = std::to_string(i) + ":";
        for (const ClassRow& row : class_rows) line(text, prefix + std::string(row.name), row.of(c));
        for (const ClassRow& row : class_sum_rows) line(text, prefix + std::string(row.name), row.of(c));
    }
}

void NodeStats::append_all(NodeSeconds now, std::string& text) const {
    append_general(now, text);
    append_classes(now, text);
}

void NodeStats::append_connections(NodeSeconds, std::string& text) const {
    each_end([&](const EndKind& kind, std::string_view reason, uint64_t count) {
        line(text, std::string(kind.prefix) + std::string(reason), count);
    });
}

void NodeStats::append_keys(NodeSeconds, std::string& text) const {
    if (keys_ != nullptr) keys_->each_in_use([&](const std::string& key, uint64_t count) { line(text, key, count); });
}

void NodeStats::append_proxies(NodeSeconds now, std::string& text) const {
    if (proxies_ == nullptr) return;
    line(text, proxies_left_out_name, proxies_->left_out());
    proxies_->each(now, [&](const std::string& process, const ProxyShown& shown) {
        for (const auto& row : proxy_rows) line(text, process + ":" + std::string(row.name), row.of(shown));
    });
}

void NodeStats::append_transport(NodeSeconds, std::string& text) const {
    for (const auto& row : fabric::ChannelCounters::rows()) line(text, row.name, channel_total(row.where));
}

void NodeStats::append_groups(NodeSeconds, std::string& text) const {
    for (const Group& one : groups()) line(text, one.name, 1);
}

void NodeStats::each_of_right(FunctionRef<void(const ServingRightRow&, uint64_t)> visit) const {
    if (right_ == nullptr || !right_->is_limited()) return;
    const ServingRightNow moment{*right_, boottime_ns(), list_->newest()};
    for (const ServingRightRow& row : serving_right_rows) visit(row, row.of(moment));
}

void NodeStats::each_end(FunctionRef<void(const EndKind&, std::string_view reason, uint64_t count)> visit) const {
    const auto each = [&]<class Reason>(const EndKind& kind, std::string_view (*text_of)(Reason), auto array) {
        for (size_t i = 0; i < size_t(Reason::count); i++)
            visit(kind, text_of(Reason(i)), total([&](const ServiceCounters& c) -> const Counter& { return (c.*array)[i]; }));
    };
    each({"end_", "connections_ended", "connections ended, by reason"}, service_end_name, &ServiceCounters::ends);
    each({"channel_end_", "channel_ends", "ends of channels, by reason"}, fabric::channel_end_name,
         &ServiceCounters::channel_ends);
    each({"refusal_", "greetings_refused", "greetings refused, by reason"}, protocol::refusal_name,
         &ServiceCounters::refusals);
    each({"frame_", "frame_errors", "invalid frames, by reason"}, protocol::frame_error_name,
         &ServiceCounters::frame_errors);
}

}  // namespace farcached::node
