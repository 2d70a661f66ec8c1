// SPDX-License-Identifier: BSD-3-Clause
// The groups of `stats`, each with memcached 1.6.45's names in its order. Meanings are those of memcached's doc/protocol.txt;
// numbers without a counterpart here are zero.
//
// One writer for text and binary: a group passes names and values to StatWriter.
//
// Owner: none, but of a SettingsTable the AdminImpl. Threads: any; a StatWriter is its caller's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "daemon/stats/stats_sample.h"

namespace farcached::daemon {

// The words of an admin command. Borrows the line.
class LineWords {
  public:
    static constexpr size_t words_max = 24;  // memcached's; ignores further words

    explicit LineWords(std::string_view line) {
        while (count_ < words_max) {
            size_t start = line.find_first_not_of(' ');
            if (start == std::string_view::npos) return;
            line.remove_prefix(start);
            words_[count_++] = line.substr(0, line.find(' '));
            line.remove_prefix(words_[count_ - 1].size());
        }
    }

    size_t size() const { return count_; }
    // Empty if there are fewer words.
    std::string_view operator[](size_t i) const { return i < count_ ? words_[i] : std::string_view(); }

  private:
    std::array<std::string_view, words_max> words_;
    size_t count_ = 0;
};

class StatWriter {
  public:
    using Emit = FunctionRef<void(std::string_view name, std::string_view value)>;
    explicit StatWriter(Emit emit) : emit_(emit) {}

    void text(std::string_view name, std::string_view value) { emit_(name, value); }
    // One line, also of a text from a node; nothing if it is empty.
    void shown(std::string_view name, std::string text);
    void number(std::string_view name, uint64_t value);
    void numbers(const auto& rows, const auto& from, const std::string& prefix = "") {
        for (const auto& row : rows) number(prefix + std::string(row.name), row.of(from));
    }
    void time(std::string_view name, int64_t seconds, int64_t microseconds);
    // <prefix><id>:<name>
    void of_class(std::string_view prefix, uint64_t id, std::string_view name, uint64_t value);

  private:
    Emit emit_;
};

struct GeneralOptions {
    uint64_t max_connections = 1024;
    bool maxconns_fast = true;       // shows rejected_connections
    bool idle_timeout = false;       // shows idle_kicks
    bool tls_sessions = false;       // shows ssl_new_sessions
    std::string_view own_version;    // own stat, behind memcached's
    bool nodes = false;              // nodes are configured: shows nodes_unavailable
};

void write_general(StatWriter out, const Sample& sample, const GeneralOptions& options);
void write_items(StatWriter out, const Sample& sample, bool temporary_lru);
void write_slabs(StatWriter out, const Sample& sample);
// Numbers of items by size, rounded up to 32 bytes: walks the whole cache.
void write_sizes(StatWriter out, node::Node& node, NodeSeconds now);
void write_connections(StatWriter out, const ServerView& server);
// Our own: ways of GETs, reasons of session ends, the node's memory, and requests to nodes.
void write_proxy(StatWriter out, const Sample& sample);

// Latencies of requests by the way of their answers; and the list of slow ones.
void write_latency(StatWriter out, const LatencyTotals& latency, bool nodes);
// Of each segment: its number, 0 if it is free, and the bytes of its records that are still needed. nullptr: no lines.
void write_segments(StatWriter out, const node::DiskStore* disk);

void write_slow(StatWriter out, const ServerView& server);
// The most frequent keys by the way of their answers: daemon/stats/hot_keys.cc.
void write_hot_keys(StatWriter out, ServerView& server);
void reset_hot_keys(ServerView& server);

// ---- of nodes --------------------------------------------------------------------------------------------
// Connections and requests of each node, as "node:name".
void write_nodes(StatWriter out, const Sample& sample);
// Sums over nodes, then each node's numbers, as "node:name"; counters since the last reset. `nodes`: those that answered.
void write_leases(StatWriter out, const Sample& sample, const std::vector<NodeNumbers>& nodes,
                  std::string_view told);
// A key's node, and why. nullptr: items are in this process.
void write_route(StatWriter out, std::string_view key, const Route* route);
void write_pointers(StatWriter out, const proxy::PointerTable::Occupancy& s);
// The counters of all nodes together, in stats proxy.
void write_links(StatWriter& out, const Sample& sample);

// SettingsTable: the rows of `stats settings`, in order. Created from the configuration at the start, and updated by the
// commands that change a setting at run time.
//
// Settings in use elsewhere (the crawler's pace, the memory limit) have a copy here. memcached's settings without a use in this
// server exist only here. Any thread may call.

struct Setting {
    std::string name, value;
};

class SettingsTable {
  public:
    explicit SettingsTable(std::vector<Setting> settings) : settings_(std::move(settings)) {}

    // Changes a setting of the table; ignores an unknown name.
    void set(std::string_view name, std::string_view value) {
        std::lock_guard held(lock_);
        for (Setting& setting : settings_)
            if (setting.name == name) setting.value = value;
    }
    // Empty if there is no such setting.
    std::string get(std::string_view name) const {
        std::lock_guard held(lock_);
        for (const Setting& setting : settings_)
            if (setting.name == name) return setting.value;
        return {};
    }
    void each(FunctionRef<void(std::string_view name, std::string_view value)> visit) const {
        std::lock_guard held(lock_);
        for (const Setting& setting : settings_) visit(setting.name, setting.value);
    }

  private:
    mutable std::mutex lock_;
    std::vector<Setting> settings_;
};

}  // namespace farcached::daemon
