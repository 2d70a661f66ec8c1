// SPDX-License-Identifier: BSD-3-Clause
// ServiceCounters: a node's counters of its connections, and the names of all its statistics: one row each. The rows generate
// the counters, the text of a stats reply and the man page.
//
// Owner of a ServiceCounters: one thread, for all connections it serves; any thread may read (base/counters.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/counters.h"
#include "fabric/channel.h"
#include "protocol/frame_error.h"
#include "protocol/handshake.h"

namespace farcached::node {

//        name                help
#define SERVICE_COUNTERS(X)                                                                                         \
    X(connections_opened, "connections accepted")                                                                   \
    X(connections_welcomed, "connections accepted after their greeting")                                            \
    X(connections_two_sided, "of these, connections of proxies of an older version, which are served two-sided")    \
    X(connections_over, "connections ended")                                                                        \
    X(connections_turned_away, "connections closed at once for lack of a descriptor")                               \
    X(request_frames, "request frames")                                                                             \
    X(requests, "requests, executed or refused")                                                                    \
    X(cmd_get, "keys requested two-sided")                                                                          \
    X(get_hits, "keys requested and found")                                                                         \
    X(get_misses, "keys requested and not found")                                                                   \
    X(cmd_set, "stores of every mode")                                                                              \
    X(cmd_delete, "deletes, of every kind")                                                                         \
    X(cmd_arith, "increments and decrements")                                                                       \
    X(cmd_forget, "items dropped because their new value was refused before it was sent")                           \
    X(cmd_flush, "flushes, at once or scheduled")                                                                   \
    X(cmd_delete_prefix, "deletes by prefix")                                                                       \
    X(cmd_stats, "requests for statistics")                                                                         \
    X(requests_refused, "valid requests that were not executed")                                                    \
    X(values_received, "values received completely, in pieces or by READ")                                          \
    X(values_fetched, "of these, values READ from the proxy's memory")                                              \
    X(values_unfetched, "values lent by the proxy but requested in pieces")                                         \
    X(values_abandoned, "values in pieces that the proxy abandoned")                                                \
    X(values_over_budget, "values refused because connections held the maximum of bytes")                           \
    X(values_sent, "values and texts sent in pieces")                                                               \
    X(accesses, "accesses reported by proxies that read one-sided")                                                 \
    X(accesses_invalid, "reported accesses of impossible items")                                                    \
    X(reports, "access reports, each with a reply")                                                                 \
    X(reports_written, "of these, reports written into the node's container")                                       \
    X(report_answers_written, "replies to reports written into the proxy's container")                              \
    X(report_records, "accesses examined in reports; included in accesses")                                         \
    X(report_renewed, "leases granted or renewed by reports")                                                       \
    X(report_unknown_items, "accesses in reports whose item the node does not have")                                \
    X(report_refused_quota, "leases not renewed by reports because the proxy's share was used up (--report-share)") \
    X(report_cut_short, "reports examined in part for lack of time")                                                \
    X(report_us, "microseconds spent on reports")                                                                   \
    X(lease_returns, "leases returned by proxies; their memory is still held until the lease ends")                 \
    X(pings, "pings answered")                                                                                      \
    X(stalls, "times reading stopped because replies waited to be sent")

//        name             help
#define SERVICE_ENDS(X)                                                                               \
    X(transport, "the channel ended: see channel_end_*")                                              \
    X(refused, "the greeting was refused: see refusal_*")                                             \
    X(bad_frame, "invalid frame: see frame_*")                                                        \
    X(peer_goodbye, "the proxy closed the connection cleanly and had its last replies")               \
    X(no_greeting, "no greeting in time (--greeting-timeout-ms)")                                     \
    X(stopped, "the node stopped")                                                                    \
    X(no_memory, "out of memory for the connection, or the proxy announced too many values")          \
    X(crowded_out, "too many connections without a greeting, most of them from this address")         \
    X(displaced, "replaced by another connection: unused, silent, or one of too many of its address") \
    X(silent, "no bytes for too long, not even a ping")                                               \
    X(over_budget, "connections held the maximum of bytes, and this one most for longest")

enum class ServiceEnd : uint8_t {
#define X(name, help) name,
    SERVICE_ENDS(X)
#undef X
        count
};
constexpr std::string_view service_end_name(ServiceEnd end) {
    constexpr std::string_view names[] = {
#define X(name, help) #name,
        SERVICE_ENDS(X)
#undef X
    };
    return names[size_t(end)];
}

constexpr std::string_view service_end_help(ServiceEnd end) {
    constexpr std::string_view helps[] = {
#define X(name, help) help,
        SERVICE_ENDS(X)
#undef X
    };
    return helps[size_t(end)];
}

// `stats reset` subtracts from counters only; gauges are shown unchanged.
enum class StatKind : uint8_t { counter, gauge };

// The rows below are computed when shown: `value` is an expression.
//
// The node's identity, from the members of a NodeStats:
//        name            value                           help
#define NODE_IDENTITY(X)                                                                           \
    X(node, name_, "name of the node")                                                                         \
    X(incarnation, hex(node_.view().header->incarnation), "id of this run, 16 hexadecimal digits") \
    X(pid, uint64_t(getpid()), "its process id")                                                   \
    X(uptime, seconds_since(started_, now), "seconds since the node began to serve")               \
    X(rusage_user, seconds_text(own_usage().ru_utime), "user CPU time, in seconds")                \
    X(rusage_system, seconds_text(own_usage().ru_stime), "system CPU time, in seconds")            \
    X(item_size_max, node_.config().item_bytes_max, "maximum item size including the key, in bytes")

// Lease settings; `config` is the LeaseConfig, `terms` are the LeaseTerms.
//        name                value                                                help
#define NODE_LEASE_TERMS(X)                                                                                                    \
    X(lease_enabled, uint64_t(config.enabled), "1: leases are granted")                                                        \
    X(lease_term_ms, config.enabled ? terms.longest_ms() : 0, "the longest lease, in milliseconds")                            \
    X(lease_grace_ms, config.enabled ? config.grace_ms : 0, "milliseconds from the end of a lease to the reuse of its memory") \
    X(lease_term_ms_min, config.enabled ? terms.shortest_ms() : 0, "the shortest, in milliseconds, where terms differ")        \
    X(policy, name_of(node_.config().policy), "eviction policy")                                                               \
    X(pdla_alpha_ms, config.enabled ? s.leases.alpha_ms : 0,                                                                   \
      "current increase of the lease term per doubling of accesses, in milliseconds; 0: one term")

// `s` is a node::Stats.
//        name                kind     value                   help
#define NODE_STATS(X)                                                                                   \
    X(curr_items, gauge, s.items, "current items")                                                      \
    X(total_items, counter, s.items_total, "items ever stored")                                         \
    X(bytes, gauge, s.bytes, "bytes of live items: header, key and value")                              \
    X(limit_maxbytes, gauge, s.memory_limit_bytes, "memory limit of items, in bytes")                   \
    X(pages_used, gauge, s.pages_used, "pages in use")                                                  \
    X(pages_limit, gauge, s.pages_limit, "pages available")                                             \
    X(pages_refused, counter, s.pages_refused, "page allocations that the system refused")              \
    X(slab_reassigned, counter, s.pages_moved,                                                          \
      "pages moved to another size class or to a large item")                                           \
    X(hash_buckets, gauge, s.index_buckets, "buckets of the index")                                     \
    X(hash_bytes, gauge, s.index_bytes, "bytes of the index")                                           \
    X(flushes, counter, s.flushes, "flushes executed")                                                  \
    X(prefix_deletes, counter, s.prefix_deletes, "deletes by prefix")                                   \
    X(prefixes_pending, gauge, s.prefixes_pending,                                                      \
      "deleted prefixes whose items hold memory until a sweep has finished")                            \
    X(prefix_items, counter, s.prefix_items, "items removed by a delete by prefix")                     \
    X(index_evictions, counter, s.overflow_evictions,                                                   \
      "items evicted because their bucket chain was full (keys aimed at one chain)")                    \
    X(numa_nodes, gauge, s.numa_nodes, "NUMA nodes that share the memory; 1: not divided")              \
    X(numa_refused, gauge, s.numa_refused, "memory ranges that the kernel did not bind to a NUMA node") \
    X(reads_counted, counter, s.reads_counted,                                                          \
      "one-sided reads found in the items' counters (access_tracking)")

//        name                   kind     value                     help
#define LEASE_STATS(X)                                                                                     \
    X(lease_granted, counter, s.leases.granted, "leases granted")                                          \
    X(lease_renewed, counter, s.leases.renewed, "leases extended before their end")                        \
    X(lease_denied_young, counter, s.leases.denied[size_t(protocol::LeaseDenial::young_)],                 \
      "leases denied: too few accesses of the item")                                                       \
    X(lease_denied_dead_key, counter, s.leases.denied[size_t(protocol::LeaseDenial::dead_key_)],           \
      "leases denied: its key has a dead slot, and dead slots hold more than --dead-share of memory")      \
    X(lease_denied_dead, counter, s.leases.denied[size_t(protocol::LeaseDenial::dead_)],                   \
      "leases denied: dead slots hold more than twice --dead-share of memory")                             \
    X(lease_denied_no_room, counter, s.leases.denied[size_t(protocol::LeaseDenial::no_room_)],             \
      "leases denied: the lease zone has no slot for the item")                                            \
    X(lease_denied_short, counter, s.leases.denied[size_t(protocol::LeaseDenial::short_)],                 \
      "leases denied: the item expires too soon, or a flush is scheduled")                                 \
    X(lease_denied_draining, counter, s.leases.denied[size_t(protocol::LeaseDenial::draining_)],           \
      "leases denied: the page of the item is draining")                                                   \
    X(lease_denied_stopped, counter, s.leases.denied[size_t(protocol::LeaseDenial::stopped_)],             \
      "leases denied: leases are suspended because a store ran out of memory")                             \
    X(lease_denied_tokens, counter, s.leases.denied[size_t(protocol::LeaseDenial::tokens_)],               \
      "leases denied: the item is stale, or its recache token was issued")                                 \
    X(lease_denied_sparse, counter, s.leases.denied[size_t(protocol::LeaseDenial::sparse_)],               \
      "leases denied: the item fills less than a quarter of its slot")                                     \
    X(lease_pages_draining, gauge, s.leases.draining, "pages that are freed when their leases have ended") \
    X(lease_pages_drained, counter, s.leases.drained, "such pages that were freed")                        \
    X(lease_stopped, gauge, s.leases.stopped, "1: leases are suspended because a store ran out of memory") \
    X(lease_stops, counter, s.leases.stops, "times leases were suspended")                                 \
    X(lease_moved, counter, s.leases.moved, "items moved into the lease zone")                             \
    X(lease_bytes, gauge, s.leases.bytes, "bytes of the slots of items under leases")                      \
    X(lease_slack_bytes, gauge, s.leases.slack_bytes, "unused bytes of these slots")                       \
    X(lease_in_place, counter, s.leases.in_place, "items written in place under a lease")                  \
    X(lease_revived, counter, s.leases.revived, "dead slots reused by a store of their key")               \
    X(reclaim_pending_bytes, gauge, s.leases.dead_bytes,                                                   \
      "bytes of dead slots waiting for the end of their lease")                                            \
    X(reclaim_pending_slots, gauge, s.leases.dead_slots, "dead slots")                                     \
    X(queue_0, gauge, s.queues[0], "items in the policy's lowest or only queue")                           \
    X(queue_1, gauge, s.queues[1], "items in its second queue; s3fifo: the main one")                      \
    X(queue_2, gauge, s.queues[2], "items in its third queue")                                             \
    X(queue_3, gauge, s.queues[3], "items in its fourth queue")                                            \
    X(queue_4, gauge, s.queues[4], "items in its fifth queue")                                             \
    X(queue_5, gauge, s.queues[5], "items in its sixth queue")                                             \
    X(queue_6, gauge, s.queues[6], "items in its seventh queue")                                           \
    X(queue_7, gauge, s.queues[7], "items in its highest queue")

// For each size class that is or was in use, as "class:name"; the first list is also summed over classes. `c` is a ClassStats.
//
//        name                value                  help
#define NODE_CLASS_SUMS(X)                                                             \
    X(evictions, c.evicted, "items evicted")                                           \
    X(evicted_unfetched, c.evicted_unfetched, "items evicted that were never fetched") \
    X(evicted_active, c.evicted_active, "items evicted that had been fetched lately")  \
    X(evicted_nonzero, c.evicted_nonzero, "items evicted that would have expired")     \
    X(expired_unfetched, c.expired_unfetched, "items expired that were never fetched") \
    X(reclaimed, c.reclaimed, "expired items whose memory a store reused")             \
    X(out_of_memory, c.out_of_memory, "stores that ran out of memory")                 \
    X(crawler_reclaimed, c.crawler_reclaimed, "expired items removed by the crawler")  \
    X(crawler_checked, c.crawler_checked, "items examined by the crawler")             \
    X(kept, c.kept, "second chances given at eviction")
#define NODE_CLASS_STATS(X)                                                                      \
    X(slot_bytes, c.slot_bytes, "bytes per slot; 0: items larger than a page")                   \
    X(pages, c.pages, "pages of 64 KiB")                                                         \
    X(slots_used, c.slots_used, "slots in use")                                                  \
    X(slots_total, c.slots_total, "slots in total")                                              \
    X(bytes_requested, c.bytes_requested, "bytes of live items")                                 \
    X(age_oldest_s, c.age_oldest_s, "seconds since the last access of the next eviction victim") \
    X(evicted_age_s, c.evicted_age_s, "the same, of the last item evicted")

struct ServiceCounters {
#define X(name, help) Counter name;
    SERVICE_COUNTERS(X)
#undef X
    std::array<Counter, size_t(ServiceEnd::count)> ends;
    std::array<Counter, size_t(protocol::FrameError::count)> frame_errors;
    std::array<Counter, size_t(protocol::Refusal::count)> refusals;
    std::array<Counter, size_t(fabric::ChannelEnd::count)> channel_ends;
};

}  // namespace farcached::node
