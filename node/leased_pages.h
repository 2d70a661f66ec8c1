// SPDX-License-Identifier: BSD-3-Clause
// LeasedPages: the pages of a partition that leases may run in. LeasedBytes: the bytes under leases, by the second of their end.
//
// Owner: Leases, under the partition's lock.
//
// L1  A page is listed while a lease in it runs, so that a flush finds every leased item (S11). A run of pages counts as one, at
//     its head. Page::listed is set for exactly the pages that were added and not removed.
// L2  The list may also have pages that left the partition, or that have no lease any more; they go when the list has grown.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "node/arena.h"
#include "node/dead_slots.h"
#include "node/item_list.h"
#include "node/node.h"

namespace farcached::node {

class LeasedPages {
  public:
    void attach(Arena& arena, uint16_t partition) {
        arena_ = &arena;
        partition_ = partition;
    }

    // Reserves an entry, before any change that leads to add(). False: no memory.
    bool can_add() noexcept;
    // After can_add(): a lease in the page ends then.
    void add(uint64_t page, uint32_t lease_end, NodeSeconds now);
    // The page left the partition, or its leased items are being removed.
    void remove(uint64_t page);
    bool leases_run_in(uint64_t page, NodeSeconds now) const {
        const uint32_t lease_end = arena_->page(page).lease_end;
        return lease_end != 0 && lease_end >= now;
    }
    // Empties the list. Its pages stay marked as listed, until remove().
    std::vector<uint32_t> take_all() { return std::exchange(pages_, {}); }
    const std::vector<uint32_t>& all() const { return pages_; }
    uint64_t listed(uint8_t size_class) const { return listed_[size_class]; }

  private:
    static constexpr size_t compact_at_min = 64;
    void compact(NodeSeconds now);

    Arena* arena_ = nullptr;
    uint16_t partition_ = 0;
    std::vector<uint32_t> pages_;
    size_t compact_at_ = compact_at_min;
    std::array<uint64_t, class_numbers> listed_{};
};

class LeasedBytes {
  public:
    void attach() { ending_.resize(lease_seconds_max); }

    // capacity: of the slot; filled: of the item.
    void add(uint32_t lease_end, uint64_t capacity, uint64_t filled);
    void remove(uint32_t lease_end, uint64_t capacity, uint64_t filled);
    uint64_t sum(NodeSeconds now) const;
    void add_stats(LeaseStats& stats, NodeSeconds now) const;

  private:
    // Bytes of the slots of live items whose leases end in a second, and of these items; past seconds are overwritten.
    struct Ending {
        uint32_t second = 0;
        uint64_t bytes = 0, filled = 0;
    };
    std::vector<Ending> ending_;  // by second, modulo lease_seconds_max
};

}  // namespace farcached::node
