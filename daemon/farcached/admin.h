// SPDX-License-Identifier: BSD-3-Clause
// AdminImpl: the daemon's part of the commands (daemon/engine/engine.h, Admin): statistics, tuning, delayed flushes, shutdown.
//
// Owner: main (daemon/farcached/run.cc). Threads: any worker's, at any time; change() belongs to main's. No call does I/O, but
// refresh_certs reads files. `stats sizes` and `stats cachedump` walk the cache's pages in the calling worker.
//
// With nodes, statistics of items and their memory come from the nodes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/out_buffer.h"
#include "daemon/engine/engine.h"
#include "daemon/stats/server_view.h"
#include "daemon/stats/stats.h"
#include "daemon/stats/stats_sample.h"
#include "daemon/stats/watch_hub.h"
#include "process/reloader.h"
#include "proxy/pointer_table.h"

namespace farcached::daemon {

class ClusterView;  // daemon/remote/cluster_view.h
class Discovered;  // daemon/farcached/discovered.h
class TlsKeys;  // daemon/session/tls.h

// PrefixStats: the counts of `stats detail`. A key's prefix ends before the first delimiter (-D); keys without one are not
// counted.
//
// Any thread may call. A lock is taken only while counting is on.
// I1  At most prefixes_max prefixes are kept; further ones are not counted, so memory is bounded.
class PrefixStats {
  public:
    static constexpr size_t prefixes_max = 1 << 16;

    explicit PrefixStats(char delimiter) : delimiter_(delimiter) {}
    PrefixStats(const PrefixStats&) = delete;
    PrefixStats& operator=(const PrefixStats&) = delete;

    void turn(bool on) { on_.store(on, std::memory_order_relaxed); }
    bool on() const { return on_.load(std::memory_order_relaxed); }

    void count(std::string_view key, KeyUse use);

    // `PREFIX user get 1 hit 1 set 0 del 0` for each, then END.
    void dump(OutBuffer& out) const;
    void clear();

  private:
    struct Counts {
        uint64_t gets = 0, hits = 0, sets = 0, deletes = 0;
    };
    struct Hash {
        using is_transparent = void;
        size_t operator()(std::string_view text) const {
            return std::hash<std::string_view>()(text);
        }
    };

    // Under lock_. nullptr: no prefix, or no room for another.
    Counts* find(std::string_view key);

    const char delimiter_;
    std::atomic<bool> on_{false};
    mutable std::mutex lock_;
    std::unordered_map<std::string, Counts, Hash, std::equal_to<>> prefixes_;
};

// PointerSurvey: the contents of the pointer table, for `stats pointers`. A million entries take too long for one step of a
// session, so they are counted in parts, one in each step of a session that requests them.
//
// Any thread may call. Simultaneous requests share one count, and a result is valid for fresh_ns: the table is scanned once a
// second at most.
class PointerSurvey {
  public:
    static constexpr uint64_t entries_per_step = 1 << 14;  // some 0.4 ms
    static constexpr uint64_t fresh_ns = 1'000'000'000;

    // One step at most. True: result() is fresh. now_ns: CLOCK_BOOTTIME. Always with the same table.
    bool step(const proxy::PointerTable& table, uint64_t now_ns);
    // The latest; all zero before the first.
    proxy::PointerTable::Occupancy result() const;

  private:
    mutable std::mutex lock_;
    proxy::PointerTable::Occupancy result_;
    proxy::PointerTable::Occupancy counted_;  // so far
    uint64_t next_ = 0;                       // entry
    uint64_t stepped_ns_ = 0;                 // 0: never; an abandoned count starts again
    uint64_t complete_ns_ = 0;                // 0: never
};

struct AdminOptions {
    std::vector<Setting> settings;   // `stats settings` at the start, in memcached's order
    uint64_t max_connections = 1024;
    bool maxconns_fast = true;
    bool idle_timeout = false;       // true: a timeout is set
    bool tls_sessions = false;       // -o ssl_session_cache
    bool track_sizes = false;        // -o track_sizes: stats sizes may walk the cache
    char prefix_delimiter = ':';     // -D
    std::string own_version;
    const process::Reloader* reloader = nullptr;  // `stats config`; nullptr: no such group
    TlsKeys* keys = nullptr;         // `refresh_certs`; nullptr: no TLS
    const Discovered* discovered = nullptr;  // `stats discovery`; nullptr: no --discover
    const ClusterView* cluster = nullptr;    // `stats members`; nullptr: clients get no list
};

class AdminImpl final : public Admin {
  public:
    // All outlive this. embedded: nullptr in front of nodes. `stats detail` changes engine_options.detail_enabled, `lru_crawler`
    // changes crawler_enabled.
    AdminImpl(Embedded* embedded, ServerView& server, WatchHub& watch,
              EngineOptions& engine_options, AdminOptions options);

