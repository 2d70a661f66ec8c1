// SPDX-License-Identifier: BSD-3-Clause
// HeldSlots: the slots of a partition whose bytes are used without the partition's lock: by replies that are being sent (pins),
// and by uploads.
//
// Owner: a Partition, under its lock.
// H1  A held slot is not reused, even if its item dies (S2), and no byte of a value being sent changes (S1).
// H2  Descriptor::held is set for exactly these slots, and Page::held counts them.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "base/check.h"
#include "node/arena.h"

namespace farcached::node {

class HeldSlots {
  public:
    // True: first hold of this slot. Throws std::bad_alloc without effect.
    bool hold(Arena& arena, Ref ref) {
        if (++holders_[ref] != 1) return false;
        arena.descriptor(ref).held = 1;
        arena.page(page_of(ref)).held++;
        return true;
    }
    // True: the last hold ended.
    bool let_go(Arena& arena, Ref ref) {
        const auto at = holders_.find(ref);
        CHECK(at != holders_.end());
        if (--at->second != 0) return false;
        holders_.erase(at);
        arena.descriptor(ref).held = 0;
        CHECK(arena.page(page_of(ref)).held > 0);
        arena.page(page_of(ref)).held--;
        return true;
    }

  private:
    std::unordered_map<Ref, uint32_t> holders_;
};

}  // namespace farcached::node
