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
#define SERVICE_COUNTERS(X)                                                                       \
    X(connections_opened, "connections that were accepted")                                       \
    X(connections_welcomed, "connections whose greeting was answered with a welcome")             \
    X(connections_two_sided, "of these, connections of proxies of an older version, which are served two-sided") \
    X(connections_over, "connections that have ended")                                            \
    X(connections_turned_away, "connections that were closed at once, as there was no descriptor for them") \
    X(request_frames, "frames of requests")                                                       \
    X(requests, "requests, executed or refused")                                                  \
    X(cmd_get, "keys asked for two-sided")                                                        \
    X(get_hits, "keys asked for and found")                                                       \
    X(get_misses, "keys asked for and not found")                                                 \
    X(cmd_set, "stores of every mode")                                                            \
    X(cmd_delete, "deletes, of every kind")                                                                      \
    X(cmd_arith, "increments and decrements")                                                     \
    X(cmd_forget, "items given up for a value that was refused before it was sent")               \
    X(cmd_flush, "flushes, at once or scheduled")                                                 \
    X(cmd_delete_prefix, "deletes by prefix")                                                     \
    X(cmd_stats, "requests for statistics")                                                       \
    X(requests_refused, "requests that were understood and not executed")                         \
    X(values_received, "values that came in pieces or were READ, and came whole")                 \
    X(values_fetched, "of these, values that were READ from the proxy's memory")                  \
    X(values_unfetched, "values that the proxy lent, and that were asked for in pieces instead")  \
    X(values_abandoned, "values that came in pieces and were given up by the proxy")              \
    X(values_over_budget, "values that were refused because connections held as many bytes as they may together") \
    X(values_sent, "values and texts that were sent in pieces")                                   \
    X(accesses, "accesses reported by proxies that read one-sided")                               \
    X(accesses_invalid, "reported accesses that name no possible item")                           \
    X(reports, "reports of accesses, each with an answer")                                        \
    X(reports_written, "of these, reports that their proxy wrote into the node's container")      \
    X(report_answers_written, "answers to reports that were written into the proxy's container")  \
    X(report_records, "accesses in reports that were looked at; all these are among accesses")    \
    X(report_renewed, "leases granted or renewed by reports")                                     \
    X(report_unknown_items, "accesses in reports whose item the node does not have")              \
    X(report_refused_quota, "leases that reports did not renew because their proxy's share was used up (--report-share)") \
    X(report_cut_short, "reports of which a part was not looked at, for want of time")            \
    X(report_us, "microseconds spent on reports")                                                 \
    X(lease_returns, "leases that proxies said they no longer need; their memory waits all the same") \
    X(pings, "pings that were answered")                                                          \
    X(stalls, "times that no more was read because replies waited to be sent")

//        name             help
#define SERVICE_ENDS(X)                                                            \
    X(transport, "the channel ended by itself: channel_end_* says how")            \
    X(refused, "the greeting was refused: refusal_* says why")                     \
    X(bad_frame, "what came was no frame: frame_* says why")                       \
    X(peer_goodbye, "the proxy said goodbye and had its last replies")             \
    X(no_greeting, "nobody greeted in time (--greeting-timeout-ms)")               \
    X(stopped, "the node stopped")                                                 \
    X(no_memory, "there was no memory for the connection, or the proxy announced too many values") \
    X(crowded_out, "too many connections were waiting to greet, most of them from this one's address")    \
    X(displaced, "another connection needed the seat of this one, which was unused, silent, or one of too many of its address") \
    X(silent, "nothing came for too long, not even a ping")                        \
    X(over_budget, "connections held as many bytes as they may together, and this one held most for longest")

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
#define NODE_IDENTITY(X)                                                                                 \
    X(node, name_, "its name")                                                                           \
    X(incarnation, hex(node_.view().header->incarnation), "which run of it this is, 16 hexadecimal digits") \
    X(pid, uint64_t(getpid()), "its process id")                                                         \
    X(uptime, seconds_since(started_, now), "seconds since it began to serve")                           \
    X(rusage_user, seconds_text(own_usage().ru_utime), "CPU time that it has used, in seconds")          \
    X(rusage_system, seconds_text(own_usage().ru_stime), "CPU time that the kernel has used for it, in seconds") \
    X(item_size_max, node_.config().item_bytes_max, "largest item that it takes, key and all, in bytes")

