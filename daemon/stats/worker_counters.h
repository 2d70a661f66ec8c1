// SPDX-License-Identifier: BSD-3-Clause
// The counters of each worker; `stats` prints sums over workers. Owner: one worker each; any thread reads (base/counters.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/stat_row.h"

namespace farcached::daemon {

// Reasons of session ends: each has a name, and a counter in `stats proxy`.
//        name          reason in `watch connevents`, as memcached words it; help
#define SESSION_ENDS(X)                                                                      \
    X(client_closed, "normal", "the client closed the connection")                           \
    X(protocol_close, "normal", "the client said quit, or sent what is no request")          \
    X(peer_reset, "error", "the connection was reset, or receiving failed")                  \
    X(send_failed, "error", "sending failed")                                                \
    X(idle_timeout, "idle_timeout", "nothing was received for idle_timeout seconds")         \
    X(became_watcher, "normal", "the connection was handed over to `watch`")                 \
    X(no_memory, "error", "out of memory for the connection's buffers")                      \
    X(buffers_full, "error", "all clients' buffers together had reached read_buf_mem_limit") \
    X(tls_failed, "error", "the TLS handshake failed, or a TLS record was invalid")          \
    X(tls_timeout, "error", "no TLS handshake within ssl_handshake_timeout")                 \
    X(server_stopped, "shutdown", "the server stopped")

enum class SessionEnd : uint8_t {
#define X(name, text, help) name,
    SESSION_ENDS(X)
#undef X
        count
};

struct SessionEndText {
    std::string_view name, text, help;
};
inline constexpr SessionEndText session_end_texts[] = {
#define X(name, text, help) {#name, text, help},
    SESSION_ENDS(X)
#undef X
};
constexpr std::string_view session_end_name(SessionEnd end) { return session_end_texts[size_t(end)].name; }
constexpr std::string_view session_end_text(SessionEnd end) { return session_end_texts[size_t(end)].text; }

//        name               help; with io_uring (daemon/session/ring_io.cc)
#define RING_COUNTERS(X)                                                                     \
    X(ring_enters, "io_uring_enter system calls")                                            \
    X(ring_receives, "receives completed by the ring")                                       \
    X(ring_sends, "sends submitted to the ring")                                             \
    X(ring_sends_short, "of these, partial or empty sends")                                  \
    X(ring_sends_failed, "of these, sends that failed")                                      \
    X(ring_buffers_exhausted, "receives restarted for lack of a free buffer")                \
    X(ring_receives_cancelled, "receives cancelled because the session was paused or ended") \
    X(ring_receives_broken, "receives restarted for another reason")                         \
    X(ring_full, "early submissions because the ring was full")                              \
    X(ring_refused, "submissions that the kernel refused at first")                          \
    X(ring_overflows, "completion queue overflows")

//        name               help (names are memcached's, doc/protocol.txt "Statistics")
#define WORKER_COUNTERS(X)                                                                        \
    X(cmd_flush, "flush_all requests")                                                            \
    X(read_oom, "requests refused because all client buffers were in use")                        \
    X(response_oom, "replies refused because all client buffers were in use")                     \
    X(cmd_delete_prefix, "deletes by prefix")                                                     \
    X(get_extstore, "keys requested whose values were on the disk")                               \
    X(miss_from_extstore, "of these, values that the disk had lost")                              \
    X(get_oom_extstore, "of these, values for which there was no memory")                         \
    X(cmd_touch, "touch and get-and-touch requests")                                              \
    X(cmd_config_get, "config get requests answered with the list of the cluster")                \
    X(cmd_meta, "meta commands")                                                                  \
    X(get_cmds, "keys requested")                                                                 \
    X(get_misses, "keys requested and not found")                                                 \
    X(get_expired, "keys requested that had expired")                                             \
    X(get_flushed, "keys requested that had been flushed")                                        \
    X(delete_misses, "deletes of missing keys")                                                   \
    X(incr_misses, "incr of missing keys")                                                        \
    X(decr_misses, "decr of missing keys")                                                        \
    X(cas_misses, "cas of missing keys")                                                          \
    X(touch_misses, "touches of missing keys")                                                    \
    X(store_too_large, "stores refused because the item exceeds item_size_max")                   \
    X(store_no_memory, "stores refused for lack of memory")                                       \
    X(auth_cmds, "authentication commands")                                                       \
    X(auth_errors, "failed authentications")                                                      \
    X(refused_read, "requests refused because their clients may not read")                        \
    X(refused_write, "requests refused because their clients may not write")                      \
    X(refused_admin, "requests refused because their clients may not administrate")               \
    X(refused_stats, "requests refused because their clients may not see statistics")             \
    X(idle_kicks, "connections closed by idle_timeout")                                           \
    X(bytes_read, "bytes received from clients")                                                  \
    X(bytes_written, "bytes sent to clients")                                                     \
    X(conn_yields, "times a connection yielded after reqs_per_event requests")                    \
    X(read_calls, "recv system calls")                                                            \
    X(write_calls, "send system calls")                                                           \
    X(requests, "requests executed")                                                              \
    X(get_unavailable, "keys of GETs without a reply of their node")                              \
    X(mutations_unavailable, "mutations without a reply of their node; their outcome is unknown") \
    X(replies_unmatched, "replies of nodes that match no request")                                \
    X(replica_copies, "changed items stored on their second node, too")                           \
    X(replica_copies_lost, "changed items whose copy was not stored at once")                     \
    X(replica_reads, "gets answered by a copy in the own zone, or of a very hot key")             \
    X(replica_refills, "items that a miss stored at their first node from the copy")              \
    X(replica_refusals, "changes refused because the second node did not reply")                  \
    X(replica_searched, "keys that the search for missing copies looked at")                      \
    X(moved_fetches, "keys asked for at the node that had them before the list changed")          \
    X(moved_hits, "of these, keys whose item it had")                                             \
    X(warm_fetches, "keys asked for at the source of warm_from")                                  \
    X(warm_hits, "of these, keys that the source had")                                            \
    X(warm_stored, "of these, items stored here")                                                 \
    X(warm_failures, "commands to the source of warm_from that it did not carry out in time")     \
    X(slow_requests, "requests that took slow_log_ms or longer")                                  \
    X(tls_handshakes, "TLS handshakes completed")                                                 \
    X(tls_kernel_handshakes, "of these, those after which the kernel encrypts replies")           \
    X(ssl_new_sessions, "TLS handshakes of new sessions that clients may resume")                   \
    X(ssl_handshake_errors, "TLS handshakes that failed, were given up, or took too long")        \
    X(ssl_proto_errors, "invalid TLS records after the handshake")                                \
    X(udp_datagrams, "datagrams with requests, over UDP")                                         \
    X(udp_invalid, "datagrams over UDP without a whole request, or that begin as a reply does")   \
    X(udp_replies_refused, "replies over UDP replaced by an error because of udp_amplification")  \
    X(udp_replies_lost, "replies over UDP that the socket did not take as a whole")               \
    X(udp_no_memory, "datagrams over UDP refused or dropped for lack of memory")                  \
    RING_COUNTERS(X)

//        name             help
#define WORKER_GAUGES(X) \
    X(replica_missing, "keys known to have no copy, which are looked at again")

//        name          help; per size class, as `stats slabs` prints them
#define CLASS_COUNTERS(X)                           \
    X(get_hits, "keys found")                       \
    X(cmd_set, "storage requests")                  \
    X(delete_hits, "deletes that removed an item")  \
    X(incr_hits, "incr that succeeded")             \
    X(decr_hits, "decr that succeeded")             \
    X(cas_hits, "cas that stored")                  \
    X(cas_badval, "cas whose unique did not match") \
    X(touch_hits, "touches of present keys")

template <class Cell>
struct ClassCells {
#define X(name, help) Cell name{};
    CLASS_COUNTERS(X)
#undef X
    static std::span<const StatRow<Cell ClassCells::*>> rows() {
#define X(name, help) {#name, help, &ClassCells::name},
        static constexpr StatRow<Cell ClassCells::*> table[] = {CLASS_COUNTERS(X)};
#undef X
        return table;
    }
};

using ClassCounters = ClassCells<Counter>;

template <class Cell>
struct WorkerCells {
#define X(name, help) Cell name{};
    WORKER_COUNTERS(X)
    WORKER_GAUGES(X)
#undef X
    static std::span<const StatRow<Cell WorkerCells::*>> rows() {
#define X(name, help) {#name, help, &WorkerCells::name},
#define X_GAUGE(name, help) {#name, help, &WorkerCells::name, StatKind::gauge},
        static constexpr StatRow<Cell WorkerCells::*> table[] = {WORKER_COUNTERS(X) WORKER_GAUGES(X_GAUGE)};
#undef X
#undef X_GAUGE
        return table;
    }
};

struct WorkerCounters : WorkerCells<Counter> {
    std::array<ClassCounters, 64> classes;  // by 1-based size class
};

}  // namespace farcached::daemon