    bool stats_ready(std::string_view args) override;
    StatsNeed stats_need(std::string_view args) override;
    void stats_text(std::string_view args, std::string_view told, OutBuffer& out) override;
    StatsFound stats_binary(std::string_view group, std::string_view told, StatWriter::Emit emit) override;
    void verbosity(uint32_t level) override;
    void tune(std::string_view line, OutBuffer& out) override;
    void flush_at(NodeSeconds when) override { embedded_->crawler.flush_at(when); }
    void flushed(NodeSeconds when) override;
    void drain(std::string_view node, bool on, OutBuffer& out) override;
    void shutdown(bool graceful) override { server_.shut_down(graceful); }
    void reload() override { server_.reload(); }
    void detail(std::string_view key, KeyUse use) override { prefixes_.count(key, use); }

    // By a reload: shows the settings that differ. Main's thread.
    void change(const AdminOptions& from, const AdminOptions& to);

  private:
    struct Numbers {
        Sample sample;
        std::vector<NodeNumbers> nodes;  // that answered
    };

    struct Group;
    static std::span<const Group> groups();
    static const Group* find_group(std::string_view name);
    // The error for a text client if the group is not available. Empty: it is.
    std::string_view missing_for(const Group& group) const;
    void write_general_group(std::string_view told, StatWriter out) const;
    void write_sizes_group(StatWriter out) const;
    void write_groups(StatWriter out) const;
    void write_members_group(StatWriter out) const;
    // `stats route KEY`. words: from `route` on. False: not a valid key.
    bool write_route_of(const LineWords& words, StatWriter out);
    // `stats node NAME [GROUP]`. words: from `node` on.
    StatsFound write_one_node(const LineWords& words, std::string_view told, StatWriter out);
    // The error for a text client when write_one_node() wrote nothing.
    std::string one_node_refusal(const LineWords& words) const;
    Numbers numbers(std::string_view told) const;
    Sample sample(std::string_view told) const { return numbers(told).sample; }
    void reset(std::string_view told);
    void turn_detail(bool on);
    void stats_detail(std::string_view what, OutBuffer& out);
    void stats_cachedump(std::string_view size_class, std::string_view items_max, OutBuffer& out);

    Embedded* const embedded_;
    ServerView& server_;
    WatchHub& watch_;
    EngineOptions& engine_options_;
    const AdminOptions options_;  // but for the members below
    std::atomic<uint64_t> max_connections_;
    std::atomic<bool> maxconns_fast_, idle_timeout_, tls_sessions_;
    SettingsTable settings_;
    PrefixStats prefixes_;

    PointerSurvey survey_;

    mutable std::mutex lock_;
    std::unique_ptr<const Numbers> baseline_;  // at the last reset; nullptr: none so far
};

// The commands that change settings at run time (daemon/farcached/tune.cc): cache_memlimit, slabs, lru, lru_crawler (without its
// dumps), extstore, refresh_certs. Replies are memcached 1.6.45's, word for word.

// The targets of the commands. All outlive the call.
struct TuneTargets {
    Embedded* embedded;  // nullptr in front of nodes: no command that tunes_memory()
    SettingsTable& settings;
    NodeSeconds now;
    TlsKeys* keys;       // nullptr: no TLS
};

// True: a command about item memory, which is elsewhere when nodes are configured.
bool tunes_memory(std::string_view line);

// The answer, without CRLF. `line`: the whole command.
std::string tune(const TuneTargets& targets, std::string_view line);

}  // namespace farcached::daemon
