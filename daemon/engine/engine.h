// SPDX-License-Identifier: BSD-3-Clause
// Engine: the interface between a session, which moves bytes, and a protocol, which interprets them.
//
// A session receives bytes and passes all unconsumed input to the engine of its protocol. It sends the engine's output, `out`,
// and keeps the rest of the input. Engines hold no state between calls but SessionState.
//
// Owner: of a Context the Worker, of a SessionState the session or datagram. Threads: the worker's. Admin, EngineOptions and
// WatchLog serve all workers, in any of their threads.
//
// E1  An engine consumes whole requests only, except while `swallow` counts down, inside a GetLine, and in a PendingSet.
// E2  It never blocks and never touches the socket.
// E3  It stops with Next::yield after `budget` requests, or as soon as `out` holds out_bytes_max.
// E4  With keys behind links, the session's ReplyQueue parks each operation without an immediate answer, and the engine
//     continues. When the queue is full the engine stops with Next::hold.
// E5  An operation is submitted, then completed: the completion counts, writes watch lines and writes the reply. Immediate and
//     later answers share that code (daemon/commands/asking.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/counters.h"
#include "base/node_clock.h"
#include "base/out_buffer.h"
#include "daemon/engine/permissions.h"
#include "daemon/engine/router.h"
#include "daemon/stats/watch_hub.h"
#include "daemon/stats/worker_counters.h"
#include "node/store/node.h"
#include "protocol/op.h"

namespace farcached {
class Recorder;
}

namespace farcached::fabric {
struct SocketAddress;
}

namespace farcached::daemon {

class DiskGets;
class HotKeys;
class Latencies;
class ReplyQueue;
class RoomMaker;
class SessionMemory;
class SteppedRequests;

constexpr size_t out_bytes_soft_max = 1 << 20;
constexpr size_t out_bytes_short_max = 32 << 10;  // while SessionMemory is short of room

// The nodes whose statistics a `stats` reply needs.
struct StatsNeed {
    bool nodes = false;
    std::string_view group;  // as a node names it
    std::string_view node;   // empty: all of them
};

enum class StatsFound : uint8_t { found, unknown, unavailable };

enum class KeyUse : uint8_t { hit, miss, set, del };

// The daemon's part of the commands (daemon/farcached/admin.h). Every appended text is a whole reply, CRLF included, worded as in
// memcached 1.6.45.
class Admin {
  public:
    virtual ~Admin() = default;
    // With keys behind links, before `stats <args>` or a binary STAT of the key `args`. False: only a portion was counted; call
    // again in a later step.
    virtual bool stats_ready([[maybe_unused]] std::string_view args) { return true; }
    // Called next, and with keys in the embedded node, where it needs none. Its views are of `args`, or constants.
    virtual StatsNeed stats_need([[maybe_unused]] std::string_view args) { return {}; }
    // `stats <args>`: appends STAT lines and END (or RESET, OK, ERROR...). args has no leading spaces. told: the nodes'
    // answer, or empty.
    virtual void stats_text(std::string_view args, std::string_view told, OutBuffer& out) = 0;
    // Binary STAT: calls emit(name, value) for each line of the group.
    virtual StatsFound stats_binary(
        std::string_view group, std::string_view told,
        FunctionRef<void(std::string_view name, std::string_view value)> emit) = 0;
    virtual void verbosity(uint32_t level) = 0;
    // cache_memlimit, slabs, lru, lru_crawler (but the dumps), refresh_certs: `line` is the whole command.
    virtual void tune(std::string_view line, OutBuffer& out) = 0;
    virtual void flush_at(NodeSeconds when) = 0;  // a flush_all with a delay
    // Called at every flush: items older than `when` expire then.
    virtual void flushed([[maybe_unused]] NodeSeconds when) {}
    // The operator's `drain NODE`, or `undrain NODE` if not `on`; the caller has checked that the session is the operator's.
    virtual void drain(std::string_view node, bool on, OutBuffer& out) = 0;
    virtual void shutdown(bool graceful) = 0;     // the caller has checked that it is allowed
    virtual void reload() {}                      // the operator's; returns before the reload is done
    // Key-level accounting for `stats detail`; a cheap no-op while it is off.
    virtual void detail(std::string_view key, KeyUse use) = 0;
};

class ClusterView;  // daemon/remote/cluster_view.h
class Passwords;  // daemon/commands/passwords.h
class Sasl;       // this and the next: daemon/commands/sasl.h
class SaslExchange;

struct EngineOptions {
    bool cas_enabled = true;
    Adjustable<bool> flush_enabled = true;    // this and the next change by a reload
    Adjustable<bool> dump_enabled = true;
    Adjustable<bool> crawler_enabled = true;  // lru_crawler and its dumps; changes at run time
    Adjustable<bool> watch_enabled = true;    // this and the next change by a reload
    Adjustable<bool> shutdown_enabled = false;
    Adjustable<bool> detail_enabled = false;  // stats detail: changes at run time
    Adjustable<bool> trace = false;           // -vv, verbosity 2: trace_request(); changes at run time
    bool unavailable_is_error = false;  // a get whose node does not answer: SERVER_ERROR instead of a miss
    uint64_t item_bytes_max = 0;
    // Clients must authenticate by the text protocol, or by the binary one. Borrowed; at most one of them, nullptr: not.
    const Passwords* passwords = nullptr;
    const Sasl* sasl = nullptr;
    const ClusterView* cluster = nullptr;  // borrowed; nullptr: as one without a list

