// SPDX-License-Identifier: BSD-3-Clause
// Rows of our own statistics groups that no counter table elsewhere declares. The statistics (daemon/stats/stats_*.cc) and the man
// page (man/counters_man.cc) use them.
#pragma once

//        name          help                                                      where a Sample has it
#define OWN_STATS(X)                                                                                         \
    X(get_local, "the same as local_hits; with get_onesided, get_index and get_twosided: GETs by path",      \
      sample.local.local_hits)                                                                               \
    X(requests, "requests executed", sample.workers.requests)                                                \
    X(read_calls, "recv system calls", sample.workers.read_calls)                                            \
    X(write_calls, "send system calls", sample.workers.write_calls)                                          \
    X(get_unavailable, "keys of GETs without a reply of their node", sample.workers.get_unavailable)         \
    X(mutations_unavailable, "mutations without a reply of their node; their outcome is unknown",            \
      sample.workers.mutations_unavailable)                                                                  \
    X(replies_unmatched, "replies of nodes that match no request", sample.workers.replies_unmatched)         \
    X(slow_requests, "requests that took slow_log_ms or longer", sample.workers.slow_requests)               \
    X(log_lines_lost, "lines for stderr that were lost: disk full, or reader slow or gone",                  \
      sample.log_lines_lost)                                                                                 \
    X(node_pages_used, "pages of the arena that belong to a size class", sample.node.pages_used)             \
    X(node_pages_limit, "pages allowed by -m", sample.node.pages_limit)                                      \
    X(node_pages_refused, "page allocations that the system refused",                                        \
      sample.node.pages_refused)                                                                             \
    X(node_pages_moved, "pages moved to another size class or to a large item",                              \
      sample.node.pages_moved)                                                                               \
    X(node_index_buckets, "64-byte buckets of the index", sample.node.index_buckets)                         \
    X(node_index_bytes, "memory of the index, not counted in -m", sample.node.index_bytes)                   \
    X(node_bytes_lent, "bytes of pages in use by replies being sent", sample.node.bytes_lent)                \
    X(node_bytes_arriving, "bytes of pages for values still being received", sample.node.bytes_arriving)     \
    X(node_overflow_evictions, "items evicted because their bucket chain was full",                          \
      sample.node.overflow_evictions)                                                                        \
    X(node_flushes, "flush_all executed", sample.node.flushes)                                               \
    X(cmd_delete_prefix, "deletes by prefix requested here", sample.workers.cmd_delete_prefix)               \
    X(node_prefix_deletes, "deletes by prefix", sample.node.prefix_deletes)                                  \
    X(node_prefixes_pending, "deleted prefixes whose items hold memory until a sweep has finished; a gauge", \
      sample.node.prefixes_pending)                                                                          \
    X(node_prefix_items, "items removed by a delete by prefix", sample.node.prefix_items)

// With nodes; LINK_COUNTERS and the reasons of connection losses precede them.
//
//        name          help                                                      where a Sample has it
#define NODES_OWN_STATS(X)                                                                                 \
    X(lease_bytes, "bytes of items under leases, as reported by nodes; a gauge", sample.node.leases.bytes) \
    X(reclaim_pending_bytes, "bytes of dead slots under leases, as reported by nodes; a gauge",            \
      sample.node.leases.dead_bytes)                                                                       \
    X(nodes_unavailable, "nodes without statistics: down or silent; missing from sums",                    \
      sample.nodes_unavailable)

// `stats nodes`, of each node as "node:name"; empty rows are omitted. `shown` is a NodeShown.
//
//        name          help                                                      text
#define NODE_ROWS(X)                                                                                               \
    X(state, "up, down, or drained by the operator", std::string(node_state_name(shown.state)))                    \
    X(address, "configured address", shown.address)                                                                \
    X(incarnation, "id of its last run that greeted, 16 hexadecimal digits; zeros: none", hex(shown.incarnation))  \
    X(protocol_version, "version of its frame protocol; before 4 every GET is an RPC; absent if it never greeted", \
      shown.protocol_version == 0 ? std::string() : std::to_string(shown.protocol_version))                        \
    X(weight, "its share of the keys, relative to the other nodes", std::to_string(shown.weight))                  \
    X(links, "connections to it, one for each worker", std::to_string(shown.links))                                \
    X(links_up, "of these, those that are up", std::to_string(shown.links_up))                                     \
    X(down_reason, "reason of the last lost connection to it; absent if none", shown.down_reason)

// `stats latency`, of each verb and way as "get_local:count" etc. `one` is a LatencyTotals::One, count its count().
//
//        name          help                                                      value
#define LATENCY_ROWS(X)                                                                                         \
    X(count, "requests answered on this path", count)                                                           \
    X(mean_us, "mean microseconds from receiving the request to writing its reply, by readings of "             \
      "the clock shared by requests received or answered together", count == 0 ? 0 : one.sum_ns / 1000 / count) \
    X(p50_us, "median; interpolated within a power of two", one.quantile_us(0.5))                               \
    X(p90_us, "90th percentile", one.quantile_us(0.9))                                                          \
    X(p99_us, "99th percentile", one.quantile_us(0.99))                                                         \
    X(p999_us, "99.9th percentile", one.quantile_us(0.999))

