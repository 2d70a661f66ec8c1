// SPDX-License-Identifier: BSD-3-Clause
// Engine: the seam between a session, which moves bytes, and a protocol, which gives them meaning.
//
// A session receives bytes, calls the engine of its protocol with all it has, sends what the engine appended
// to `out`, and keeps what was not consumed. Engines hold no state between calls but SessionState.
//
// E1  An engine consumes whole requests only, except while `swallow` counts down and inside a GetLine.
// E2  It never blocks and never touches the socket.
// E3  It stops after `budget` requests, or as soon as `out` holds out_bytes_soft_max, with Next::yield.
// E4  With a Backend, what is not answered at once is parked in the session's ReplyQueue, and the engine goes on
//     behind it. When that is full it stops with Next::hold.
// E5  An operation has two halves: one asks, the other counts, tells watchers and writes the reply. The second is the
//     same code whether the answer comes at once or later (daemon/engine_ask.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/adjustable.h"
#include "base/node_clock.h"
#include "base/out_buffer.h"
#include "daemon/watch.h"
#include "daemon/worker_counters.h"
#include "node/node.h"
#include "proxy/local_get.h"

namespace farcached {
class Recorder;
}

namespace farcached::daemon {

class Backend;
class HotKeys;
class Latencies;
class ReplyQueue;

constexpr size_t out_bytes_soft_max = 1 << 20;

// What nodes are to be asked before a `stats` can be answered.
struct StatsNeed {
    bool nodes = false;
    std::string_view group;  // as a node names it
    std::string_view node;   // empty: all of them
};

enum class StatsFound : uint8_t { found, unknown, unavailable };

// What commands other than the cache's own need: implemented by the daemon (daemon/admin.h).
// Every text it appends is a whole reply, CRLF included, exactly as memcached 1.6.45 words it.
class Admin {
  public:
    virtual ~Admin() = default;
    // With a Backend, before `stats <args>`, or a binary STAT of the key `args`. False: this was a portion of what has
    // to be counted first; call again in a later turn.
    virtual bool stats_ready([[maybe_unused]] std::string_view args) { return true; }
    // Then: its views are of `args`, or constants.
    virtual StatsNeed stats_need([[maybe_unused]] std::string_view args) { return {}; }
    // `stats <args>`: appends STAT lines and END (or RESET, OK, ERROR...). args without leading spaces. told: what the
    // Backend answered, if it was asked and did.
    virtual void stats_text(std::string_view args, std::string_view told, OutBuffer& out) = 0;
    // Binary STAT: calls emit(name, value) for each of the group.
    virtual StatsFound stats_binary(
        std::string_view group, std::string_view told,
        FunctionRef<void(std::string_view name, std::string_view value)> emit) = 0;
    virtual void verbosity(uint32_t level) = 0;
    // cache_memlimit, slabs, lru, lru_crawler (but the dumps), refresh_certs: `line` is the whole command.
    virtual void tune(std::string_view line, OutBuffer& out) = 0;
    virtual void flush_at(NodeSeconds when) = 0;  // a flush_all with a delay
    // Told of every flush: what is older than `when` is gone, or will be then.
    virtual void flushed([[maybe_unused]] NodeSeconds when) {}
    // The operator's `drain NODE` and, without `on`, `undrain NODE`; after the caller checked whose session it is.
    virtual void drain(std::string_view node, bool on, OutBuffer& out) = 0;
    virtual void shutdown(bool graceful) = 0;     // after the caller checked that it is allowed
    virtual void reload() {}                      // the operator's; asks, and returns before it is done
    // Key-level accounting for `stats detail`; cheap no-ops while it is off.
    virtual void detail_get(std::string_view key, bool hit) = 0;
    virtual void detail_set(std::string_view key) = 0;
    virtual void detail_delete(std::string_view key) = 0;
};

struct EngineOptions {
    bool cas_enabled = true;
    Adjustable<bool> flush_enabled = true;    // this and the next by a reload
    Adjustable<bool> dump_enabled = true;
    Adjustable<bool> crawler_enabled = true;  // lru_crawler: without it there are no dumps; changes at run time
    Adjustable<bool> watch_enabled = true;    // by a reload, as the next
    Adjustable<bool> shutdown_enabled = false;
    Adjustable<bool> detail_enabled = false;  // stats detail: changes at run time
    Adjustable<bool> trace = false;           // -vv, verbosity 2: daemon/trace.h; changes at run time
    bool unavailable_is_error = false;  // a get whose node does not answer: SERVER_ERROR instead of a miss
    uint64_t item_bytes_max = 0;
};

// One per worker, lent to every engine call.
struct Context {
    node::Node& node;
    proxy::LocalGet& local;
    WorkerCounters& counters;
    const EngineOptions& options;
    Admin& admin;
    WatchLog& watch;
    NodeSeconds now = 0;        // refreshed by the worker each tick
    int64_t started_unix = 0;   // Unix time at which the node's clock read 0
    Backend* backend = nullptr;  // null: `node` executes, and answers at once
    Latencies* latencies = nullptr;  // null: nobody measures
    HotKeys* hot_keys = nullptr;     // null: nobody samples
    Recorder* recorder = nullptr;    // null: nobody records; else it is told which request is executed

