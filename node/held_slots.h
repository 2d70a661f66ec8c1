// SPDX-License-Identifier: BSD-3-Clause
// HeldSlots: the slots of a partition whose bytes are used without the partition's lock: by replies that are being sent (pins),
// and by uploads.
//
// Owner: a Partition, under its lock.
// H1  A held slot is not reused, even if its item dies (S2), and no byte of a value being sent changes (S1).
// H2  Descriptor::held is set for exactly these slots, and Page::held counts them. Page::pinned counts those with pins, and the
//     arena counts the bytes of their pages.
#pragma once

#include <cstdint>
#include <new>
#include <unordered_map>

#include "base/check.h"
#include "node/arena.h"

namespace farcached::node {

class HeldSlots {
  public:
    void attach(Arena& arena) { arena_ = &arena; }

    // True: first hold of this slot. Throws std::bad_alloc without effect.
    bool hold(Ref ref) {
        if (++holders_[ref] != 1) return false;
        arena_->descriptor(ref).held = 1;
        arena_->page(page_of(ref)).held++;
        return true;
    }
    // True: the last hold ended.
    bool let_go(Ref ref) {
        const auto at = holders_.find(ref);
        CHECK(at != holders_.end());
        if (--at->second != 0) return false;
        holders_.erase(at);
        arena_->descriptor(ref).held = 0;
        CHECK(arena_->page(page_of(ref)).held > 0);
        arena_->page(page_of(ref)).held--;
        return true;
    }

    // Holds the slot of a live item for a reply. False: replies have pinned half of the memory limit, or memory for the hold is
    // short.
    bool pin(Ref ref) {
        CHECK(arena_->descriptor(ref).state == SlotState::live);
        Page& page = arena_->page(page_of(ref));
        const bool first = page.pinned == 0;
        if (first && !arena_->withheld().count_pinned(arena_->kept_by(ref))) return false;
        try {
            if (hold(ref)) page.pinned++;
            return true;
        } catch (const std::bad_alloc&) {
            if (first) arena_->withheld().uncount_pinned(arena_->kept_by(ref));
            return false;
        }
    }
    // True: the last pin ended.
    bool unpin(Ref ref) {
        if (!let_go(ref)) return false;
        Page& page = arena_->page(page_of(ref));
        CHECK(page.pinned > 0);
        if (--page.pinned == 0) arena_->withheld().uncount_pinned(arena_->kept_by(ref));
        return true;
    }

  private:
    Arena* arena_ = nullptr;
    std::unordered_map<Ref, uint32_t> holders_;
};

}  // namespace farcached::node
