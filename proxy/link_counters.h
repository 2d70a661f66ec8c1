// SPDX-License-Identifier: BSD-3-Clause
// A worker's counters for its connection to one node, and the reasons why such a connection went down. `stats proxy`
// prints sums over workers and nodes, `stats nodes` the sums of each node.
// Owner: one NodeLink each; any thread may read (base/counters.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/stat_row.h"
#include "fabric/channel.h"
#include "protocol/frame.h"
#include "protocol/op.h"

namespace farcached::proxy {

//        name                     help
#define LINK_COUNTERS(X)                                                                                               \
    X(get_onesided, "GETs answered by a one-sided read through a remote pointer")                                      \
    X(get_onesided_us, "microseconds of these, from the request to the validation")                                    \
    X(get_onesided_spilled, "of these, GETs whose item the node keeps in another node's memory (--spill-to)")          \
    X(get_index, "GETs answered by one-sided reads of the node's index and the item")                                  \
    X(index_not_found, "GETs whose key a one-sided read of the index did not find; the node is asked")                 \
    X(index_unproven, "GETs that the index could not answer for another reason")                                       \
    X(right_over, "GETs sent to their node because its serving right was over (--discover of farnode)")                \
    X(get_twosided, "GETs sent to their node")                                                                         \
    X(set_twosided, "stores of every mode sent to their node")                                                         \
    X(other_twosided, "other requests sent to their node")                                                             \
    X(pointer_hits, "GETs that found a remote pointer under a lease")                                                  \
    X(pointer_misses, "GETs that found no remote pointer")                                                             \
    X(pointer_expired, "GETs that found a remote pointer with an expired lease")                                       \
    X(pointer_stale, "GETs whose remote pointer led to a dead slot, or to an older item")                              \
    X(pointer_shared_hits, "GETs that found a remote pointer from another process")                                    \
    X(pointer_bypassed, "GETs sent to their node because their session has a mutation of the key in flight")           \
    X(read_invalid_generation, "one-sided reads that found an older generation than that of their pointer")            \
    X(read_invalid_dead, "one-sided reads that found a dead slot: replaced, deleted, evicted, or being written")       \
    X(read_invalid_key, "one-sided reads that found another key")                                                      \
    X(read_invalid_length, "one-sided reads with impossible lengths or place")                                         \
    X(read_invalid_grown, "one-sided reads that found a longer item than they copied")                                 \
    X(read_invalid_crc, "one-sided reads whose bytes did not match the item's check: copied while it was written")     \
    X(read_invalid_lease, "one-sided reads that completed after the end of their lease")                               \
    X(read_invalid_expired, "one-sided reads of an expired item")                                                      \
    X(read_invalid_flushed, "one-sided reads without a lease of an item older than the last flush or a running sweep") \
    X(read_tokens, "one-sided mg reads of an item with a stale or win state")                                          \
    X(read_failed, "one-sided reads that the transport refused or aborted")                                            \
    X(read_late, "one-sided reads that completed after the timeout of their request")                                  \
    X(read_unposted, "one-sided reads refused because too many were in flight")                                        \
    X(reads_posted, "READs of one-sided reads: completed, failed, lost or in flight")                                  \
    X(reads_completed, "READs that completed")                                                                         \
    X(reads_failed_transport, "READs that the transport refused or that failed")                                       \
    X(reads_failed_owner, "READs of the memory of a node that is dead")                                                \
    X(reads_failed_lost, "READs in flight when their connection ended")                                                \
    X(lease_granted, "replies with a remote pointer under a lease")                                                    \
    X(lease_granted_spilled, "of these, pointers into another node's memory (--spill-to)")                             \
    X(lease_denied, "replies without a possible remote pointer; see lease_denied_*")                                   \
    X(lease_unusable, "invalid remote pointers in replies")                                                            \
    X(accesses_shared, "accesses put on the host's report board for its reporter")                                     \
    X(accesses_taken, "accesses taken from the host's report board, as its reporter")                                  \
    X(accesses_sent, "one-sided accesses reported to the node")                                                        \
    X(accesses_dropped, "one-sided accesses never reported to the node")                                               \
    X(reports_sent, "reports of accesses (access_tracking=report)")                                                    \
    X(reports_written, "of these, reports written into the node's container")                                          \
    X(report_answers_written, "replies to reports written into this side's container")                                 \
    X(report_items, "items in reports")                                                                                \
    X(report_bytes, "bytes of reports")                                                                                \
    X(report_merged, "items put on the host's report board that were already on it, from any process")                 \
    X(report_elected, "times a thread became the host's reporter to a node without one")                               \
    X(report_takeovers, "times a thread replaced a reporter that was dead or inactive for two intervals")              \
    X(report_renewed, "remote pointers whose leases were extended by reports")                                         \
    X(report_time_left, "reports whose reply allowed more items")                                                      \
    X(node_connects, "connection attempts to a node")                                                                  \
    X(node_reconnects, "reconnections to a node")                                                                      \
    X(node_timeouts, "requests that timed out")                                                                        \
    X(replies_late, "replies received after the timeout of their request")                                             \
    X(node_failures, "requests that failed because their node was down or went down")                                  \
    X(node_refusals, "requests refused by their node")                                                                 \
    X(node_too_old, "deletes by prefix and spilled items not supported by a node of an earlier version")               \
    X(node_busy, "requests postponed because too many were in flight to their node")                                   \
    X(node_ordered, "requests postponed until another request of their key was answered")                              \
    X(requests_borrowed, "requests of a worker that travelled over another worker's link (links_per_node)")            \
    X(node_frames, "request frames that were sent")                                                                    \
    X(values_sent, "values sent in pieces")                                                                            \
    X(values_lent, "of these, values lent for the node to READ")                                                       \
    X(values_unlent, "of these, values sent in pieces because the node did not READ them")                             \
    X(values_received, "values and texts received completely in pieces")                                               \
    X(values_no_memory, "values in pieces that ran out of memory")

// Gauges: a reset of the counters leaves them unchanged.
//
//        name          help
#define LINK_GAUGES(X)                                                                    \
    X(reporter, "threads that report to a node for all farcached processes of this host") \
    X(arc_t1, "keys recently read one-sided once, at the last report")                    \
    X(arc_t2, "keys recently read one-sided twice or more, at the last report")           \
    X(arc_b1, "keys recently removed from arc_t1, at the last report")                    \
    X(arc_b2, "keys recently removed from arc_t2, at the last report")                    \
    X(arc_target, "target size of arc_t1 in keys, at the last report")

// Why a connection to a node ended.
//
//        name               help
#define LINK_DOWNS(X)                                                                  \
    X(channel_ended, "the channel ended: see channel_end_*")                           \
    X(connect_timeout, "connecting or the node's greeting timed out")                  \
    X(mismatch, "incompatible versions of proxy and node")                             \
    X(refused, "the node refused the greeting for another reason, or is inconsistent") \
    X(authentication, "proxy and node do not hold the same key (auth_key_file)")       \
    X(bad_frame, "invalid frame: see frame_*")                                         \
    X(silent, "no reply from the node for too long")                                   \
    X(goodbye, "the node ended the connection")                                        \
    X(no_channel, "no descriptor or memory for the connection")                        \
    X(no_memory, "this side ran out of memory")                                        \
    X(replaced, "the node's address leads to another process by now")                  \
    X(stopped, "this side closed the connection")

enum class LinkDown : uint8_t {
#define X(name, help) name,
    LINK_DOWNS(X)
#undef X
        count
};
inline constexpr StatRow<LinkDown> link_down_rows[] = {
#define X(name, help) {#name, help, LinkDown::name},
    LINK_DOWNS(X)
#undef X
};
constexpr std::string_view link_down_name(LinkDown why) { return link_down_rows[size_t(why)].name; }

// Counters first, then gauges; and counts by reason.
template <class Cell>
struct LinkCells {
#define X(name, help) Cell name{};
    LINK_COUNTERS(X)
    LINK_GAUGES(X)
#undef X
    std::array<Cell, size_t(protocol::LeaseDenial::count)> lease_denied_by{};  // printed as lease_denied_<name>
    std::array<Cell, size_t(LinkDown::count)> downs{};
    std::array<Cell, size_t(fabric::ChannelEnd::count)> channel_ends{};
    std::array<Cell, size_t(protocol::FrameError::count)> frame_errors{};