// `stats slow_log`: the words of a line, "word=value".
//
//        name          help
#define SLOW_WORDS(X)                                                                                           \
    X(ago_ms, "milliseconds since its end")                                                                     \
    X(took_us, "microseconds from receiving the request to writing its reply")                                  \
    X(queue_us, "of these, until it was sent to its node: waiting for room, or for another request of its key") \
    X(answer_us, "until its reply arrived: network and waiting at the node")                                    \
    X(reply_us, "until its reply was written: waiting for replies to earlier requests")                         \
    X(op, "get, set or other")                                                                                  \
    X(path, "as in stats latency; none: no reply")                                                              \
    X(node, "its node; -: none")                                                                                \
    X(requests, "number of requests: those answered at once are measured in batches per session")               \
    X(worker, "the worker thread, from 0")                                                                      \
    X(cfd, "the descriptor of the client's connection, as in stats conns")                                      \
    X(key, "the key, as in watch; of a batch, the first one")

// `stats hotkeys`: first these,
//
//        name          help                                                      value
#define HOT_KEYS_ROWS(X)                                                                                          \
    X(one_in, "sampling rate: about one in this many answered gets and sets; 0: off (-o hotkeys_sample)", one_in) \
    X(missed, "samples not counted because the list was being read", missed)
// then for each way with answers, as "way:name",
#define HOT_KEYS_WAY_ROWS(X) \
    X(sampled, "gets and sets sampled since the last stats hotkeys reset", sampled)
// and its keys with the largest counts, as "way:rank:name" from rank 1. `hot` is a HotKey.
#define HOT_KEY_ROWS(X)                                                                      \
    X(key, "the key, as in watch", uri_encoded(hot.key))                                     \
    X(requests, "estimated gets and sets of it: never too low, except for sampling error",   \
      std::to_string(hot.count * one_in))                                                    \
    X(error, "maximum error of the estimate, since only the most frequent keys are counted", \
      std::to_string(hot.error * one_in))

// `stats route KEY`; empty rows are omitted. `r` is a RouteShown (daemon/stats/stats_route.cc).
//
//        name          help                                                      text
#define ROUTE_ROWS(X)                                                                                              \
    X(key, "the key, as in watch", r.key)                                                                          \
    X(hashed, "the hashed part of the key, if a hash tag encloses it", r.hashed)                                   \
    X(distribution, "distribution of keys over nodes", r.distribution)                                             \
    X(hash, "hash of keys", r.hash)                                                                                \
    X(place, "hash of the key, 8 hexadecimal digits: its place on the ring", r.place)                              \
    X(point, "the point of the ring that it maps to", r.point)                                                     \
    X(node, "node of the key; under random, a random choice; (embedded): items are in this process", r.node)       \
    X(address, "its configured address", r.address)                                                                \
    X(weight, "its share of the keys, relative to the other nodes", r.weight)                                      \
    X(state, "up, down or drained", r.state)                                                                       \
    X(drained, "yes: drained by the operator, no keys are routed to it", r.drained)                                \
    X(links_up, "connections to it that are up, of all", r.links_up)                                               \
    X(down_reason, "reason of the last lost connection to it; absent if none", r.down_reason)                      \
    X(failover, "on: keys of an unavailable node go to the next one on the ring", r.failover)                      \
    X(asked, "node that serves the key now; none: the key is unavailable", r.asked)                                \
    X(why, "reason of that choice", r.why)                                                                         \
    X(ways, "paths of gets of the key, as in stats latency, in the order tried", r.ways)                           \
    X(pointer, "state of the remote pointer to the item: valid, expired, none, or unused if gets use no pointers", \
      r.pointer)                                                                                                   \
    X(pointer_lease_left_ms, "remaining lease of the pointer, in milliseconds", r.lease_left_ms)                   \
    X(pointer_from, "source of the pointer: this process, or another one of this host", r.pointer_from)            \
    X(pointer_incarnation, "run of the node that the pointer is for, 16 hexadecimal digits", r.incarnation)        \
    X(pointer_region, "region of the node that holds the item", r.region)                                          \
    X(pointer_offset, "offset of the item in the region, in bytes", r.offset)                                      \
    X(pointer_bytes, "bytes to read", r.bytes)                                                                     \
    X(pointer_generation, "generation of the item", r.generation)
#define ROUTE_NEXT_HELP \
    "the next nodes on the ring in fail-over order, each with its state: next_1, next_2, ... up to 8"

// `stats pointers`. `s` is a PointerTable::Occupancy.
//
//        name          help                                                      value
#define POINTER_ROWS(X)                                                               \
    X(entries, "entries of the shared pointer table", s.entries)                      \
    X(occupied, "entries that are not free", s.entries - s.free)                      \
    X(valid, "entries with a pointer under a lease", s.live)                          \
    X(expired, "entries with a pointer whose lease has ended", s.expired)             \
    X(torn, "entries incompletely written, or being written", s.torn)                 \
    X(filled_by_this_process, "of the valid entries, those from this process", s.own) \
    X(accesses, "uses of the current pointers", s.accesses)
namespace farcached::daemon {
constexpr const char lease_left_help[] =
    "of the valid entries, those whose lease ends within this many milliseconds (cumulative)";
}  // namespace farcached::daemon
