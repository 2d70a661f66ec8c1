// SPDX-License-Identifier: BSD-3-Clause
// simulate_rnic: an RDMA network interface that sends, event by event, after "Toward Scalable RDMA Through Resource
// Prefetching" (Ma et al.). Pure: no clock, no input or output; the same arguments give the same result.
//
//     doorbell -> scheduling queue -> a free fetch unit: QPC, WQE, MPT, MTT, each by PCIe unless cached -> chunk -> payload by
//     PCIe -> pipeline -> link
//                     |                                                            |
//                     +-- prefetch queue: the same queue pairs, `window` ahead     +-> back into both queues, if work is left
//
// N1  A fetch unit holds one chunk of one queue pair, from the scheduling queue until the chunk left the pipeline.
// N2  A queue pair is back in the queues when its chunk is made, before that is sent.
// N3  A resource that is under way is fetched once; those who need it wait for that fetch.
// N4  Hits and misses are counted for fetch units, not for the prefetcher.
// W1  A worker's tick rings each of the touched queue pairs once, one after the other in RingOrder. The next tick begins
//     `between_ns` after all of their messages are completed.
#pragma once

#include <cstdint>

#include "bench/rnic/resource.h"

namespace farcached::bench {

struct RnicDevice {
    double link_gbps = 100;
    double pcie_gbps = 128;
    double pcie_round_trip_ns = 500;
    double pipeline_mops = 70;
    PerResource<uint32_t> cache_entries = {2048, 2048, 2048, 2048};
    PerResource<uint32_t> fetch_bytes = {256, 64, 64, 64};  // of one entry; a work queue element is one
    uint32_t chunk = 1;        // messages of one queue pair at a time
    uint32_t fetch_units = 1;  // chunks whose resources are fetched at once
    uint32_t packet_bytes = 98;  // of a RoCEv2 packet beside its data, with preamble and gap
    double wire_ns = 0;          // one way, beside the time of the bytes
};

// Software's order of doorbells.
enum class RingOrder : uint8_t {
    cyclic,       // by number
    random,       // of queue pairs and regions
    alternating,  // by number, each tick in the other direction; with workers
    recent,       // the one that was rung last comes first; with workers
};

struct RnicWorkload {
    uint32_t queue_pairs = 1;
    uint32_t active = 0;         // queue pairs with work at once; 0: all
    uint32_t post_messages = 1;  // WRITEs of one doorbell
    uint32_t message_bytes = 64;
    uint32_t regions = 0;  // memory regions used one after the other; 0: one for each queue pair
    RingOrder order = RingOrder::cyclic;
    // Beyond 0: so many workers share the queue pairs evenly (W1). Else an idle queue pair follows each completion.
    uint32_t workers = 0;
    uint32_t touched = 0;   // queue pairs of a worker's tick, at random; 0: all
    double between_ns = 0;  // a worker's mean time between its ticks, uniform from 0 to twice that
    double prepare_ns = 0;  // software's time from the decision to post until the doorbell
    // A stream: messages that never run out, each of a random queue pair, as a busy server receives and answers them. It has
    // neither doorbells nor posts, and a chunk is one message.
    bool stream = false;
    PerResource<bool> needed = {true, true, true, true};
    uint32_t pages = 0;  // at random; 0: one for each region
    uint64_t items = 0;  // beyond 0: a message is of an item, by Zipf, and its page is that of the item
    double skew = 0;
    uint32_t items_per_page = 1;
    uint32_t prefill = 0;  // messages whose resources are in the caches before the start
    uint64_t seed = 1;
    uint32_t warmup_chunks = 0, chunks = 1000;  // counted after the warm-up
};

enum class PrefetchKind : uint8_t {
    none,
    csrna,      // scheduled, but contexts only
    scheduled,  // the whole chain of queue pairs that the scheduling queue is about to reach
    software,   // the context, before software builds the work queue elements, while fewer queue pairs than the window work
};

struct Prefetching {
    PrefetchKind kind = PrefetchKind::none;
    uint32_t window = 0;  // queue pairs
};

struct RnicResult {
    double mops = 0;             // messages
    double latency_ns = 0;       // mean, from the decision to post until software sees the completion
    double pipeline_share = 0;   // of the time, busy
    double pcie_share = 0;       // of the time, busy with data for the device
    PerResource<double> hit_ratios{};
};

RnicResult simulate_rnic(const RnicDevice& device, const RnicWorkload& workload, const Prefetching& prefetching);

}  // namespace farcached::bench
