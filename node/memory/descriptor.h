// SPDX-License-Identifier: BSD-3-Clause
// Descriptor: the node's data on a slot and its item, outside the item's bytes; and Ref, the number of a slot.
// Owner: the partition that owns the slot's page, under its lock.
#pragma once

#include <cstdint>

#include "base/node_clock.h"
#include "protocol/layout.h"

namespace farcached::node {

// A slot: page << 10 | number within the page.
using Ref = uint32_t;
constexpr Ref nil = UINT32_MAX;

constexpr uint64_t page_of(Ref ref) { return ref >> 10; }
constexpr uint32_t slot_of(Ref ref) { return ref & 1023; }
constexpr Ref make_ref(uint64_t page, uint32_t slot) { return Ref(page << 10 | slot); }
static_assert(layout::page_slots_max == 1024, "a Ref counts descriptors, too");

enum class SlotState : uint8_t {
    free,
    live,
    dead,  // died under a lease: reserved for its key until the lease ends (S1, S2; node/store/leases.h)
    parted,     // died while held; the last holder frees it (node/store/slots.h)
    receiving,  // an upload writes its value here; invisible to readers
};

enum DescriptorFlag : uint8_t {
    item_fetched = 1,     // read at least once
    item_stale = 2,       // meta: X
    item_win_sent = 4,    // meta: a recache token is outstanding
    item_referenced = 8,  // read since the clock's hand passed
    item_read = 16,       // read since its last lease was granted (S8)
    item_moved = 32,      // its key moved to another node (node/store/hidden_items.h, F3)
};

// The node's data on a slot and its item, without the bytes; other processes cannot read it.
struct Descriptor {
    Ref prev, next;         // links of the policy or of DeadSlots; next also links free slots
    union {
        uint32_t exptime;   // the true expiry time
        Ref chain;          // of a dead slot: link of DeadSlots
    };
    union {
        uint32_t last_access;  // NodeSeconds
        uint32_t hash_bits;    // of a dead slot: used by DeadSlots
    };
    uint32_t lease_end;     // of the slot: NodeSeconds with grace; 0: never leased. Mq, which has no leases, uses it
    uint16_t access_count;  // touches after the first; saturating; a policy may decrease it
    SlotState state : 3;
    uint8_t held : 1;       // HeldSlots has it
    uint8_t queue : 4;      // of the policy: the list that holds the item
    uint8_t flags;          // DescriptorFlag
};
static_assert(sizeof(Descriptor) == 24);

// Not for items of Mq, which are never leased and use lease_end otherwise.
inline bool lease_runs(const Descriptor& item, NodeSeconds now) { return item.lease_end >= now && item.lease_end != 0; }

// The descriptors of all slots, by slot. Borrows their memory.
class Descriptors {
  public:
    explicit Descriptors(Descriptor* first) : first_(first) {}
    Descriptor& operator[](Ref ref) const { return first_[ref]; }

  private:
    Descriptor* first_;
};

}  // namespace farcached::node