    bool locks_clients() const { return passwords != nullptr || sasl != nullptr; }
};

// One per worker, passed to every engine call.
struct Context {
    Router router;
    WorkerCounters& counters;
    const EngineOptions& options;
    Admin& admin;
    WatchLog& watch;
    NodeSeconds now = 0;        // refreshed by the worker each tick
    int64_t started_unix = 0;   // Unix time at which the node's clock read 0
    Latencies* latencies = nullptr;  // null: no measurements
    HotKeys* hot_keys = nullptr;     // null: no samples
    Recorder* recorder = nullptr;    // null: no records; else it records the request under execution
    SessionMemory* memory = nullptr;  // of all sessions; null: no limit
    RoomMaker* room = nullptr;       // null: no session ends to make room
    DiskGets* disk = nullptr;        // null: the embedded node has no disk; else every session has a ReplyQueue
    SteppedRequests* steps = nullptr;  // null: neither warm_from nor replicas; else every session has a ReplyQueue
    size_t out_bytes_max = out_bytes_soft_max;  // E3; changes at run time
    const Permissions* permissions = nullptr;   // null: every client may use all commands; changes by a reload
    const fabric::SocketAddress* sender = nullptr;  // of the datagram under execution

    // True: SessionMemory has room for `bytes` of a client's buffer, if need be after other sessions ended.
    bool has_room(size_t bytes) const;
    NodeSeconds seconds(int64_t exptime) const {
        return to_node_seconds(exptime, now, started_unix);
    }
};

// size_class: 1-based, as nodes report it.
inline ClassCounters& class_counters(Context& context, uint8_t size_class) {
    return context.counters.classes[size_class & 63];
}

// Counters that all protocols share. Only the text protocol counts stores that were refused as too large or for lack of memory:
// count_stored() is for the others.
void count_miss(Context& context, protocol::Miss why);
void count_stored(Context& context, protocol::StoreOp::Mode mode, const protocol::StoreReply& reply);
void count_arith(Context& context, bool decrement, const protocol::ArithReply& reply);

// A get line answered key by key, because it or its reply is too long to hold at once.
struct GetLine {
    enum class Kind : uint8_t { none, get, gets, gat, gats, discard } kind = Kind::none;
    bool any_key = false;         // one has been seen
    bool refused = false;         // no memory for one of the values
    bool sends_values = false;    // kind is none, and the last request was a large set
    NodeSeconds touch = 0;        // gat, gats
};

// A set whose value arrives in the node's memory. The engine parses its head again once the value is complete.
struct PendingSet {
    std::string head;                      // line, or binary header with extras and key
    std::unique_ptr<node::Upload> upload;  // its value
    size_t tail_bytes = 0;                 // of the value's terminator
    std::string tail;                      // the bytes of it received so far
};

// Engine state of one connection, owned by the session.
struct SessionState {
    int fd : 29 = -1;             // shown in watch lines; this and the next two are read by other threads
    bool datagram : 1 = false;    // of a datagram: its sender may be forged, and it gets no stream
    bool own : 1 = false;         // this process's own connection, exempt from limits
    bool admin : 1 = false;       // accepted on the --admin socket
    uint32_t swallow = 0;         // bytes of a refused value still to be discarded
    GetLine line;                 // the input begins inside this line
    std::unique_ptr<PendingSet> pending;  // the input begins inside its value
    ReplyQueue* replies = nullptr;  // borrowed; set if keys are behind links, or values on a disk
    ClientRights rights;
};

enum class Next : uint8_t {
    more,        // all whole requests are done: receive more. `want` > 0: total bytes of the next
    yield,       // the budget or the output bound was reached: call again after sending
    hold,        // answers must arrive first: call again when the ReplyQueue has room
    close,       // send `out`, then close
    watch,       // this connection becomes a watcher (Progress::watch_flags)
    dump,        // lru_crawler metadump/mgdump: stream it (Progress::dump), then continue
};

struct Progress {
    size_t consumed = 0;          // bytes of input
    size_t want = 0;              // Next::more: total size of the request at the front, when known
    Next next = Next::more;
    uint32_t requests = 0;        // executed
    uint32_t watch_flags = 0;
    bool mgdump = false;          // Next::dump: mgdump instead of metadump
    bool hash_order = false;      // Next::dump: asked for `hash` instead of classes
    uint64_t dump_classes = 0;    // Next::dump: bit per 1-based class; ~0 for all
    bool unlocked = false;        // run_locked(): the client has authenticated, and the protocol's engine continues
    bool locked = false;          // run_binary(): the client authenticates anew, and run_locked() continues
};

// `input`: all bytes received and not consumed. Later calls only extend an incomplete request.
Progress run_text(Context& context, SessionState& session, std::string_view input, OutBuffer& out,
                  uint32_t budget);
Progress run_binary(Context& context, SessionState& session, std::string_view input, OutBuffer& out,
                    uint32_t budget);
// Until a client has authenticated. exchange: of this session; nullptr: none is under way.
Progress run_locked(Context& context, SessionState& session, std::string_view input, OutBuffer& out, uint32_t budget,
                    std::unique_ptr<SaslExchange>& exchange);

// Receives a large value directly into the embedded node's memory, not into a buffer of the session.
//
//   need more --begin_pending()--> SessionState::pending --feed_pending()--> whole: the engine parses `head` again, and stores
//
// `head`, and the received part of the value and its terminator; the value has `value_bytes` bytes, the terminator
// `tail_bytes`. False, with no change: the value is too small, the node has no room for it, or the node is not in this process.
bool begin_pending(Context& context, SessionState& session, const protocol::Key& key, std::string_view head,
                   std::string_view here, uint32_t value_bytes, size_t tail_bytes);

// Takes the set's bytes from the front of `input`; returns their number.
size_t feed_pending(PendingSet& set, std::string_view input);

// True: value and terminator are complete.
bool is_whole(const PendingSet& set);

// The log lines of -vv and `verbosity 2`, at level debug, worded as by memcached: connections, and the first line of each
// request and reply. For engines and workers, which check EngineOptions::trace first. Without memory a line is lost.
void trace_connection(int fd, std::string_view what) noexcept;  // "<22 new auto-negotiating client connection"
void trace_request(int fd, std::string_view bytes) noexcept;    // "<22 get foo", or a binary header's fields
void trace_reply(int fd, std::string_view bytes) noexcept;      // ">22 END"; no line for no bytes

}  // namespace farcached::daemon
