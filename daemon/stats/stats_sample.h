// SPDX-License-Identifier: BSD-3-Clause
// Sample: every number that `stats` prints, at one moment, summed over workers; and the arithmetic of `stats reset`.
//
// Counters never fall. A reset keeps a sample, and later ones are shown minus that one; gauges are shown as they are.
//
// Owner: of a Sample its holder, a value; of Embedded main. Threads: any may call take_sample(); the rest is pure.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "base/node_clock.h"
#include "daemon/stats/latency.h"
#include "daemon/stats/server_view.h"
#include "daemon/stats/watch_hub.h"
#include "daemon/stats/worker_counters.h"
#include "node/disk/disk_store.h"
#include "node/store/crawler.h"
#include "node/store/node.h"
#include "proxy/link_counters.h"
#include "proxy/local_get.h"

namespace farcached::daemon {

// Embedded: the node in this process, and its search for expired items. In front of nodes a process has neither.
struct Embedded {
    // Throws as node::Node and node::Crawler do.
    Embedded(const node::Config& config, const node::CrawlerOptions& crawls, std::function<NodeSeconds()> clock)
        : node(config), crawler(node, std::move(clock), crawls) {}

    node::Node node;
    node::Crawler crawler;
};

// NodeNumbers: the nodes' statistics, parsed from their texts by the tables that wrote them (node/service/node_stats.h), and
// added up. Pure. The texts are untrusted: a line with an unknown name, or without a number, is ignored (S10).
//
// The nodes' answers (`told`, everywhere) are the value of a StatsReply; daemon/engine/links.h has its format.

// Visits each node of `told`, with its text unless it did not answer.
void each_told(std::string_view told,
               FunctionRef<void(std::string_view node, std::optional<std::string_view> text)> visit);
// Visits each line of a node's text. Neither name nor value has a byte that could end a line or a word for a client.
void each_line(std::string_view text, FunctionRef<void(std::string_view name, std::string_view value)> visit);

struct NodeNumbers {
    std::string name;
    uint64_t incarnation = 0;       // 0: missing
    node::Stats stats;              // classes: 64 of them
    node::ClassStats all_classes;   // counters of classes, summed over them
    uint64_t uptime_s = 0;
    uint64_t gets_asked = 0, hits_asked = 0;  // two-sided ones, of every proxy
};

// Of each node that answered. From the group `all`; `general` leaves classes empty, `leases` all but leases.
std::vector<NodeNumbers> read_numbers(std::string_view told);

// The value of a name of node::lease_rows; none for other names.
std::optional<uint64_t> lease_number(const node::Stats& stats, std::string_view name);

// Sums over nodes; ages are the highest. False: its size classes differ from those of `sum`, and were omitted.
bool add_numbers(node::Stats& sum, node::ClassStats& all_classes, const NodeNumbers& one);

// ---- resets: counters of `now` minus those of `earlier`, gauges as they are ---------------------------------
void subtract(node::Stats& now, const node::Stats& earlier);
void subtract(node::ClassStats& now, const node::ClassStats& earlier);
void add_counters(node::ClassStats& sum, const node::ClassStats& one);

using WorkerTotals = WorkerCells<uint64_t>;
using ClassTotals = ClassCells<uint64_t>;
using LocalTotals = proxy::LocalGetCells<uint64_t>;

struct LinkTotals : proxy::LinkCells<uint64_t> {
    fabric::ChannelCells<uint64_t> channel;
};

// This process's counters of one node.
struct NodeTotals {
    NodeShown shown;  // at that moment
    LinkTotals link;
    LocalTotals local;
};

struct Sample {
    NodeSeconds now = 0;
    int64_t started_unix = 0;
    uint32_t workers_running = 0;
    uint32_t workers_on_ring = 0;
    WorkerTotals workers;
    std::array<ClassTotals, 64> classes;   // by 1-based class; 0: requests without a class
    LocalTotals local;
    LatencyTotals latency;
    ServerNumbers server;
    node::Stats node;                 // of the embedded node, or sums over nodes
    std::optional<node::DiskStatistics> disk;  // of the embedded node's, if it has one
    node::ClassStats node_classes;    // counters of classes, summed over them
    std::vector<NodeTotals> nodes;    // as configured
    NodeTotals past_nodes;          // of removed nodes
    uint64_t nodes_unavailable = 0;   // nodes that did not answer
    uint64_t replica_search_left = 0;  // as NodesView::replica_search_left()
    uint64_t nodes_left_out = 0;      // of node.classes: nodes with other size classes
    WatchNumbers watch;
    uint64_t log_lines_lost = 0;  // process/log.h
    uint64_t crawler_passes = 0;
    bool crawler_running = false;
    std::vector<std::pair<std::string, uint64_t>> close_reasons;

    ClassTotals all_classes() const;
    LinkTotals all_links() const;
};

// Counters of this process, and of the embedded node unless the server has other nodes.
Sample take_sample(const Embedded* embedded, const ServerView& server, const WatchHub& watch);

// Counters of `sample` minus those of `earlier`; a default Sample changes nothing.
void subtract(Sample& sample, const Sample& earlier);

// Adds the nodes' own statistics, at most each of `nodes` once.
void add_nodes(Sample& sample, const std::vector<NodeNumbers>& nodes);

}  // namespace farcached::daemon
