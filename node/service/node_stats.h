// SPDX-License-Identifier: BSD-3-Clause
// NodeStats: a node's statistics as text: lines "name value", by group. Proxies read the text back by the same rows
// (daemon/stats/stats_sample.h), and numbers of several nodes may be added by name.
// Owner: main. Threads: any may read once serving begins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/function_ref.h"
#include "base/metrics_text.h"
#include "base/node_clock.h"
#include "base/stat_row.h"
#include "fabric/peer_tls.h"
#include "node/service/authentication.h"
#include "node/service/list_epoch.h"
#include "node/service/proxy_book.h"
#include "node/service/service_counters.h"
#include "node/service/serving_right.h"
#include "node/store/node.h"

namespace farcached::node {

// ---- rows of what the node counts ---------------------------------------------------------------------------
// Where Stats has the number: a field, or one of the tiers.
struct NodeNumber {
    std::variant<uint64_t Stats::*, uint64_t TierStats::*> where;

    template <class Where>
    constexpr NodeNumber(Where at) : where(at) {}  // NOLINT: implicit on purpose, rows name the place alone

    template <class SomeStats>
    auto& operator()(SomeStats& s) const {
        if (const auto* of_tiers = std::get_if<uint64_t TierStats::*>(&where)) return s.tiers.*(*of_tiers);
        return s.*std::get<0>(where);
    }
};
inline constexpr StatRow<NodeNumber> node_rows[] = {
    {"curr_items", "current items", &Stats::items, StatKind::gauge},
    {"total_items", "items ever stored", &Stats::items_total},
    {"bytes", "bytes of live items: header, key and value", &Stats::bytes, StatKind::gauge},
    {"limit_maxbytes", "memory limit of items, in bytes", &Stats::memory_limit_bytes, StatKind::gauge},
    {"pages_used", "pages in use", &Stats::pages_used, StatKind::gauge},
    {"pages_limit", "pages available", &Stats::pages_limit, StatKind::gauge},
    {"pages_refused", "page allocations that the system refused", &Stats::pages_refused},
    {"slab_reassigned", "pages moved to another size class or to a large item", &Stats::pages_moved},
    {"hash_buckets", "buckets of the index", &Stats::index_buckets, StatKind::gauge},
    {"hash_bytes", "bytes of the index", &Stats::index_bytes, StatKind::gauge},
    {"flushes", "flushes executed", &Stats::flushes},
    {"prefix_deletes", "deletes by prefix", &Stats::prefix_deletes},
    {"prefixes_pending", "deleted prefixes whose items hold memory until a sweep has finished",
     &Stats::prefixes_pending, StatKind::gauge},
    {"prefix_items", "items removed by a delete by prefix", &Stats::prefix_items},
    {"index_evictions", "items evicted because their bucket chain was full (keys aimed at one chain)",
     &Stats::overflow_evictions},
    {"numa_nodes", "NUMA nodes that share the memory; 1: not divided", &Stats::numa_nodes, StatKind::gauge},
    {"recached", "items whose value returned from a tier to memory", &TierStats::recached},
    {"foreign_bytes", "bytes of values of other nodes, which name this one in spill_to", &TierStats::foreign_bytes,
     StatKind::gauge},
    {"subleases", "permits for proxies to READ a value on the node of spill_to", &TierStats::subleases},
    {"values_lost", "items whose value a read did not find in its tier", &TierStats::lost_away},
    {"numa_refused", "memory ranges that the kernel did not bind to a NUMA node", &Stats::numa_refused, StatKind::gauge},
    {"reads_counted", "one-sided reads found in the items' counters (access_tracking)", &Stats::reads_counted},
};

// Where Stats has a number about leases: a field, the count of a denial, or the length of a queue.
struct PolicyQueue {
    size_t number;
};
struct LeaseNumber {
    std::variant<uint64_t LeaseStats::*, protocol::LeaseDenial, PolicyQueue> where;

    template <class Where>
    constexpr LeaseNumber(Where at) : where(at) {}  // NOLINT: implicit on purpose, rows name the place alone

