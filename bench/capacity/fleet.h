// SPDX-License-Identifier: BSD-3-Clause
// assess(): what a fleet of farcached in front of farnodes over RDMA reaches with a device, and what limits it. Counts come
// from the program's own constants, rates from the model of bench/rnic/. Pure; the same arguments give the same result.
//
// A request loads stations: CPU, device and link of its proxy and of its node. The busiest node has its part of all keys, and
// the most popular key in addition. The station with the most work for a request limits the fleet.
//
// C1  A limit is where the station has no idle time. No queueing is modelled: latencies are of an idle fleet.
// C2  Two kinds of traffic of one device use the model one after the other, each with the caches for itself.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/capacity/device_file.h"
#include "bench/rnic/resource.h"
#include "bench/rnic/rpc_costs.h"

namespace farcached::bench {

struct Fleet {
    uint32_t proxies = 1, workers = 1, nodes = 1;
    uint32_t node_threads = 4;
    uint64_t memory_bytes = 0;  // of each node, for items
    uint64_t page_bytes = 4096;
    double get_share = 0.95, one_sided_share = 0.97;
    uint32_t key_bytes = 20, value_bytes = 100;
    double skew = 0.99;           // of the keys' popularity
    double proxy_cpu_us = 1.2;    // of a request
    double node_cpu_us = 1;       // of a two-sided request
    uint32_t fetch_bytes = 512;   // rfp: of the first READ
    uint32_t links_per_node = 0;  // of a proxy; 0: one for each worker
    uint64_t seed = 1;
};

// Where a figure is assumed: its value, or the end of its range that is worse or better for throughput.
enum class Assumption : uint8_t { value, worst, best };

struct FleetCounts {
    uint32_t node_queue_pairs = 0, proxy_queue_pairs = 0;
    uint64_t node_locked_bytes = 0, proxy_locked_bytes = 0;
    uint64_t node_translations = 0;  // entries of the translation table
    uint64_t node_regions = 0;
    uint64_t items = 0;              // that fit into a node
    uint32_t items_per_page = 1;     // whole or in part
    double busiest_share = 1;        // of all requests, at the busiest node
};
FleetCounts count_fleet(const Fleet& fleet);

struct Station {
    std::string name;
    double mops = 0;  // requests of the fleet at which it has no idle time
};

struct ModeResult {
    RpcMode mode{};
    double mops = 0;  // GETs and SETs
    double set_us = 0;
    std::vector<Station> stations;  // the slowest first

    const std::string& bottleneck() const { return stations.front().name; }
};

struct FleetResult {
    FleetCounts counts;
    PerResource<double> node_hits{}, proxy_hits{};  // of READs; a work queue element is never cached
    double get_us = 0;                              // of a one-sided GET
    std::array<ModeResult, 3> modes;                // by RpcMode
};

// The figures under the assumption, in the order of DeviceFigure.
using DeviceValues = std::array<double, device_figures>;
DeviceValues values_of(const DeviceFile& device, Assumption assumption);

FleetResult assess(const Fleet& fleet, const DeviceValues& device);

// Sentences about what to change, the most useful first.
std::vector<std::string> advice(const Fleet& fleet, const DeviceFile& device, const FleetResult& result, RpcMode mode);

}  // namespace farcached::bench
