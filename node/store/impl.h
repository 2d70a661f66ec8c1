// SPDX-License-Identifier: BSD-3-Clause
// Node::Impl: the parts of a Node, for node/*/*.cc and for tests that stop writers midway.
//
// Owner: the Node. Threads: any, by the locks that the fields name.
//
// Lock order: reserve_lock, or CopyCloses' lock, or PrefixDeletes' lock and PrefixCounts' lock, then one partition's lock, then the
// arena's pool. No two partitions' locks at once.
#pragma once

#include <atomic>
#include <mutex>

#include "fabric/region.h"
#include "node/memory/arena.h"
#include "node/memory/memory_file.h"
#include "node/store/away_items.h"
#include "node/store/node.h"
#include "node/store/pages.h"
#include "node/store/partitions.h"
#include "node/store/prefix_deletes.h"
#include "node/store/shared_keys.h"

namespace farcached::node {

struct Node::Impl {
    explicit Impl(const Config& wanted);

    void record(std::span<const Access> accesses, NodeSeconds now);
    // Takes pages from the pool or, evicting, from partitions. Called without any partition's lock.
    bool reserve(uint64_t pages, NodeSeconds now, Reservation& reserved);
    void give_back(Reservation& reserved);
    // After a store that found no memory: stops leases for a while if leases can be the cause.
    void note_shortage(NodeSeconds now);
    // Runs `body(partition, reserved, need_pages)` under the key's partition lock until it needs no more pages. Reserves the
    // needed pages between two tries, without the lock. False: no memory.
    template <class Body>
    bool with_memory(uint64_t hash, NodeSeconds& now, Body&& body);

    Config config;
    mutable std::mutex lease_lock;  // a leaf: no other lock is taken under it
    LeaseConfig lease;              // under it
    SizeClasses classes;
    fabric::Region region;
    Arena arena;
    const uint64_t secret;  // of the check in each item
    const uint64_t seed_of_peers;
    Partitions partitions;
    std::mutex reserve_lock;
    uint64_t window_cursor = 0;  // under reserve_lock
    std::atomic<uint64_t> pages_moved{0};
    std::atomic<uint64_t> flushes{0};
    uint64_t numa_refused = 0;
    std::atomic<bool> flush_announced{false};
    AwayItems away;
    SharedKeys shared_keys;
    PrefixDeletes prefixes;
    Pages all_pages;

  private:
    void keep_in_file();
    void bind_memory(MemoryBinder& binder);
    bool empty_window(uint64_t first, uint64_t pages, NodeSeconds now);
    bool choose_window(uint64_t pages, const Reservation& wanted, bool grows, NodeSeconds now, uint64_t& best);
    uint64_t run_head(uint64_t page);
    double window_heat(uint64_t first, uint64_t pages, bool grows, NodeSeconds now);
};

template <class Body>
bool Node::Impl::with_memory(uint64_t hash, NodeSeconds& now, Body&& body) {
    constexpr uint32_t tries_max = 8;
    Reservation reserved;
    struct GiveBack {
        Node::Impl& impl;
        Reservation& reserved;
        ~GiveBack() { impl.give_back(reserved); }
    } give_back{*this, reserved};
    bool done = false;
    for (uint32_t i = 0; i < tries_max; i++) {
        uint64_t need_pages = 0;
        {
            Partition& its = partitions.of(hash);
            std::lock_guard hold(its.lock);
            now = its.latest(now);
            done = body(its, reserved, need_pages);
        }
        if (done || need_pages == 0) break;
        if (!reserve(need_pages, now, reserved)) break;
    }
    if (!done) note_shortage(now);
    return done;
}

}  // namespace farcached::node