    static std::span<const StatRow<Cell LinkCells::*>> rows() {
#define X(name, help) {#name, help, &LinkCells::name},
#define X_GAUGE(name, help) {#name, help, &LinkCells::name, StatKind::gauge},
        static constexpr StatRow<Cell LinkCells::*> table[] = {LINK_COUNTERS(X) LINK_GAUGES(X_GAUGE)};
#undef X_GAUGE
#undef X
        return table;
    }
};

struct LinkCounters : LinkCells<Counter> {
    fabric::ChannelCounters channel;  // over all connections of the link
    Adjustable<RpcMode> rpc = RpcMode::count;  // its present way of requests; count: none, or the transport has one way

    void count_denied(protocol::LeaseDenial why) {
        if (why != protocol::LeaseDenial::none) lease_denied_by[size_t(why)].add(1);
    }
};

// visit(name, help, count) for each reason of an end: down_*, channel_end_* and frame_*.
template <class Visit>
void each_end(const LinkCells<uint64_t>& c, Visit visit) {
    for (size_t i = 0; i < c.downs.size(); i++)
        visit("down_" + std::string(link_down_rows[i].name), link_down_rows[i].help, c.downs[i]);
    for (size_t i = 0; i < c.channel_ends.size(); i++) {
        const auto end = fabric::ChannelEnd(i);
        visit("channel_end_" + std::string(channel_end_name(end)), channel_end_help(end), c.channel_ends[i]);
    }
    for (size_t i = 0; i < c.frame_errors.size(); i++) {
        const auto error = protocol::FrameError(i);
        visit("frame_" + std::string(frame_error_name(error)), frame_error_help(error), c.frame_errors[i]);
    }
}

// visit(cell of `to`, cell of `from`) for each count of a reason.
template <class To, class From, class Visit>
void each_reason(LinkCells<To>& to, const LinkCells<From>& from, Visit visit) {
    const auto each = [&](auto& cells, const auto& others) {
        for (size_t i = 0; i < cells.size(); i++) visit(cells[i], others[i]);
    };
    each(to.lease_denied_by, from.lease_denied_by);
    each(to.downs, from.downs);
    each(to.channel_ends, from.channel_ends);
    each(to.frame_errors, from.frame_errors);
}

}  // namespace farcached::proxy