    // With its hash for `node`; a backend hashes as it needs.
    protocol::Key key(std::string_view bytes) const {
        return {bytes, backend == nullptr ? local.hash(bytes) : 0};
    }
    // Would an item of this size be refused as too large?
    bool too_large(size_t key_bytes, uint64_t value_bytes) const {
        return backend == nullptr ? node.too_large(key_bytes, value_bytes)
                                  : too_large_for_backend(key_bytes, value_bytes);
    }
    bool too_large_for_backend(size_t key_bytes, uint64_t value_bytes) const;
    NodeSeconds seconds(int64_t exptime) const {
        return to_node_seconds(exptime, now, started_unix);
    }
    // Hands the accesses seen so far to the node. Engines call it before a locked operation whose answer
    // shows access times (mg h, l, t; me), or that writes the item anew with its history (touch, incr, append,
    // md I), and whenever local.accesses_full().
    void record_accesses();
};

// A get line that is answered key by key, because it or its reply is too long to be held at once.
struct GetLine {
    enum class Kind : uint8_t { none, get, gets, gat, gats, discard } kind = Kind::none;
    bool any_key = false;         // one has been seen
    NodeSeconds touch = 0;        // gat, gats
};

// Per connection, owned by the session, for the engines.
struct SessionState {
    int fd = -1;                  // named in watch lines
    bool own = false;             // of this process to itself, which no limit counts
    bool admin = false;           // the operator's: it came by the socket of --admin
    uint64_t swallow = 0;         // bytes of a refused value still to be thrown away
    GetLine line;                 // the front of the input is inside this line
    ReplyQueue* replies = nullptr;  // borrowed; set if there is a Backend
};

enum class Next : uint8_t {
    more,        // all whole requests are done: receive more. `want` > 0: bytes needed in all for the next
    yield,       // the budget or the output bound was reached: call again after sending
    hold,        // answers must come first: call again when the ReplyQueue has room
    close,       // send what is in `out`, then close
    watch,       // this connection becomes a watcher (Progress::watch_flags)
    dump,        // lru_crawler metadump/mgdump: stream it (Progress::dump), then go on
};

struct Progress {
    size_t consumed = 0;          // bytes of input done with
    size_t want = 0;              // Next::more: total size of the request at the front, when known
    Next next = Next::more;
    uint32_t requests = 0;        // executed
    uint32_t watch_flags = 0;
    bool mgdump = false;          // Next::dump: which of the two formats
    bool hash_order = false;      // Next::dump: asked for `hash` instead of classes
    uint64_t dump_classes = 0;    // Next::dump: bit per 1-based class; ~0 for all
};

// `input` is everything received and not consumed. More input of the same request only ever extends it.
Progress run_text(Context& context, SessionState& session, std::string_view input, OutBuffer& out,
                  uint32_t budget);
Progress run_binary(Context& context, SessionState& session, std::string_view input, OutBuffer& out,
                    uint32_t budget);

}  // namespace farcached::daemon
