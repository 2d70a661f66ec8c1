// SPDX-License-Identifier: BSD-3-Clause
// Room: finds a slot for a new item, and evicts items or empties pages for it.
//
// Owner: a Partition, under its lock. It empties pages of its own partition only; Node::Impl::reserve() empties those of others.
//
// A1  It tries in this order: a free slot of the class; a page of the pool; a reserved page; a free slot of the lease zone.
//     Then: an expired item among the next to go; a page of a class with much older items; the policy's victim; any page.
// A2  No item under a lease, held, or in a page that drains is evicted for room (S2, S8), nor is the item `keep`.
#pragma once

#include <array>
#include <cstdint>

#include "fabric/region.h"
#include "node/memory/arena.h"
#include "node/store/draining.h"
#include "node/store/eviction_order.h"
#include "node/store/items.h"
#include "node/store/leases.h"
#include "node/store/slots.h"
#include "node/store/spill.h"

namespace farcached::node {

// Pages taken from the pool without any partition's lock, for the next allocate().
struct Reservation {
    uint64_t first = 0;
    uint64_t pages = 0;  // 0: none
    // Not to be evicted to make room: the item that the new one is made from.
    uint64_t keep_first = 0, keep_pages = 0;

    bool spares(uint64_t window_first, uint64_t window_pages) const {
        return window_first + window_pages <= keep_first || keep_first + keep_pages <= window_first;
    }
};

class Room : private PartsOfRoom {
  public:
    void attach(const PartsOfRoom& parts, Spill& spill) {
        PartsOfRoom::operator=(parts);
        spill_ = &spill;
    }

    // A free slot for that many bytes. nil: the caller reserves `need_pages` (without this lock) and tries again; 0: no memory
    // (-M).
    Ref allocate(uint64_t bytes, NodeSeconds now, Ref keep, Reservation& reserved, uint64_t& need_pages);
    bool evict_one(uint8_t size_class, NodeSeconds now, Ref keep);
    // Evicts an old item of another node (protocol/spilled.h), of that class if it has one, or moves it to the disk. False: none.
    bool evict_foreign(uint8_t size_class, NodeSeconds now);
    // Empties the drained pages that the class may have.
    void settle_drains(uint8_t size_class, NodeSeconds now, Ref keep);
    // Removes every item of a page of this partition; the page returns to the pool.
    void empty_page(uint64_t page, Ref keep, NodeSeconds now);
    // The same for another class's sake.
    void move_out(uint64_t page, Ref keep, NodeSeconds now) {
        empty_page(page, keep, now);
        pages_moved_++;
    }
    // The loss if a page is emptied: share in use, weighted by recency, 0 to 1; a stub counts as its value. For a page of a
    // large item: times the item's pages, and `end` is behind its last page. Infinite: a slot is held.
    double page_heat(uint64_t page, NodeSeconds now, uint64_t& end);
    void add_stats(Stats& sum) const { sum.pages_moved += pages_moved_; }

  private:
    static constexpr uint32_t reclaim_tries = 4;
    static constexpr uint64_t balance_every = 16;  // evictions between looks at the other classes

    Ref allocate_run(uint64_t bytes, Reservation& reserved, uint64_t& need_pages);
    bool reclaim_tail(uint8_t size_class, NodeSeconds now, Ref keep);
    uint8_t coldest_class(uint8_t except, NodeSeconds now, uint32_t& age);
    bool should_move_page(uint8_t to, NodeSeconds now);
    bool move_page(uint8_t to, NodeSeconds now, Ref keep);

    Spill* spill_ = nullptr;
    uint64_t pages_moved_ = 0;
};

// LeaseZone: moves a partition's items into the lease zone, and makes room for them there.
//
// Owner: a Partition, under its lock.
//
// Z1  Only items of the zone are leased (node/memory/page_pool.h, P2). So all other pages stay free of leases (S8).
// Z2  A moved item is a new generation of the same bytes. A hidden or expired item is not moved: no earlier flush would hide it
//     (S11).
// Z3  Its cost is bounded (node/store/draining.h, D3): one search per second for each class.
class LeaseZone : private PartsOfRoom {
  public:
    void attach(const PartsOfRoom& parts, Room& room) {
        PartsOfRoom::operator=(parts);
        room_ = &room;
    }

    // Moves the item of `at` into the zone, and changes `at`. False: no room.
    bool move_here(Index::Place& at, NodeSeconds now);

  private:
    Ref take_slot(uint8_t size_class, NodeSeconds now, Ref keep);
    Ref take_run_like(Ref like);
    bool make_room(uint8_t size_class, NodeSeconds now, Ref keep);
    uint64_t coldest_page(uint8_t except, double heat, NodeSeconds now, Ref keep);
    bool free_page(uint8_t to, NodeSeconds now, Ref keep);

    Room* room_ = nullptr;
    uint64_t cursor_ = 0;                              // in the zone's pages
    std::array<NodeSeconds, class_numbers> sought_{};  // last search for a page to empty
};

}  // namespace farcached::node