// Lease settings; `config` is the LeaseConfig, `terms` are the LeaseTerms.
//        name                value                                                help
#define NODE_LEASE_TERMS(X)                                                                                            \
    X(lease_enabled, uint64_t(config.enabled), "1: leases are granted")                                                \
    X(lease_term_ms, config.enabled ? terms.longest_ms() : 0, "the longest lease, in milliseconds")                    \
    X(lease_grace_ms, config.enabled ? config.grace_ms : 0, "for how long memory waits when a lease is over")          \
    X(lease_term_ms_min, config.enabled ? terms.shortest_ms() : 0, "the shortest, in milliseconds, where terms differ") \
    X(policy, name_of(node_.config().policy), "which items go when memory is full")                                    \
    X(pdla_alpha_ms, config.enabled ? s.leases.alpha_ms : 0,                                                           \
      "how much longer a lease is for each doubling of touches, just now; 0: all have one term")

// `s` is a node::Stats.
//        name                kind     value                   help
#define NODE_STATS(X)                                                                                    \
    X(curr_items, gauge, s.items, "items there are")                                                     \
    X(total_items, counter, s.items_total, "items ever stored")                                          \
    X(bytes, gauge, s.bytes, "bytes of live items: header, key and value")                               \
    X(limit_maxbytes, gauge, s.memory_limit_bytes, "bytes that items may take")                          \
    X(pages_used, gauge, s.pages_used, "pages in use")                                                   \
    X(pages_limit, gauge, s.pages_limit, "pages there are")                                              \
    X(pages_refused, counter, s.pages_refused, "times that the system had no memory for a page that was to be used") \
    X(slab_reassigned, counter, s.pages_moved,                                                           \
      "pages taken from one size class for another, or for a large item")                                \
    X(hash_buckets, gauge, s.index_buckets, "buckets of the index")                                      \
    X(hash_bytes, gauge, s.index_bytes, "bytes of the index")                                            \
    X(flushes, counter, s.flushes, "flushes carried out")                                                \
    X(prefix_deletes, counter, s.prefix_deletes, "deletes by prefix")                                    \
    X(prefixes_pending, gauge, s.prefixes_pending,                                                       \
      "prefixes whose items are deleted and still hold memory, until a sweep is over")                   \
    X(prefix_items, counter, s.prefix_items, "items that went by a delete by prefix")                    \
    X(index_evictions, counter, s.overflow_evictions,                                                    \
      "items that were evicted because their bucket chain had its most buckets (keys aimed at one chain)") \
    X(numa_nodes, gauge, s.numa_nodes, "NUMA nodes that memory is divided among; 1: it is not")           \
    X(numa_refused, gauge, s.numa_refused, "parts of memory that the kernel did not bind to a NUMA node") \
    X(reads_counted, counter, s.reads_counted,                                                           \
      "one-sided reads that the node saw by the items' counters, when it looked (access_tracking)")

