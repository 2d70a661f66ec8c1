// SPDX-License-Identifier: BSD-3-Clause
// Rows of our own statistics groups that no counter table elsewhere declares. The statistics (daemon/stats_*.cc) and the man
// page (man/counters_man.cc) use them.
#pragma once

//        name          help                                                      where a Sample has it
#define OWN_STATS(X)                                                                                 \
    X(get_local, "the same as local_hits: beside get_onesided, get_index and get_twosided it says how GETs were answered", \
      sample.local.local_hits)                                                                       \
    X(requests, "requests executed", sample.workers.requests)                                        \
    X(read_calls, "recv system calls", sample.workers.read_calls)                                    \
    X(write_calls, "send system calls", sample.workers.write_calls)                               \
    X(get_unavailable, "keys asked for whose node did not answer", sample.workers.get_unavailable)   \
    X(mutations_unavailable, "mutations without a reply of their node; their outcome is unknown",    \
      sample.workers.mutations_unavailable)                                                          \
    X(replies_unmatched, "replies of nodes that match no request", sample.workers.replies_unmatched)  \
    X(slow_requests, "requests that took slow_log_ms or longer", sample.workers.slow_requests)       \
    X(log_lines_lost, "lines for stderr that it did not take: its disk is full, or its reader slow or gone", \
      sample.log_lines_lost)                                                                         \
    X(node_pages_used, "pages of the arena that belong to a size class", sample.node.pages_used)     \
    X(node_pages_limit, "pages that -m allows", sample.node.pages_limit)                             \
    X(node_pages_refused, "times that the system had no memory for a page that was to be used",     \
      sample.node.pages_refused)                                                                     \
    X(node_pages_moved, "pages taken from one size class for another, or for a large item",          \
      sample.node.pages_moved)                                                                       \
    X(node_index_buckets, "64-byte buckets of the index", sample.node.index_buckets)                 \
    X(node_index_bytes, "memory of the index, which -m does not count", sample.node.index_bytes)     \
    X(node_bytes_lent, "bytes of pages that replies are being sent from", sample.node.bytes_lent)    \
    X(node_bytes_arriving, "bytes of pages for values that are still to come", sample.node.bytes_arriving) \
    X(node_overflow_evictions, "items that were evicted because their bucket chain had its most buckets", \
      sample.node.overflow_evictions)                                                                \
    X(node_flushes, "flush_all that took effect", sample.node.flushes)                               \
    X(cmd_delete_prefix, "deletes by prefix that were ordered here", sample.workers.cmd_delete_prefix) \
    X(node_prefix_deletes, "deletes by prefix", sample.node.prefix_deletes)                          \
    X(node_prefixes_pending, "prefixes whose items are deleted and still hold memory, until a sweep is over; a gauge", \
      sample.node.prefixes_pending)                                                                  \
    X(node_prefix_items, "items that went by a delete by prefix", sample.node.prefix_items)

// With nodes; LINK_COUNTERS and the reasons of connection losses precede them.
//
//        name          help                                                      where a Sample has it
#define NODES_OWN_STATS(X)                                                                           \
    X(lease_bytes, "bytes of items whose lease runs, as nodes told; a gauge", sample.node.leases.bytes) \
    X(reclaim_pending_bytes, "bytes of items that died under a lease that runs, as nodes told; a gauge", \
      sample.node.leases.dead_bytes)                                                              \
    X(nodes_unavailable, "nodes that did not tell: down or silent; they are missing from sums", \
      sample.nodes_unavailable)

// `stats nodes`, of each node as "node:name"; empty rows are omitted. `shown` is a NodeShown.
//
//        name          help                                                      text
#define NODE_ROWS(X)                                                                                 \
    X(state, "up, down, or drained by the operator", std::string(node_state_name(shown.state)))      \
    X(address, "where it is, as configured", shown.address)                                          \
    X(incarnation, "which run of it greeted last, 16 hexadecimal digits; zeros: none did", hex(shown.incarnation)) \
    X(protocol_version, "of the frames spoken with it; before 4 it is asked for every key; not there if it never greeted", \
      shown.protocol_version == 0 ? std::string() : std::to_string(shown.protocol_version))         \
    X(weight, "its share of the keys beside others'", std::to_string(shown.weight))                  \
    X(links, "connections to it, one for each worker", std::to_string(shown.links))                  \
    X(links_up, "of them, those that are up", std::to_string(shown.links_up))                        \
    X(down_reason, "why a connection to it went down last; not there if none did", shown.down_reason)

// `stats latency`, of each verb and way as "get_local:count" etc. `one` is a LatencyTotals::One, count its count().
//
//        name          help                                                      value
#define LATENCY_ROWS(X)                                                                              \
    X(count, "requests answered so", count)                                                          \
    X(mean_us, "microseconds in the mean, from when the request had been received to when its reply was written: by readings of " \
      "the clock that requests received or answered together share", count == 0 ? 0 : one.sum_ns / 1000 / count) \
    X(p50_us, "half of them took less; within a power of two this is interpolated", one.quantile_us(0.5)) \
    X(p90_us, "nine tenths of them took less", one.quantile_us(0.9))                                 \
    X(p99_us, "99 of a hundred took less", one.quantile_us(0.99))                                    \
    X(p999_us, "999 of a thousand took less", one.quantile_us(0.999))

