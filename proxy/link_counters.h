// SPDX-License-Identifier: BSD-3-Clause
// A worker's counters for its connection to one node, and the reasons why such a connection went down. `stats proxy`
// prints sums over workers and nodes, `stats nodes` the sums of each node.
// Owner: one NodeLink each; any thread may read (base/counters.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/counters.h"
#include "fabric/channel.h"
#include "protocol/frame_error.h"
#include "protocol/lease_denial.h"

namespace farcached::proxy {


//        name                     help
#define LINK_COUNTERS(X)                                                                              \
    X(get_onesided, "GETs answered by a one-sided read through a remote pointer")                     \
    X(get_onesided_us, "microseconds that these took, from when they were asked for to when what was read was validated") \
    X(get_index, "GETs answered by one-sided reads of the node's index and the item")                 \
    X(index_not_found, "GETs whose key a one-sided read of the index did not find, which proves nothing") \
    X(index_unproven, "GETs that the index was to answer and could not for another reason")           \
    X(get_twosided, "GETs that were sent to their node")                                              \
    X(set_twosided, "stores of every mode that were sent to their node")                              \
    X(other_twosided, "other requests that were sent to their node")                                  \
    X(pointer_hits, "GETs that found a remote pointer under a lease")                                 \
    X(pointer_misses, "GETs that found no remote pointer")                                            \
    X(pointer_expired, "GETs that found a remote pointer whose lease was over")                       \
    X(pointer_stale, "GETs whose remote pointer led to a dead slot, or to an older item")             \
    X(pointer_shared_hits, "GETs that found a remote pointer which another process had got")          \
    X(pointer_bypassed, "GETs sent to their node because their own session has a mutation of the key under way") \
    X(read_invalid_generation, "one-sided reads that found an older generation than their pointer was granted for") \
    X(read_invalid_dead, "one-sided reads that found a dead slot: replaced, deleted, evicted, or being written") \
    X(read_invalid_key, "one-sided reads that found another key")                                     \
    X(read_invalid_length, "one-sided reads whose lengths or place could not be")                     \
    X(read_invalid_grown, "one-sided reads that found a longer item than they copied")                \
    X(read_invalid_crc, "one-sided reads whose bytes did not match the item's check: copied while it was written") \
    X(read_invalid_lease, "one-sided reads that completed when their lease was over")                 \
    X(read_invalid_expired, "one-sided reads that met a passed expiry time")                          \
    X(read_invalid_flushed, "one-sided reads without a lease that met an item older than the last flush or a sweep under way") \
    X(read_tokens, "one-sided mg reads that met a stale or win state")                                \
    X(read_failed, "one-sided reads that the transport refused or broke off")                         \
    X(read_late, "one-sided reads that completed after their request had been given up")              \
    X(read_unposted, "one-sided reads for which there was no room under way")                         \
    X(reads_posted, "READs of a one-sided read, one or several: completed, failed or lost, or still under way") \
    X(reads_completed, "READs that completed well")                                                   \
    X(reads_failed_transport, "READs that the transport refused or that completed badly")             \
    X(reads_failed_owner, "READs of the memory of a node that is dead")                               \
    X(reads_failed_lost, "READs that were under way when their connection ended")                     \
    X(lease_granted, "replies that brought a remote pointer under a lease")                           \
    X(lease_denied, "replies that could have brought one and did not; lease_denied_* say why")        \
    X(lease_unusable, "remote pointers in replies that could not be or led nowhere")                  \
    X(accesses_shared, "accesses put on the host's report board, for its reporter to tell of")        \
    X(accesses_taken, "accesses taken from the host's report board, as its reporter")                 \
    X(accesses_sent, "accesses that the node did not see and was told of")                            \
    X(accesses_dropped, "accesses that the node did not see and never hears of")                      \
    X(reports_sent, "reports of accesses (access_tracking=report)")                                   \
    X(reports_written, "of these, reports that were written into the node's container")              \
    X(report_answers_written, "answers to reports that the node wrote into this side's container")    \
    X(report_items, "items that were told of in reports")                                             \
    X(report_bytes, "bytes of reports")                                                               \
    X(report_merged, "items put on the host's report board that were there already, from any process") \
    X(report_elected, "times that a thread became the host's reporter to a node that had none")       \
    X(report_takeovers, "times that it did because the reporter was dead, or had no turn for two intervals")  \
    X(report_renewed, "remote pointers whose leases reports made longer")                             \
    X(report_time_left, "reports whose answer said that the node had time for more")                  \
    X(node_connects, "connections to a node that were begun")                                         \
    X(node_reconnects, "connections to a node that came up after one had been lost")                  \
    X(node_timeouts, "requests whose answer did not come in time")                                    \
    X(replies_late, "replies that came after their request had been given up")                        \
    X(node_failures, "requests that failed because their node was down or went down")                 \
    X(node_refusals, "requests that their node refused to execute")                                   \
    X(node_too_old, "deletes by prefix that a node of an earlier version does not know")              \
    X(node_busy, "requests put off because too much was under way to their node")                     \
    X(node_ordered, "requests put off until another of their key was answered")                       \
    X(node_frames, "frames of requests that were sent")                                               \
    X(values_sent, "values that were sent in pieces")                                                 \
    X(values_lent, "of these, values that the node was to READ")                                      \
    X(values_unlent, "of these, values that it did not READ, and that went in pieces")                \
    X(values_received, "values and texts that came in pieces and came whole")                         \
    X(values_no_memory, "values that came in pieces and found no memory")

// Gauges: a reset of the counters leaves them unchanged.
//
//        name          help
#define LINK_GAUGES(X)                                                                                \
    X(reporter, "threads that report to a node for all farcached of this host; a gauge")              \
    X(arc_t1, "keys read one-sided once lately, at the last report; a gauge")                         \
    X(arc_t2, "keys read one-sided twice or more lately, at the last report; a gauge")                \
    X(arc_b1, "keys that were in arc_t1 until lately, at the last report; a gauge")                   \
    X(arc_b2, "keys that were in arc_t2 until lately, at the last report; a gauge")                   \
    X(arc_target, "how many keys arc_t1 should have, at the last report; a gauge")

// Why a connection to a node ended.
//
//        name               help
#define LINK_DOWNS(X)                                                                  \
    X(channel_ended, "the connection ended by itself: channel_end_* says how")         \
    X(connect_timeout, "it was not made, or the node did not greet, in time")          \
    X(mismatch, "proxy and node are of versions that do not meet")                     \
    X(refused, "the node refused the greeting otherwise, or contradicts itself")       \
    X(bad_frame, "what came was no frame: frame_* says why")                           \
    X(silent, "the node was asked and said nothing for too long")                      \
    X(goodbye, "the node said goodbye")                                                \
    X(no_channel, "there was no descriptor or memory for the connection")              \
    X(no_memory, "this side found no memory in the middle of its work")                \
    X(stopped, "this side gave the connection up")

enum class LinkDown : uint8_t {
#define X(name, help) name,
    LINK_DOWNS(X)
#undef X
        count
};
constexpr std::string_view link_down_name(LinkDown why) {
    constexpr std::string_view names[] = {
#define X(name, help) #name,
        LINK_DOWNS(X)
#undef X
    };
    return names[size_t(why)];
}

struct LinkCounters {
    fabric::ChannelCounters channel;  // over all connections of the link
#define X(name, help) Counter name;
    LINK_COUNTERS(X)
    LINK_GAUGES(X)
#undef X
    std::array<Counter, size_t(protocol::LeaseDenial::count)> lease_denied_by;  // printed as lease_denied_<name>
    void count_denied(protocol::LeaseDenial why) {
        if (why != protocol::LeaseDenial::none) lease_denied_by[size_t(why)].add(1);
    }
    std::array<Counter, size_t(LinkDown::count)> downs;
    std::array<Counter, size_t(fabric::ChannelEnd::count)> channel_ends;
    std::array<Counter, size_t(protocol::FrameError::count)> frame_errors;
};

}  // namespace farcached::proxy