//        name                   kind     value                     help
#define LEASE_STATS(X)                                                                                   \
    X(lease_granted, counter, s.leases.granted, "leases granted")                                        \
    X(lease_renewed, counter, s.leases.renewed, "leases that were granted again while they ran")         \
    X(lease_denied_young, counter, s.leases.denied[size_t(protocol::LeaseDenial::young_)],               \
      "leases denied: the item was touched too seldom")                                                  \
    X(lease_denied_dead_key, counter, s.leases.denied[size_t(protocol::LeaseDenial::dead_key_)],         \
      "leases denied: a dead slot of its key waits, and such slots hold more than --dead-share of memory")\
    X(lease_denied_dead, counter, s.leases.denied[size_t(protocol::LeaseDenial::dead_)],                 \
      "leases denied: dead slots hold more than twice --dead-share of memory")                           \
    X(lease_denied_no_room, counter, s.leases.denied[size_t(protocol::LeaseDenial::no_room_)],           \
      "leases denied: the lease zone has no slot for the item")                                          \
    X(lease_denied_short, counter, s.leases.denied[size_t(protocol::LeaseDenial::short_)],               \
      "leases denied: the item expires too soon, or a flush is scheduled")                               \
    X(lease_denied_draining, counter, s.leases.denied[size_t(protocol::LeaseDenial::draining_)],         \
      "leases denied: the page of the item is draining")                                                 \
    X(lease_denied_stopped, counter, s.leases.denied[size_t(protocol::LeaseDenial::stopped_)],           \
      "leases denied: a store found no memory, and there are no leases for a while")                     \
    X(lease_denied_tokens, counter, s.leases.denied[size_t(protocol::LeaseDenial::tokens_)],             \
      "leases denied: the item is stale, or a recache token of it is out")                               \
    X(lease_denied_sparse, counter, s.leases.denied[size_t(protocol::LeaseDenial::sparse_)],             \
      "leases denied: the item fills less than a quarter of its slot")                                   \
    X(lease_pages_draining, gauge, s.leases.draining, "pages whose leases are let run out")              \
    X(lease_pages_drained, counter, s.leases.drained, "such pages that became free")                     \
    X(lease_stopped, gauge, s.leases.stopped, "1: no leases are granted for now, as a store found no memory") \
    X(lease_stops, counter, s.leases.stops, "times that this began")                                     \
    X(lease_moved, counter, s.leases.moved, "items moved to where leased items may lie")                 \
    X(lease_bytes, gauge, s.leases.bytes, "bytes of the slots of items under leases")                    \
    X(lease_slack_bytes, gauge, s.leases.slack_bytes, "bytes of these slots that their items do not fill")   \
    X(lease_in_place, counter, s.leases.in_place, "items written in place under a lease")                \
    X(lease_revived, counter, s.leases.revived, "dead slots that a store of their key revived")          \
    X(reclaim_pending_bytes, gauge, s.leases.dead_bytes,                                                 \
      "bytes of dead slots, which wait for the end of their lease")                                      \
    X(reclaim_pending_slots, gauge, s.leases.dead_slots, "dead slots")                                   \
    X(queue_0, gauge, s.queues[0], "items in the policy's lowest queue, or in its only one")             \
    X(queue_1, gauge, s.queues[1], "items in its second queue; s3fifo: the main one")                    \
    X(queue_2, gauge, s.queues[2], "items in its third queue")                                           \
    X(queue_3, gauge, s.queues[3], "items in its fourth queue")                                          \
    X(queue_4, gauge, s.queues[4], "items in its fifth queue")                                           \
    X(queue_5, gauge, s.queues[5], "items in its sixth queue")                                           \
    X(queue_6, gauge, s.queues[6], "items in its seventh queue")                                         \
    X(queue_7, gauge, s.queues[7], "items in its highest queue")

// For each size class that is or was in use, as "class:name"; the first list is also summed over classes. `c` is a ClassStats.
//
//        name                value                  help
#define NODE_CLASS_SUMS(X)                                                                        \
    X(evictions, c.evicted, "items evicted")                                                      \
    X(evicted_unfetched, c.evicted_unfetched, "items evicted that were never fetched")            \
    X(evicted_active, c.evicted_active, "items evicted that had been fetched lately")             \
    X(evicted_nonzero, c.evicted_nonzero, "items evicted that would have expired")                \
    X(expired_unfetched, c.expired_unfetched, "items expired that were never fetched")            \
    X(reclaimed, c.reclaimed, "items whose memory a store used again after they had expired")     \
    X(out_of_memory, c.out_of_memory, "stores that found no memory")                              \
    X(crawler_reclaimed, c.crawler_reclaimed, "items that the search for expired ones removed")   \
    X(crawler_checked, c.crawler_checked, "items that the search for expired ones looked at")     \
    X(kept, c.kept, "second chances given at eviction")
#define NODE_CLASS_STATS(X)                                                             \
    X(slot_bytes, c.slot_bytes, "bytes of a slot; 0: items of more than a page")        \
    X(pages, c.pages, "pages of 64 KiB")                                                          \
    X(slots_used, c.slots_used, "slots in use")                                         \
    X(slots_total, c.slots_total, "slots there are")                                    \
    X(bytes_requested, c.bytes_requested, "bytes of live items")                        \
    X(age_oldest_s, c.age_oldest_s, "seconds since the next item to go was accessed")   \
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
