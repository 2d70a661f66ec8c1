// SPDX-License-Identifier: BSD-3-Clause
// Sample: every number that `stats` prints, at one moment, summed over workers; and what `stats reset` means.
//
// Counters never fall. A reset keeps the sample of its moment, and later ones are shown less that one;
// gauges are shown as they are.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "daemon/crawler.h"
#include "daemon/server_view.h"
#include "daemon/watch_hub.h"
#include "daemon/worker_counters.h"
#include "node/node.h"
#include "proxy/local_get.h"

namespace farcached::daemon {

struct WorkerTotals {
#define X(name, help) uint64_t name = 0;
    WORKER_COUNTERS(X)
#undef X
};

struct ClassTotals {
#define X(name, help) uint64_t name = 0;
    CLASS_COUNTERS(X)
#undef X
    void add(const ClassTotals& other);
};

struct LocalTotals {
#define X(name, help) uint64_t name = 0;
    LOCAL_GET_COUNTERS(X)
#undef X
};

struct Sample {
    NodeSeconds now = 0;
    int64_t started_unix = 0;
    uint32_t workers_running = 0;
    WorkerTotals workers;
    std::array<ClassTotals, 64> classes;   // by 1-based class; 0: requests that came to no class
    LocalTotals local;
    ServerNumbers server;
    node::Stats node;
    WatchNumbers watch;
    uint64_t crawler_passes = 0;
    bool crawler_running = false;
    std::vector<std::pair<std::string, uint64_t>> close_reasons;

    ClassTotals all_classes() const;
    // The sum over classes of one counter of the node's.
    uint64_t node_sum(uint64_t node::ClassStats::* counter) const;
};

Sample take_sample(const node::Node& node, const ServerView& server, const WatchHub& watch,
                   const Crawler& crawler);

// Counters of `sample` less those of `earlier`; a default Sample changes nothing.
void subtract(Sample& sample, const Sample& earlier);

}  // namespace farcached::daemon
