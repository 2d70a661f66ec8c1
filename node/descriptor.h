// SPDX-License-Identifier: BSD-3-Clause
// Descriptor: what the node keeps of an item beside its bytes, and Ref, the slot that both have in common.
// Touched under the lock of the partition that owns the slot's page.
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
    pending,  // dead, and not reused before its lease has ended (S2)
};

enum DescriptorFlag : uint8_t {
    item_fetched = 1,     // read at least once
    item_stale = 2,       // meta: X
    item_win_sent = 4,    // meta: a recache token is out
    item_referenced = 8,  // read since the clock's hand passed
    item_lease_wasted = 16,  // lease_end is that of the item replaced: none is granted before (S8)
};

// Everything about an item that changes after it was published. Never readable from outside.
struct Descriptor {
    Ref prev, next;         // the policy's; next also links free slots
    uint32_t exptime;       // the true one
    uint32_t last_access;   // NodeSeconds
    uint32_t lease_end;     // NodeSeconds, grace included; 0: never leased. With leases off the policy's (Mq)
    uint16_t access_count;  // touches after the first; saturating. Policies may let it age
    SlotState state : 4;
    uint8_t queue : 4;      // the policy's: in which of its lists it is
    uint8_t flags : 5;      // DescriptorFlag
    uint8_t lease_halvings : 3;  // of its terms: how often one like it died under its lease (Partition::note_outlived)
};
static_assert(sizeof(Descriptor) == 24);

// Not for Mq's items, which are never leased.
inline bool lease_runs(const Descriptor& item, NodeSeconds now) {
    return item.lease_end >= now && item.lease_end != 0 && (item.flags & item_lease_wasted) == 0;
}

// Those of all slots there are, by slot. As valid as the memory they lie in, which is not its own.
class Descriptors {
  public:
    explicit Descriptors(Descriptor* first) : first_(first) {}
    Descriptor& operator[](Ref ref) const { return first_[ref]; }

  private:
    Descriptor* first_;
};

}  // namespace farcached::node
