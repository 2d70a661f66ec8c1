// SPDX-License-Identifier: BSD-3-Clause
// ServiceCounters: a node's counters of its connections, and the reasons why these end. node/service/node_stats.h prints them.
//
// Owner of a ServiceCounters: one thread, for all connections it serves; any thread may read (base/counters.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/stat_row.h"
#include "fabric/channel.h"
#include "protocol/frame.h"
#include "protocol/handshake.h"

namespace farcached::node {

//        name                help
#define SERVICE_COUNTERS(X)                                                                                         \
    X(connections_opened, "connections accepted")                                                                   \
    X(connections_welcomed, "connections accepted after their greeting")                                            \
    X(connections_two_sided, "of these, connections of proxies of an older version, which are served two-sided")    \
    X(authentications, "connections whose proxies proved a key (--auth-key-file)")                                  \
    X(auth_failed_no_key, "greetings of proxies without a key")                                                     \
    X(auth_failed_version, "greetings of proxies of a version that cannot prove a key")                             \
    X(auth_failed_unknown, "proofs by a key that is not in the file")                                               \
    X(auth_failed_proof, "wrong proofs by the name of a known key")                                                 \
    X(auth_failed_role, "proofs by a known key that named another role")                                            \
    X(auth_keys_removed, "connections ended because a reload removed their key")                                    \
    X(auth_refused_requests, "requests refused because the role of the connection's key does not allow them")       \
    X(connections_over, "connections ended")                                                                        \
    X(connections_turned_away, "connections closed at once for lack of a descriptor")                               \
    X(request_frames, "request frames")                                                                             \
    X(requests, "requests, executed or refused")                                                                    \
    X(cmd_get, "keys requested two-sided")                                                                          \
    X(get_hits, "keys requested and found")                                                                         \
    X(get_misses, "keys requested and not found")                                                                   \
    X(get_moved, "gets of items whose keys moved to other nodes")                                                   \
    X(get_moved_hits, "of these, gets that found the item")                                                         \
    X(cmd_set, "stores of every mode")                                                                              \
    X(cmd_delete, "deletes, of every kind")                                                                         \
    X(cmd_arith, "increments and decrements")                                                                       \
    X(cmd_forget, "items dropped because their new value was refused before it was sent")                           \
    X(cmd_copies, "requests about copies of items, not about one key")                                              \
    X(cmd_hold, "holds begun or released: copies removed before their item changes at its primary node")            \
    X(cmd_flush, "flushes, at once or scheduled")                                                                   \
    X(cmd_delete_prefix, "deletes by prefix")                                                                       \
    X(cmd_keep, "deletes of the items whose keys a changed list of nodes gives to other nodes")                     \
    X(get_value_lost, "gets whose value its tier had lost: counted as hits, answered as misses")                    \
    X(waits_for_sublease, "requests that waited until no proxy could READ the key's value on the node of spill_to")   \
    X(cmd_stats, "requests for statistics")                                                                         \
    X(requests_refused, "valid requests that were not executed")                                                    \
    X(requests_old_list, "requests not executed because the proxy's list of nodes is older than another one's")     \
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
    X(over_budget, "connections held the maximum of bytes, and this one most for longest")            \
    X(authentication, "the proxy proved no key, or its key was removed (--auth-key-file)")            \
    X(tls, "the proxy has no TLS, or one side refused the other's certificate (--peer-cert)")

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

struct ServiceCounters {
#define X(name, help) Counter name;
    SERVICE_COUNTERS(X)
#undef X
    std::array<Counter, size_t(ServiceEnd::count)> ends;
    std::array<Counter, size_t(protocol::FrameError::count)> frame_errors;
    std::array<Counter, size_t(protocol::Refusal::count)> refusals;
    std::array<Counter, size_t(fabric::ChannelEnd::count)> channel_ends;
    fabric::ChannelCounters channel;  // over all connections

    static std::span<const StatRow<Counter ServiceCounters::*>> rows() {
#define X(name, help) {#name, help, &ServiceCounters::name},
        static constexpr StatRow<Counter ServiceCounters::*> table[] = {SERVICE_COUNTERS(X)};
#undef X
        return table;
    }
};

}  // namespace farcached::node
