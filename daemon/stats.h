// SPDX-License-Identifier: BSD-3-Clause
// The groups of `stats`, each with memcached 1.6.45's names in its order. What a number means is written in
// doc/protocol.txt of memcached; where this server has nothing like it, it is zero.
//
// One writer for text and binary: a group calls StatWriter, which hands on name and value.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/function_ref.h"
#include "daemon/stats_sample.h"

namespace farcached::daemon {

class StatWriter {
  public:
    using Emit = FunctionRef<void(std::string_view name, std::string_view value)>;
    explicit StatWriter(Emit emit) : emit_(emit) {}

    void text(std::string_view name, std::string_view value) { emit_(name, value); }
    void number(std::string_view name, uint64_t value);
    // seconds.microseconds
    void time(std::string_view name, int64_t seconds, int64_t microseconds);
    // <prefix><id>:<name>
    void of_class(std::string_view prefix, uint64_t id, std::string_view name, uint64_t value);

  private:
    Emit emit_;
};

struct GeneralOptions {
    uint64_t max_connections = 1024;
    bool maxconns_fast = true;       // rejected_connections is shown
    bool idle_timeout = false;       // idle_kicks is shown
    std::string_view own_version;    // a stat of its own, after memcached's
    bool nodes = false;              // there are others than the embedded one: nodes_unavailable is shown
};

void write_general(StatWriter out, const Sample& sample, const GeneralOptions& options);
void write_items(StatWriter out, const Sample& sample, bool temporary_lru);
void write_slabs(StatWriter out, const Sample& sample);
// How many items are of which size, rounded up to 32 bytes: walks the whole cache.
void write_sizes(StatWriter out, node::Node& node, NodeSeconds now);
void write_connections(StatWriter out, const ServerView& server);
// Our own: how GETs were answered, how sessions ended, what the node's memory does, and what was asked of nodes.
void write_proxy(StatWriter out, const Sample& sample);

// How long requests took, by the way on which they were answered; and the list of slow ones.
void write_latency(StatWriter out, const LatencyTotals& latency, bool nodes);
void write_slow(StatWriter out, const ServerView& server);
// The keys that were asked for most, by the way on which they were answered: daemon/stats_hot_keys.cc.
void write_hot_keys(StatWriter out, ServerView& server);
void reset_hot_keys(ServerView& server);

// ---- of nodes: daemon/stats_nodes.cc ------------------------------------------------------------------
// How each is connected, and what was asked of it, as "node:name".
void write_nodes(StatWriter out, const Sample& sample);
// Sums over nodes, then what each told, as "node:name"; counters since the last reset. `nodes`: those that answered.
void write_leases(StatWriter out, const Sample& sample, const std::vector<NodeNumbers>& nodes,
                  std::string_view told);
// Where a key goes, and why. nullptr: items are in this process.
void write_route(StatWriter out, std::string_view key, const Route* route);
void write_pointers(StatWriter out, const proxy::PointerTable::Occupancy& s);
// What is counted of all nodes together, in stats proxy.
void write_links(StatWriter& out, const Sample& sample);

}  // namespace farcached::daemon
