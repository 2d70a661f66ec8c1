// SPDX-License-Identifier: BSD-3-Clause
// What a Node is made of; for node/*.cc and the tests that stop writers half-way.
//
// Lock order: reserve_lock or prefix_lock, then one partition's lock, then the arena's pool. No two partitions' locks at once.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

#include "fabric/region.h"
#include "node/arena.h"
#include "node/node.h"
#include "node/partition.h"
#include "node/size_classes.h"

namespace farcached::node {

struct Node::Impl {
    explicit Impl(const Config& wanted);

    Partition& partition(uint64_t hash) {
        return partitions[layout::partition_of(hash, partition_count_log2)];
    }
    void record(std::span<const Access> accesses, NodeSeconds now);
    // Takes pages from the pool or, evicting, from partitions. Call without any partition's lock.
    bool reserve(uint64_t pages, NodeSeconds now, Reservation& reserved);
    void give_back(Reservation& reserved);
    // A store found no memory: if that can be because of leases, there are none for a while.
    void note_shortage(NodeSeconds now);

    Config config;
    mutable std::mutex lease_lock;  // held for nothing else
    LeaseConfig lease;              // under it
    uint32_t partition_count_log2;
    SizeClasses classes;
    fabric::Region region;
    Arena arena;
    const uint64_t secret;  // of the check in each item
    std::vector<Partition> partitions;  // as many as there are, for good
    std::mutex reserve_lock;
    uint64_t window_cursor = 0;  // under reserve_lock
    std::atomic<uint64_t> pages_moved{0};
    std::atomic<uint64_t> flushes{0};
    uint64_t numa_refused = 0;
    std::mutex prefix_lock;  // before a partition's: one delete by prefix at a time is noted
    std::function<void()> prefix_told;          // under prefix_lock
    std::atomic<uint64_t> prefix_last{0};       // order; written under prefix_lock, when all partitions know it
    std::atomic<uint64_t> prefix_swept{0};      // up to this order
    std::atomic<uint64_t> prefix_deletes{0};    // that were carried out

    template <class Visit>
    void each_partition(Visit&& visit) {
        for (uint32_t i = 0; i < UINT32_C(1) << partition_count_log2; i++) {
            std::lock_guard hold(partitions[i].lock);
            visit(partitions[i]);
        }
    }

  private:
    void bind_memory(MemoryBinder& binder);
    bool empty_window(uint64_t first, uint64_t pages, NodeSeconds now);
    bool choose_window(uint64_t pages, const Reservation& wanted, bool grows, NodeSeconds now, uint64_t& best);
    uint64_t run_head(uint64_t page);
    double window_heat(uint64_t first, uint64_t pages, bool grows, NodeSeconds now);
};

}  // namespace farcached::node