    template <class SomeStats>
    auto& operator()(SomeStats& s) const {
        if (const auto* why = std::get_if<protocol::LeaseDenial>(&where)) return s.leases.denied[size_t(*why)];
        if (const auto* queue = std::get_if<PolicyQueue>(&where)) return s.queues[queue->number];
        return s.leases.*std::get<0>(where);
    }
};
inline constexpr StatRow<LeaseNumber> lease_rows[] = {
    {"lease_granted", "leases granted", &LeaseStats::granted},
    {"lease_renewed", "leases extended before their end", &LeaseStats::renewed},
    {"lease_denied_young", "leases denied: too few accesses of the item", protocol::LeaseDenial::young_},
    {"lease_denied_dead_key", "leases denied: its key has a dead slot, and dead slots hold more than --dead-share of memory",
     protocol::LeaseDenial::dead_key_},
    {"lease_denied_dead", "leases denied: dead slots hold more than twice --dead-share of memory",
     protocol::LeaseDenial::dead_},
    {"lease_denied_no_room", "leases denied: the lease zone has no slot for the item", protocol::LeaseDenial::no_room_},
    {"lease_denied_short", "leases denied: the item expires too soon, or a flush is scheduled",
     protocol::LeaseDenial::short_},
    {"lease_denied_draining", "leases denied: the page of the item is draining", protocol::LeaseDenial::draining_},
    {"lease_denied_stopped", "leases denied: leases are suspended because a store ran out of memory",
     protocol::LeaseDenial::stopped_},
    {"lease_denied_tokens", "leases denied: the item is stale, or its recache token was issued",
     protocol::LeaseDenial::tokens_},
    {"lease_denied_sparse", "leases denied: the item fills less than a quarter of its slot", protocol::LeaseDenial::sparse_},
    {"lease_pages_draining", "pages that are freed when their leases have ended", &LeaseStats::draining, StatKind::gauge},
    {"lease_pages_drained", "such pages that were freed", &LeaseStats::drained},
    {"lease_stopped", "1: leases are suspended because a store ran out of memory", &LeaseStats::stopped, StatKind::gauge},
    {"lease_stops", "times leases were suspended", &LeaseStats::stops},
    {"lease_moved", "items moved into the lease zone", &LeaseStats::moved},
    {"lease_bytes", "bytes of the slots of items under leases", &LeaseStats::bytes, StatKind::gauge},
    {"lease_slack_bytes", "unused bytes of these slots", &LeaseStats::slack_bytes, StatKind::gauge},
    {"lease_in_place", "items written in place under a lease", &LeaseStats::in_place},
    {"lease_revived", "dead slots reused by a store of their key", &LeaseStats::revived},
    {"reclaim_pending_bytes", "bytes of dead slots waiting for the end of their lease",
     &LeaseStats::dead_bytes, StatKind::gauge},
    {"reclaim_pending_slots", "dead slots", &LeaseStats::dead_slots, StatKind::gauge},
    {"queue_0", "items in the policy's lowest or only queue; s3fifo: the newest", PolicyQueue{0}, StatKind::gauge},
    {"queue_1", "items in its second queue; s3fifo: the small one", PolicyQueue{1}, StatKind::gauge},
    {"queue_2", "items in its third queue; s3fifo: the main one", PolicyQueue{2}, StatKind::gauge},
    {"queue_3", "items in its fourth queue", PolicyQueue{3}, StatKind::gauge},
    {"queue_4", "items in its fifth queue", PolicyQueue{4}, StatKind::gauge},
    {"queue_5", "items in its sixth queue", PolicyQueue{5}, StatKind::gauge},
    {"queue_6", "items in its seventh queue", PolicyQueue{6}, StatKind::gauge},
    {"queue_7", "items in its highest queue", PolicyQueue{7}, StatKind::gauge},
};

// For each size class that is or was in use, as "class:name"; the first table is also summed over classes.
using ClassRow = StatRow<uint64_t ClassStats::*>;
inline constexpr ClassRow class_sum_rows[] = {
    {"evictions", "items evicted", &ClassStats::evicted},
    {"evicted_unfetched", "items evicted that were never fetched", &ClassStats::evicted_unfetched},
    {"evicted_active", "items evicted that had been fetched lately", &ClassStats::evicted_active},
    {"evicted_nonzero", "items evicted that would have expired", &ClassStats::evicted_nonzero},
    {"expired_unfetched", "items expired that were never fetched", &ClassStats::expired_unfetched},
    {"reclaimed", "expired items whose memory a store reused", &ClassStats::reclaimed},
    {"out_of_memory", "stores that ran out of memory", &ClassStats::out_of_memory},
    {"crawler_reclaimed", "expired items removed by the crawler", &ClassStats::crawler_reclaimed},
    {"crawler_checked", "items examined by the crawler", &ClassStats::crawler_checked},
    {"kept", "second chances given at eviction", &ClassStats::kept},
};
inline constexpr ClassRow class_rows[] = {
    {"slot_bytes", "bytes per slot; 0: items larger than a page", &ClassStats::slot_bytes, StatKind::gauge},
    {"pages", "pages of 64 KiB", &ClassStats::pages, StatKind::gauge},
    {"slots_used", "slots in use", &ClassStats::slots_used, StatKind::gauge},
    {"slots_total", "slots in total", &ClassStats::slots_total, StatKind::gauge},
    {"bytes_requested", "bytes of live items", &ClassStats::bytes_requested, StatKind::gauge},
    {"age_oldest_s", "seconds since the last access of the next eviction victim", &ClassStats::age_oldest_s, StatKind::gauge},
    {"evicted_age_s", "the same, of the last item evicted", &ClassStats::evicted_age_s, StatKind::gauge},
};

inline uint64_t sum_of(const ClassRow& row, const std::vector<ClassStats>& classes) {
    uint64_t sum = 0;
    for (const ClassStats& c : classes) sum += row.of(c);
    return sum;
}

// ---- rows of what is computed when shown --------------------------------------------------------------------
// A node at one moment.
struct NodeNow {
    const Node& node;
    std::string_view name;
    NodeSeconds started, now;
    const Stats& stats;
};
using NodeNowRow = StatRow<std::string (*)(const NodeNow&)>;
// Of PeerTls::expires_unix().
inline constexpr std::string_view peer_certificate_help =
    "end of the validity of the certificate of --peer-cert, in seconds since 1970";

std::span<const NodeNowRow> identity_rows();
std::span<const NodeNowRow> lease_term_rows();

// A kind of end of connections: prefix of the statistics, and the family of the metrics.
struct EndKind {
    std::string_view prefix, family, help;
};

// Lines "name value" of a PrefixCount. words: "TOKEN PREFIX". False: they are not two words.
bool append_prefix_count(Node& node, std::string_view words, std::string& text);

// Lines "key KEY" of a thousand items, all of pages in a random order, and "items N", "pages N", "pages_seen N". Only keys of
// printable ASCII. A serving thread calls it: after cpu_us_max of the thread's time the sample ends. It has at least
// key_sample_pages, and unused pages take almost no time.
constexpr uint32_t key_sample_us_max = 1000, key_sample_pages = 16;
void append_key_sample(Node& node, NodeSeconds now, std::string& text, uint32_t cpu_us_max = key_sample_us_max);

class NodeStats {
  public:
    // `node` outlives this. `name`: as in the greeting. `started`: clock reading when serving began. peers: TLS of tcp links, which
    // outlives this; nullptr: none.
    NodeStats(Node& node, std::string name, NodeSeconds started, const fabric::PeerTls* peers = nullptr);