// `stats slow_log`: the words of a line, "word=value".
//
//        name          help
#define SLOW_WORDS(X)                                                                                \
    X(ago_ms, "milliseconds since it ended")                                                         \
    X(took_us, "microseconds from when it had been received to when its reply was written")          \
    X(queue_us, "of these, until its node was asked: it waited for room, or for another of its key") \
    X(answer_us, "until the answer was there: the way to the node and back, and what it waited there")  \
    X(reply_us, "until its reply was written: it waited for its turn behind earlier requests")       \
    X(op, "get, set or other")                                                                       \
    X(path, "as in stats latency; none: nobody answered")                                            \
    X(node, "the node that was asked; -: none")                                                      \
    X(requests, "how many: what is answered at once is measured in batches of what one session had received") \
    X(worker, "the worker thread, from 0")                                                           \
    X(cfd, "the descriptor of the client's connection, as in stats conns")                           \
    X(key, "the key, as in watch; of a batch how it begins")

// `stats hotkeys`: first these,
//
//        name          help                                                      value
#define HOT_KEYS_ROWS(X)                                                                             \
    X(one_in, "about one in so many gets and sets that were answered was looked at; 0: none (-o hotkeys_sample)", one_in) \
    X(missed, "of these, not counted: another was just reading the list", missed)
// then for each way with answers, as "way:name",
#define HOT_KEYS_WAY_ROWS(X)                                                                         \
    X(sampled, "gets and sets looked at since the last stats hotkeys reset", sampled)
// and its keys with the largest counts, as "way:rank:name" from rank 1. `hot` is a HotKey.
#define HOT_KEY_ROWS(X)                                                                              \
    X(key, "the key, as in watch", uri_encoded(hot.key))                                             \
    X(requests, "about how many gets and sets of it there were: never too low, but for the chance of the sample", \
      std::to_string(hot.count * one_in))                                                            \
    X(error, "by how much that may be too high, because only the keys that come most are counted",   \
      std::to_string(hot.error * one_in))

// `stats route KEY`; empty rows are omitted. `r` is a RouteShown (daemon/stats_route.cc).
//
//        name          help                                                      text
#define ROUTE_ROWS(X)                                                                                \
    X(key, "the key, as in watch", r.key)                                                            \
    X(hashed, "the part of it that decides, where that is not all of it: a hash tag encloses it", r.hashed) \
    X(distribution, "how keys are placed on nodes", r.distribution)                                  \
    X(hash, "the hash that places them", r.hash)                                                     \
    X(place, "the key's hash, 8 hexadecimal digits: its place on the ring", r.place)                 \
    X(point, "the point of the ring that this belongs to, where the node has one", r.point)          \
    X(node, "the key's own node; under random, the one that was drawn; (embedded): items are in this process", r.node) \
    X(address, "where that is, as configured", r.address)                                            \
    X(weight, "its share of the keys beside others'", r.weight)                                      \
    X(state, "up, down or drained", r.state)                                                         \
    X(drained, "yes: the operator wants it to be asked for no key", r.drained)                       \
    X(links_up, "connections to it that are up, of all that should be", r.links_up)                  \
    X(down_reason, "why a connection to it went down last; not there if none did", r.down_reason)    \
    X(failover, "on: the keys of a node that cannot be asked go to the next one on the ring", r.failover) \
    X(asked, "the node that is asked for the key now; none: it is unavailable", r.asked)             \
    X(why, "why that one", r.why)                                                                    \
    X(ways, "how gets of the key are answered, as in stats latency: what comes first is tried first", r.ways) \
    X(pointer, "is a remote pointer to the item known: valid, expired, none, or unused where gets do not go by pointers", \
      r.pointer)                                                                                     \
    X(pointer_lease_left_ms, "for how long the pointer may still be used", r.lease_left_ms)          \
    X(pointer_from, "who got it: this process, or another of this host", r.pointer_from)             \
    X(pointer_incarnation, "of which run of the node it tells, 16 hexadecimal digits", r.incarnation) \
    X(pointer_region, "where the item lies: in which of the node's regions", r.region)               \
    X(pointer_offset, "how many bytes from its start", r.offset)                                     \
    X(pointer_bytes, "how many bytes are read", r.bytes)                                             \
    X(pointer_generation, "which generation of the item it is", r.generation)
#define ROUTE_NEXT_HELP \
    "the nodes behind the key's own, in the order in which fail-over goes on, each with its state: next_1, next_2, ... up to 8"

// `stats pointers`. `s` is a PointerTable::Occupancy.
//
//        name          help                                                      value
#define POINTER_ROWS(X)                                                                              \
    X(entries, "entries of the shared pointer table", s.entries)                                     \
    X(occupied, "entries that are not free", s.entries - s.free)                                     \
    X(valid, "entries with a pointer whose lease runs", s.live)                                      \
    X(expired, "entries with a pointer whose lease is over", s.expired)                              \
    X(torn, "entries left half written, or being written at this moment", s.torn)                    \
    X(filled_by_this_process, "of the valid, those that this process got", s.own)                    \
    X(accesses, "uses of the pointers that are there", s.accesses)
namespace farcached::daemon {
constexpr const char lease_left_help[] =
    "of the valid, those whose lease ends within so many milliseconds: each counts what the ones before it count";
}  // namespace farcached::daemon
