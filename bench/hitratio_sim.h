// SPDX-License-Identifier: BSD-3-Clause
// One point of `farbench hitratio`: clients on a few hosts that use one node as a cache, in one thread and in virtual time.
//
// The node, its policy, its leases and what the hosts report are the daemons' own code (node/node.h, proxy/arc.h) under
// an injected clock. What is modelled is what lies between: the table of remote pointers that the clients of a host share
// is one without a limit (proxy/pointer_table.h has as many entries as one gives it), a READ takes no time, and so is
// seen before or after a mutation but never in the middle of it, and a report arrives in the moment in which it is sent.
//
// V1  The time of an operation is its number divided by the rate; leases and reports go by that clock only.
// V2  The same point, scale and seed give the same numbers.
// V3  A pointer is used while its lease runs, as its host counts it (S3), and what it points at is looked at: another
//     generation there, or a dead one, is an invalid read, after which the node is asked.
#pragma once

#include <cstdint>

#include "bench/hitratio_policies.h"
#include "bench/hitratio_workload.h"
#include "proxy/access_notes.h"

namespace farcached::bench {

// What all points of a run have in common.
struct SimScale {
    uint32_t keys = 160'000;
    uint32_t value_bytes = 1024;
    double theta = 0.99;
    uint64_t warmup = 800'000;        // operations before those that are counted
    uint64_t operations = 1'600'000;  // counted
    uint32_t rate = 2000;             // operations a second, of all clients together
    uint32_t clients = 36;
    uint32_t hosts = 3;               // at most as many as clients
    uint32_t report_interval_s = 10;
    uint32_t report_bytes = proxy::AccessNotes::report_bytes_max;     // of a host's report at most
    uint32_t history_items = proxy::AccessNotes::classified_max;  // of which a host knows how it read them
    uint32_t shift_s = 120;           // from one shift of the shifting workload to the next
    uint32_t partitions = 1;          // of the node; a power of two
    double dead_share = 0;            // node/lease_terms.h
    uint64_t seed = 1;
};

struct SimPoint {
    const WorkloadKind* workload;
    double cache_ratio;  // memory for items, of all keys' and values' bytes
    const Contestant* contestant;
};

// Of the counted operations.
struct SimResult {
    double total_hit_ratio = 0;    // of GETs
    double bound_hit_ratio = 0;    // what perfect knowledge of the popularities would reach in that memory
    double pointer_hit_ratio = 0;  // GETs that a valid one-sided read answered
    uint64_t gets = 0;
    uint64_t pointer_hits = 0;
    uint64_t twosided_hits = 0;    // that the node answered
    uint64_t invalid_reads = 0;
    double leased_share = 0;       // of the memory, kept for leases: of live items and dead ones; mean over time
    uint64_t evictions = 0;
    uint64_t sets_refused = 0;
    uint64_t leases_without_room = 0;  // that were not granted, because the lease zone was full, or
    uint64_t leases_after_set = 0;     // because an item died under its lease and this one replaced it (S8)
    double report_bytes_per_s = 0;
    uint64_t report_items = 0;
    uint64_t items_max = 0;        // that fit
};

// Of all keys and values.
double data_bytes(const SimScale& scale);
// How many of the items fit into a node of so much memory.
uint64_t items_in(const SimScale& scale, uint64_t memory_bytes);

SimResult simulate(const SimScale& scale, const Popularity& popularity, const SimPoint& point);

}  // namespace farcached::bench
