// SPDX-License-Identifier: BSD-3-Clause
// Spill: moves the values of items that are about to be evicted to a tier (node/store/tiers.h). What stays in memory is a stub
// (node/items/stub.h).
//
// Owner: a Partition, under its lock.
//
// X1  Only an item that Room has chosen to evict, or a sweep found idle, moves. Without a buffer of the tier, or without a slot
//     for its stub, the former is evicted, and the latter stays: nothing waits for a tier.
// X2  The value's bytes are in a buffer, and the item's guard is dead, before the stub lives (S7, S15).
// X3  A stub is a new generation of the same item: cas, expiry, flags and history stay. A hidden or expired item does not move:
//     no earlier flush would hide its stub (S11).
// X4  Slots for stubs come from free slots, from lost stubs, and from whole pages of the class that evicts: as many of its next
//     victims move as such a page has items. The page's other items take their slots. Stubs get at most half of the
//     partition's pages so. Then the oldest stub is evicted for the next.
// X5  The item `keep`, which the caller is about to replace, neither moves nor dies, and no other item moves in the index.
// X6  With drop_unread, a value that was never read moves only if its key's last one was dropped for that reason: a look-aside
//     cache stores again what a get missed. As many such keys are remembered as there are items, stubs included.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "node/items/stub.h"
#include "node/policy/policy.h"
#include "node/store/draining.h"
#include "node/store/eviction_order.h"
#include "node/store/items.h"
#include "node/store/leases.h"
#include "node/store/node.h"
#include "node/store/slots.h"
#include "node/store/tiers.h"

namespace farcached::node {

// What Spill, Room and LeaseZone use; the parts outlive them.
struct PartsOfRoom {
    fabric::Region* region_ = nullptr;
    Arena* arena_ = nullptr;
    Slots* slots_ = nullptr;
    EvictionOrder* order_ = nullptr;
    Leases* leases_ = nullptr;
    Draining* draining_ = nullptr;
    Items* items_ = nullptr;
    bool evict_ = true;

    // Room's A2.
    bool may_go(Ref ref, NodeSeconds now) const {
        return !leases_->runs(ref, now) && !draining_->drains(ref) && !held(*arena_, ref);
    }
    // The same bytes as a new generation in that slot. The read counter stays with the old slot, so it is read first.
    void move_item(Index::Place from, Ref to, NodeSeconds now);
};

class Spill : private PartsOfRoom {
  public:
    // rules: borrowed.
    // private_seed: see Ghosts.
    void attach(const PartsOfRoom& parts, const Tiers& tiers, const SpillRules* rules, uint64_t private_seed);

    // Instead of the eviction of `ref`, unless it is false.
    bool take(Ref ref, Ref keep, NodeSeconds now);
    // The same, while the item's page is being emptied: it takes no other page for it.
    bool take_from_page(Ref ref, Ref keep, NodeSeconds now);
    // For sweeps: if the item was not read for SpillRules::idle_s, and there is room.
    void take_idle(Ref ref, NodeSeconds now);

  private:
    // An item without its slot: its value is in a tier.
    struct Moved {
        std::string key;
        Stub stub;
        uint64_t cas;
        uint32_t flags;
        NodeSeconds exptime, last_access;
        uint16_t format, access_count;
        uint8_t descriptor_flags, left_class;
    };

    bool moves(Ref ref, NodeSeconds now);
    bool may_move(Ref ref, NodeSeconds now) const;
    bool was_read(Ref ref) const;
    bool returned(Ref ref);
    uint8_t stub_class(Ref ref) const;
    Ref slot_for_stub(uint8_t size_class, Ref keep, NodeSeconds now);
    Ref slot_of_oldest(uint8_t size_class, Ref keep, NodeSeconds now);
    bool has_share() const;
    std::optional<Place> put(Ref ref);
    bool replace(Ref ref, Ref to, NodeSeconds now);
    bool free_page(Ref victim, Ref keep, NodeSeconds now);
    void next_to_move(Ref victim, Ref keep, NodeSeconds now, std::vector<Ref>& here, std::vector<Ref>& elsewhere);
    void leave(Ref ref, std::vector<Moved>& moved, NodeSeconds now);
    void insert(const Moved& item, Ref keep, NodeSeconds now);

    Tiers tiers_;
    const SpillRules* rules_ = nullptr;
    Ghosts dropped_;  // keys whose values were dropped unread (X6)
};

}  // namespace farcached::node
