// SPDX-License-Identifier: BSD-3-Clause
// Sample: every number that `stats` prints, at one moment, summed over workers; and the arithmetic of `stats reset`.
//
// Counters never fall. A reset keeps a sample, and later ones are shown minus that one; gauges are shown as they are.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "daemon/stats/embedded.h"
#include "daemon/stats/latency.h"
#include "daemon/stats/node_numbers.h"
#include "daemon/stats/nodes_view.h"
#include "daemon/stats/server_view.h"
#include "daemon/stats/watch_hub.h"
#include "daemon/stats/worker_counters.h"
#include "node/store/node.h"
#include "proxy/link_counters.h"
#include "proxy/local_get.h"

namespace farcached::daemon {

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
    node::ClassStats node_classes;    // counters of classes, summed over them
    std::vector<NodeTotals> nodes;    // as configured
    NodeTotals past_nodes;          // of removed nodes
    uint64_t nodes_unavailable = 0;   // nodes that did not answer
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
