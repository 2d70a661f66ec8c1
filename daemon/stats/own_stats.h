// SPDX-License-Identifier: BSD-3-Clause
// Rows of our own statistics groups that no counter table elsewhere declares. The statistics (daemon/stats/stats.cc) and
// the man page (man/counters_man.cc) use them.
// Constants; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/out_buffer.h"
#include "base/stat_row.h"
#include "daemon/stats/dump.h"
#include "daemon/stats/hot_keys.h"
#include "daemon/stats/latency.h"
#include "daemon/stats/server_view.h"
#include "daemon/stats/stats_sample.h"
#include "proxy/pointer_table.h"

namespace farcached::daemon {

using SampleRow = StatRow<uint64_t (*)(const Sample&)>;
inline constexpr SampleRow own_rows[] = {
    {"get_local", "the same as local_hits; with get_onesided, get_index and get_twosided: GETs by path",
     [](const Sample& s) { return s.local.local_hits; }},
    {"requests", "requests executed", [](const Sample& s) { return s.workers.requests; }},
    {"read_calls", "recv system calls", [](const Sample& s) { return s.workers.read_calls; }},
    {"write_calls", "send system calls", [](const Sample& s) { return s.workers.write_calls; }},
    {"get_unavailable", "keys of GETs without a reply of their node",
     [](const Sample& s) { return s.workers.get_unavailable; }},
    {"mutations_unavailable", "mutations without a reply of their node; their outcome is unknown",
     [](const Sample& s) { return s.workers.mutations_unavailable; }},
    {"replies_unmatched", "replies of nodes that match no request",
     [](const Sample& s) { return s.workers.replies_unmatched; }},
    {"replica_copies", "changed items stored on their second node, too", [](const Sample& s) { return s.workers.replica_copies; }},
    {"replica_copies_lost", "changed items whose copy was not stored: another change at the same time, or no reply",
     [](const Sample& s) { return s.workers.replica_copies_lost; }},
    {"replica_reads", "gets answered by a copy in the own zone, as the first node is in another, or of a very hot key",
     [](const Sample& s) { return s.workers.replica_reads; }},
    {"replica_refills", "items that a miss stored at their first node from the copy",
     [](const Sample& s) { return s.workers.replica_refills; }},
    {"replica_refusals", "changes refused because the second node did not reply",
     [](const Sample& s) { return s.workers.replica_refusals; }},
    {"replica_searched", "keys that the search for missing copies looked at",
     [](const Sample& s) { return s.workers.replica_searched; }},
    {"replica_missing", "keys known to have no copy, which are looked at again",
     [](const Sample& s) { return s.workers.replica_missing; }, StatKind::gauge},
    {"moved_fetches", "keys asked for at the node that had them before the list changed",
     [](const Sample& s) { return s.workers.moved_fetches; }},
    {"moved_hits", "of these, keys whose item it had", [](const Sample& s) { return s.workers.moved_hits; }},
    {"warm_fetches", "keys asked for at the source of warm_from", [](const Sample& s) { return s.workers.warm_fetches; }},
    {"warm_hits", "of these, keys that the source had", [](const Sample& s) { return s.workers.warm_hits; }},
    {"warm_stored", "of these, items stored here", [](const Sample& s) { return s.workers.warm_stored; }},
    {"warm_failures", "commands to the source of warm_from that it did not carry out in time",
     [](const Sample& s) { return s.workers.warm_failures; }},
    {"slow_requests", "requests that took slow_log_ms or longer",
     [](const Sample& s) { return s.workers.slow_requests; }},
    {"refused_read", "requests refused because their clients may not read",
     [](const Sample& s) { return s.workers.refused_read; }},
    {"refused_write", "requests refused because their clients may not write",
     [](const Sample& s) { return s.workers.refused_write; }},
    {"refused_admin", "requests refused because their clients may not administrate",
     [](const Sample& s) { return s.workers.refused_admin; }},
    {"refused_stats", "requests refused because their clients may not see statistics",
     [](const Sample& s) { return s.workers.refused_stats; }},
    {"tls_handshakes", "TLS handshakes completed", [](const Sample& s) { return s.workers.tls_handshakes; }},
    {"tls_kernel_handshakes", "of these, those after which the kernel encrypts replies",
     [](const Sample& s) { return s.workers.tls_kernel_handshakes; }},
    {"udp_datagrams", "datagrams with requests, over UDP", [](const Sample& s) { return s.workers.udp_datagrams; }},
    {"udp_invalid", "datagrams over UDP without a whole request, or that begin as a reply does",
     [](const Sample& s) { return s.workers.udp_invalid; }},
    {"udp_replies_refused", "replies over UDP replaced by an error because of udp_amplification",
     [](const Sample& s) { return s.workers.udp_replies_refused; }},
    {"udp_replies_lost", "replies over UDP that the socket did not take as a whole",
     [](const Sample& s) { return s.workers.udp_replies_lost; }},
    {"udp_no_memory", "datagrams over UDP refused or dropped for lack of memory",
     [](const Sample& s) { return s.workers.udp_no_memory; }},
    {"udp_in_flight", "datagrams being served, over UDP; at most 256 in each worker",
     [](const Sample& s) { return s.server.udp_in_flight; }},
    {"udp_dropped", "datagrams over UDP that the kernel dropped before a worker read them: its buffers were full",
     [](const Sample& s) { return s.server.udp_dropped; }},
    {"log_lines_lost", "lines for stderr that were lost: disk full, or reader slow or gone",
     [](const Sample& s) { return s.log_lines_lost; }},
    {"node_pages_used", "pages of the arena that belong to a size class",
     [](const Sample& s) { return s.node.pages_used; }},
    {"node_pages_limit", "pages allowed by -m", [](const Sample& s) { return s.node.pages_limit; }},
    {"node_pages_refused", "page allocations that the system refused",
     [](const Sample& s) { return s.node.pages_refused; }},
    {"node_pages_moved", "pages moved to another size class or to a large item",
     [](const Sample& s) { return s.node.pages_moved; }},
    {"node_index_buckets", "64-byte buckets of the index", [](const Sample& s) { return s.node.index_buckets; }},
    {"node_index_bytes", "memory of the index, not counted in -m", [](const Sample& s) { return s.node.index_bytes; }},
    {"node_bytes_lent", "bytes of pages in use by replies being sent", [](const Sample& s) { return s.node.bytes_lent; }},
    {"node_bytes_arriving", "bytes of pages for values still being received",
     [](const Sample& s) { return s.node.bytes_arriving; }},
    {"node_overflow_evictions", "items evicted because their bucket chain was full",
     [](const Sample& s) { return s.node.overflow_evictions; }},
    {"node_flushes", "flush_all executed", [](const Sample& s) { return s.node.flushes; }},
    {"cmd_config_get", "config get requests answered with the list of the cluster",
     [](const Sample& s) { return s.workers.cmd_config_get; }},
    {"cmd_delete_prefix", "deletes by prefix requested here",
     [](const Sample& s) { return s.workers.cmd_delete_prefix; }},
    {"node_prefix_deletes", "deletes by prefix", [](const Sample& s) { return s.node.prefix_deletes; }},
    {"node_prefixes_pending", "deleted prefixes whose items hold memory until a sweep has finished",
     [](const Sample& s) { return s.node.prefixes_pending; }},
    {"node_prefix_items", "items removed by a delete by prefix", [](const Sample& s) { return s.node.prefix_items; }},
};

constexpr std::string_view replica_search_help =
    "with replicas=2: nodes whose keys the search for missing copies has still to look at; 0: it has found all";

// With nodes; LINK_COUNTERS and the reasons of connection losses precede them.
inline constexpr SampleRow nodes_own_rows[] = {
    {"lease_bytes", "bytes of items under leases, as reported by nodes",
     [](const Sample& s) { return s.node.leases.bytes; }},
    {"reclaim_pending_bytes", "bytes of dead slots under leases, as reported by nodes",
     [](const Sample& s) { return s.node.leases.dead_bytes; }},
    {"nodes_unavailable", "nodes without statistics: down or silent; missing from sums",
     [](const Sample& s) { return s.nodes_unavailable; }},
    {"replica_search_left", replica_search_help, [](const Sample& s) { return s.replica_search_left; }, StatKind::gauge},
};

// `stats nodes`, of each node as "node:name"; empty rows are omitted.
inline constexpr StatRow<std::string (*)(const NodeShown&)> node_shown_rows[] = {
    {"state", "up, down, drained by the operator, or fenced: connected, and not used until its old items are deleted",
     [](const NodeShown& n) { return std::string(node_state_name(n.state)); }},
    {"address", "configured address", [](const NodeShown& n) { return n.address; }},
    {"incarnation", "id of its last run that greeted, 16 hexadecimal digits; zeros: none",
     [](const NodeShown& n) { return hex_text(n.incarnation); }},
    {"protocol_version", "version of its frame protocol; before 4 every GET is an RPC; absent if it never greeted",
     [](const NodeShown& n) { return n.protocol_version == 0 ? std::string() : std::to_string(n.protocol_version); }},
    {"key", "role and name of the key that this process proves to it (--auth-key-file); without a connection `refused` or "
            "`unproved` follows; absent without one",
     [](const NodeShown& n) { return n.key; }},
    {"zone", "zone that it registered in etcd; absent if none", [](const NodeShown& n) { return n.zone; }},
    {"weight", "its share of the keys, relative to the other nodes",
     [](const NodeShown& n) { return std::to_string(n.weight); }},
    {"links", "connections to it: one for each worker, or links_per_node",
     [](const NodeShown& n) { return std::to_string(n.links); }},
    {"links_up", "of these, those that are up", [](const NodeShown& n) { return std::to_string(n.links_up); }},
    {"links_shm", "of these, those over its Unix socket on this host; absent without one, or without discover_shm",
     [](const NodeShown& n) { return n.links_shm.has_value() ? std::to_string(*n.links_shm) : std::string(); }},
    {"rpc", "way of requests over RDMA: send, write or rfp, with the number of links if they differ",
     [](const NodeShown& n) { return n.rpc; }},
    {"down_reason", "reason of the last lost connection to it; absent if none",
     [](const NodeShown& n) { return n.down_reason; }},
    {"fence", "rejoin fence of fail-over: in_use; leaving, out: its keys go to other nodes; joining: their requests wait",
     [](const NodeShown& n) { return std::string(fence_state_name(n.fence.state)); }},
    {"fence_keys", "keys whose old items will be deleted there; all: too many, so it will be flushed",
     [](const NodeShown& n) { return n.fence.all ? std::string("all") : std::to_string(n.fence.keys); }},
    {"fence_killed", "old items deleted there by the fence", [](const NodeShown& n) { return std::to_string(n.fence.killed); }},
    {"fence_flushes", "flushes of it by the fence", [](const NodeShown& n) { return std::to_string(n.fence.flushes); }},
    {"fence_failures", "rounds of these deletes that it did not acknowledge; they are repeated",
     [](const NodeShown& n) { return std::to_string(n.fence.failures); }},
    {"failover_mutations", "mutations of its keys, sent to other nodes",
     [](const NodeShown& n) { return std::to_string(n.fence.diverted); }},
    {"failover_ttl_capped", "of these, those with a time to live above failover_ttl, which was lowered",
     [](const NodeShown& n) { return std::to_string(n.fence.capped); }},
};

// `stats latency`, of each verb and way as "get_local:count" etc.
inline constexpr StatRow<uint64_t (*)(const LatencyTotals::One&)> latency_rows[] = {
    {"count", "requests answered on this path", [](const LatencyTotals::One& one) { return one.count(); }},
    {"mean_us", "mean microseconds from receiving the request to writing its reply, by readings of "
     "the clock shared by requests received or answered together",
     [](const LatencyTotals::One& one) { return one.mean_us(); }},
    {"p50_us", "median; interpolated within a power of two",
     [](const LatencyTotals::One& one) { return one.quantile_us(0.5); }},
    {"p90_us", "90th percentile", [](const LatencyTotals::One& one) { return one.quantile_us(0.9); }},
    {"p99_us", "99th percentile", [](const LatencyTotals::One& one) { return one.quantile_us(0.99); }},
    {"p999_us", "99.9th percentile", [](const LatencyTotals::One& one) { return one.quantile_us(0.999); }},
};

// `stats slow_log`, of each line, before SlowRequest::words().
constexpr std::string_view slow_ago_help = "milliseconds since its end";

// `stats hotkeys`: first these,
struct HotKeysShown {
    uint64_t one_in = 0, missed = 0;
};
inline constexpr StatRow<uint64_t HotKeysShown::*> hot_keys_rows[] = {
    {"one_in", "sampling rate: about one in this many answered gets and sets; 0: off (-o hotkeys_sample)",
     &HotKeysShown::one_in},
    {"missed", "samples not counted because the list was being read", &HotKeysShown::missed},
};
// then for each way with answers, as "way:name",
struct HotWayShown {
    uint64_t sampled = 0;
};
inline constexpr StatRow<uint64_t HotWayShown::*> hot_way_rows[] = {
    {"sampled", "gets and sets sampled since the last stats hotkeys reset", &HotWayShown::sampled},
};
// and its keys with the largest counts, as "way:rank:name" from rank 1.
struct HotKeyShown {
    const HotKey& hot;
    uint64_t one_in;
};
inline constexpr StatRow<std::string (*)(const HotKeyShown&)> hot_key_rows[] = {
    {"key", "the key, as in watch", [](const HotKeyShown& k) { return uri_encoded(k.hot.key); }},
    {"requests", "estimated gets and sets of it: never too low, except for sampling error",
     [](const HotKeyShown& k) { return std::to_string(k.hot.count * k.one_in); }},
    {"error", "maximum error of the estimate, since only the most frequent keys are counted",
     [](const HotKeyShown& k) { return std::to_string(k.hot.error * k.one_in); }},
};

// `stats route KEY`; empty ones are not shown. First the key's node and the ways of its gets,
struct RouteShown {
    std::string key, hashed, distribution, hash, place, point;
    std::string node, address, zone, weight, state, drained, links_up, down_reason;
    std::string copy, failover, asked, why, ways;
};
inline constexpr StatRow<std::string RouteShown::*> route_rows[] = {
    {"key", "the key, as in watch", &RouteShown::key},
    {"hashed", "the hashed part of the key, if a hash tag encloses it", &RouteShown::hashed},
    {"distribution", "distribution of keys over nodes", &RouteShown::distribution},
    {"hash", "hash of keys", &RouteShown::hash},
    {"place", "hash of the key, 8 hexadecimal digits: its place on the ring", &RouteShown::place},
    {"point", "the point of the ring that it maps to", &RouteShown::point},
    {"node", "node of the key; under random, a random choice; (embedded): items are in this process", &RouteShown::node},
    {"address", "its configured address", &RouteShown::address},
    {"zone", "zone that it registered; absent if none", &RouteShown::zone},
    {"weight", "its share of the keys, relative to the other nodes", &RouteShown::weight},
    {"state", "up, down, drained or fenced", &RouteShown::state},
    {"drained", "yes: drained by the operator, no keys are routed to it", &RouteShown::drained},
    {"links_up", "connections to it that are up, of all", &RouteShown::links_up},
    {"down_reason", "reason of the last lost connection to it; absent if none", &RouteShown::down_reason},
    {"copy", "node that has the copy (replicas=2); absent without copies", &RouteShown::copy},
    {"failover", "on: keys of an unavailable node go to the next one on the ring", &RouteShown::failover},
    {"asked", "node that serves the key now; none: the key is unavailable", &RouteShown::asked},
    {"why", "reason of that choice", &RouteShown::why},
    {"ways", "paths of gets of the key, as in stats latency, in the order tried", &RouteShown::ways},
};
// then the remote pointer to its item.
struct RoutePointerShown {
    std::string state, lease_left_ms, from, incarnation, region, offset, bytes, generation;
};
inline constexpr StatRow<std::string RoutePointerShown::*> route_pointer_rows[] = {
    {"pointer", "state of the remote pointer to the item: valid, expired, none, or unused if gets use no pointers",
     &RoutePointerShown::state},
    {"pointer_lease_left_ms", "remaining lease of the pointer, in milliseconds", &RoutePointerShown::lease_left_ms},
    {"pointer_from", "source of the pointer: this process, or another one of this host", &RoutePointerShown::from},
    {"pointer_incarnation", "run of the node that the pointer is for, 16 hexadecimal digits", &RoutePointerShown::incarnation},
    {"pointer_region", "region of the node that holds the item", &RoutePointerShown::region},
    {"pointer_offset", "offset of the item in the region, in bytes", &RoutePointerShown::offset},
    {"pointer_bytes", "bytes to read", &RoutePointerShown::bytes},
    {"pointer_generation", "generation of the item", &RoutePointerShown::generation},
};
constexpr std::string_view route_next_help =
    "the next nodes on the ring in fail-over order, each with its state: next_1, next_2, ... up to 8";

using Occupancy = proxy::PointerTable::Occupancy;
inline constexpr StatRow<uint64_t (*)(const Occupancy&)> pointer_rows[] = {
    {"entries", "entries of the shared pointer table", [](const Occupancy& s) { return s.entries; }},
    {"occupied", "entries that are not free", [](const Occupancy& s) { return s.entries - s.free; }},
    {"valid", "entries with a pointer under a lease", [](const Occupancy& s) { return s.live; }},
    {"expired", "entries with a pointer whose lease has ended", [](const Occupancy& s) { return s.expired; }},
    {"torn", "entries incompletely written, or being written", [](const Occupancy& s) { return s.torn; }},
    {"filled_by_this_process", "of the valid entries, those from this process", [](const Occupancy& s) { return s.own; }},
    {"accesses", "uses of the current pointers", [](const Occupancy& s) { return s.accesses; }},
};
constexpr std::string_view lease_left_help =
    "of the valid entries, those whose lease ends within this many milliseconds (cumulative)";

}  // namespace farcached::daemon
