// SPDX-License-Identifier: BSD-3-Clause
// LeaseZone: moves a partition's items into the lease zone, and makes room for them there.
//
// Owner: a Partition, under its lock.
//
// Z1  Only items of the zone are leased (node/page_pool.h, P2). So all other pages stay free of leases (S8).
// Z2  A moved item is a new generation of the same bytes. A hidden or expired item is not moved: no earlier flush would hide it
//     (S11).
// Z3  Its cost is bounded (node/draining.h, D3): one search per second for each class.
#pragma once

#include <array>
#include <cstdint>

#include "fabric/region.h"
#include "node/arena.h"
#include "node/items.h"
#include "node/room.h"

namespace farcached::node {

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
    void move_item(Index::Place from, Ref to, NodeSeconds now);
    uint64_t coldest_page(uint8_t except, double heat, NodeSeconds now, Ref keep);
    bool free_page(uint8_t to, NodeSeconds now, Ref keep);

    Room* room_ = nullptr;
    uint64_t cursor_ = 0;                              // in the zone's pages
    std::array<NodeSeconds, class_numbers> sought_{};  // last search for a page to empty
};

}  // namespace farcached::node
