// SPDX-License-Identifier: BSD-3-Clause
// Partitions: all partitions of a node (partition.h), by key and by page.
//
// Owner: Node::Impl. Threads: any.
//
// A1  Their number never changes.
// A2  No thread holds the locks of two partitions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "node/memory/arena.h"
#include "node/store/partition.h"
#include "protocol/layout.h"

namespace farcached::node {

class Partitions {
  public:
    // arena: outlives this.
    Partitions(uint32_t count_log2, Arena& arena) : arena_(arena), count_log2_(count_log2), all_(size_t(1) << count_log2) {}
    Partitions(const Partitions&) = delete;
    Partitions& operator=(const Partitions&) = delete;

    uint32_t count() const { return UINT32_C(1) << count_log2_; }
    uint32_t number_of(uint64_t hash) const { return layout::partition_of(hash, count_log2_); }
    Partition& of(uint64_t hash) { return all_[number_of(hash)]; }
    Partition& operator[](size_t number) { return all_[number]; }
    auto begin() { return all_.begin(); }
    auto end() { return all_.end(); }
    auto begin() const { return all_.begin(); }
    auto end() const { return all_.end(); }

    // Calls with each partition, under its lock.
    template <class Visit>
    void each(Visit&& visit) {
        for (Partition& partition : all_) {
            std::lock_guard hold(partition.lock);
            visit(partition);
        }
    }
    // Calls with the page's owner, under its lock, if the page has one that is still the owner then.
    template <class Visit>
    void with_owner(uint64_t page, Visit&& visit) {
        const uint16_t owner = arena_.owner_hint(page);
        if (owner == Page::no_owner) return;
        std::lock_guard hold(all_[owner].lock);
        if (arena_.owner_hint(page) == owner) visit(all_[owner]);
    }

  private:
    Arena& arena_;
    const uint32_t count_log2_;
    std::vector<Partition> all_;
};

}  // namespace farcached::node
