// SPDX-License-Identifier: BSD-3-Clause
// One point of `farbench hitratio`: clients on a few hosts that use one node as a cache, in one thread and in virtual
// time.
//
// The node, its policy, its leases and the hosts' reports are the daemons' own code (node/store/node.h, proxy/arc.h) under an
// injected clock. The connection between them is a model. The table of remote pointers shared by a host's clients is
// unlimited (proxy/pointer_table.h has a fixed number of entries). A READ takes no time, so it falls before or after a
// mutation, never within one. A report arrives when it is sent.
//
// Threads: several may simulate at once; their points share nothing that changes.
//
// V1  The time of an operation is its number divided by the rate; leases and reports use that clock only.
// V2  The same point, scale and seed give the same numbers.
// V3  A pointer is used while its lease runs by its host's clock (S3). The daemons' own validation judges a READ
//     (fabric/validate.h), and decides whether the pointer is kept after an invalid one (S4).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/limits.h"
#include "bench/hitratio/workload.h"
#include "node/store/node.h"
#include "proxy/access_notes.h"

namespace farcached::bench {

struct Contestant {
    std::string_view name;
    bool leases;   // GETs use remote pointers
    bool reports;  // hosts report their reads
    void (*configure)(node::Config& config);
};

// In display order.
std::span<const Contestant> contestants();

// The configuration of a contestant's node; other settings as given.
node::Config policy_config(const Contestant& contestant, node::Config config);

// Common to all points of a run.
struct SimScale {
    uint32_t keys = 160'000;
    uint32_t value_bytes = 1024;
    double theta = 0.99;
    uint64_t warmup = 800'000;        // operations before the counted ones
    uint64_t operations = 1'600'000;  // counted
    uint32_t rate = 2000;             // operations per second of all clients together
    uint32_t clients = 36;
    uint32_t hosts = 3;               // at most the number of clients
    uint32_t report_interval_s = 10;
    uint32_t report_bytes = proxy::AccessNotes::report_bytes_max;     // of a host's report, at most
    uint32_t history_items = limits::report_items_default;  // items whose reads a host remembers
    uint32_t shift_s = 120;           // between shifts of the shifting workload
    uint32_t partitions = 1;          // of the node; a power of two
    bool load = false;                // store and get each key once at first, in random order
    bool flush = false;               // flush_all after the warmup; then other keys with the same popularity
    double dead_share = node::LeaseConfig().dead_share;
    uint64_t seed = 1;
};

struct SimPoint {
    const WorkloadKind* workload;
    double cache_ratio;  // memory for items, relative to the bytes of all keys and values
    const Contestant* contestant;
};

// Of the counted operations.
struct SimResult {
    double total_hit_ratio = 0;    // of GETs
    double bound_hit_ratio = 0;    // of perfect knowledge of the popularities, in that memory
    double pointer_hit_ratio = 0;  // GETs answered by a valid one-sided read
    uint64_t gets = 0;
    uint64_t pointer_hits = 0;
    uint64_t twosided_hits = 0;    // hits answered by the node
    uint64_t invalid_reads = 0;
    double leased_share = 0;       // of the memory, kept for leases of live and dead items; mean over time
    uint64_t evictions = 0;
    uint64_t sets_refused = 0;
    uint64_t leases_without_room = 0;  // not granted, because the lease zone was full, or
    uint64_t leases_after_set = 0;     // because an item died under its lease and this one replaced it (S8)
    double report_bytes_per_s = 0;
    uint64_t report_items = 0;
    uint64_t items_max = 0;        // that fit in memory
};

// Of all keys and values.
double data_bytes(const SimScale& scale);
// Number of items that fit into a node with that memory.
uint64_t items_in(const SimScale& scale, uint64_t memory_bytes);

SimResult simulate(const SimScale& scale, const Popularity& popularity, const SimPoint& point);

}  // namespace farcached::bench