    // Called before any connection is served; the counters outlive this.
    void include(const ServiceCounters& counters) { counters_.push_back(&counters); }
    void include(const KeyRing& keys) { keys_ = &keys; }
    void include(const ProxyBook& proxies) { proxies_ = &proxies; }
    void include(const ServingRight& right, const ListEpoch& list) { right_ = &right, list_ = &list; }

    // False: unknown group. Two more groups are for farctl. "prefix TOKEN PREFIX" has the PrefixCount that the token names;
    // the token `deleted` names the last delete of the prefix. "key_sample" has keys in use. Throws std::bad_alloc.
    bool append(std::string_view group, NodeSeconds now, std::string& text) const;
    // The same numbers in Prometheus format (node/service/node_metrics.cc).
    void append_metrics(NodeSeconds now, MetricsText& out) const;

    const std::string& name() const { return name_; }
    NodeSeconds started() const { return started_; }
    // A counter's sum over the threads.
    uint64_t total(auto counter_of) const {
        uint64_t sum = 0;
        for (const ServiceCounters* one : counters_) sum += std::invoke(counter_of, *one).get();
        return sum;
    }

    // Of a counter of channels.
    uint64_t channel_total(Counter fabric::ChannelCounters::* counter) const {
        return total([&](const ServiceCounters& c) -> const Counter& { return c.channel.*counter; });
    }

    using Group = StatRow<void (NodeStats::*)(NodeSeconds now, std::string& text) const>;
    static std::span<const Group> groups();
    // Of serving_right_rows; nothing without a limit.
    void each_of_right(FunctionRef<void(const ServingRightRow&, uint64_t)> visit) const;

  private:
    void each_end(FunctionRef<void(const EndKind&, std::string_view reason, uint64_t count)> visit) const;
    void append_general(NodeSeconds now, std::string& text) const;
    void append_leases(NodeSeconds now, std::string& text) const;
    void append_classes(NodeSeconds now, std::string& text) const;
    void append_all(NodeSeconds now, std::string& text) const;
    void append_connections(NodeSeconds now, std::string& text) const;
    void append_keys(NodeSeconds now, std::string& text) const;
    void append_proxies(NodeSeconds now, std::string& text) const;
    void append_transport(NodeSeconds now, std::string& text) const;
    void append_groups(NodeSeconds now, std::string& text) const;

    Node& node_;
    const std::string name_;
    const NodeSeconds started_;
    const fabric::PeerTls* const peers_;
    std::vector<const ServiceCounters*> counters_;
    const KeyRing* keys_ = nullptr;  // set before any thread reads, as are the next three
    const ProxyBook* proxies_ = nullptr;
    const ServingRight* right_ = nullptr;
    const ListEpoch* list_ = nullptr;
};

// Of each size class in use, with its number as a further label (node/service/node_metrics.cc).
void append_class_metrics(const std::vector<ClassStats>& classes, MetricsText::Labels labels, MetricsText& out);

}  // namespace farcached::node
