// SPDX-License-Identifier: BSD-3-Clause
// Slots: the pages of a partition, cut into slots of size classes, and which of these slots are free.
//
// Owner: a Partition, under its lock. It knows nothing of items: the caller frees a slot when its content is not needed.
//
// M1  Each page with a free slot is in one of two lists of its class: that of the lease zone or that of the other pages. A full
//     page is in none, and neither is one that drains (node/store/draining.h): none of its slots is taken.
// M2  A page without used slots returns to the pool at once. The caller forgets the page before (leaves_page_empty()).
#pragma once

#include <array>
#include <cstdint>
#include <new>
#include <unordered_map>

#include "base/check.h"
#include "fabric/region.h"
#include "node/memory/arena.h"
#include "node/policy/item_list.h"
#include "node/store/node.h"

namespace farcached::node {

class Slots {
  public:
    void attach(fabric::Region& region, Arena& arena, uint16_t number, uint32_t partition_count);

    // A slot of a page that has a free one; nil: none has.
    Ref take(uint8_t size_class, bool in_zone);
    // Backs the descriptors of a page that was taken from the pool, if they are in a file; the functions of the pool below have
    // done that. False: no memory, and the page returned to the pool.
    bool describable(uint64_t page, uint8_t size_class);
    // A slot of such a page; nil: the limit was lowered below that page in the meantime, by a thread that saw no owner.
    Ref take_first(uint64_t page, uint8_t size_class);
    // The same for a run of pages.
    Ref take_run(uint64_t first, uint64_t pages);
    // A page of the pool, of this partition's home if one is free there; from the lease zone only.
    bool page_of_pool(uint64_t& page, uint8_t size_class) {
        return arena_->pool().take_page(page, home_) && describable(page, size_class);
    }
    bool zone_page_of_pool(uint64_t& page, uint8_t size_class) {
        return arena_->pool().take_zone_page(page, home_) && describable(page, size_class);
    }

    bool leaves_page_empty(Ref ref) const { return arena_->page(page_of(ref)).live == 1; }
    void release(Ref ref);
    // No slot of the page is taken any more.
    void close_page(uint64_t page);
    // The end of the lease zone moved across that page.
    void zone_moved(uint64_t page);

    bool owns(uint64_t page) const { return arena_->owner_hint(page) == number_; }
    uint64_t pages(uint8_t size_class) const { return classes_[size_class].pages; }
    // Visits the live items of a page, until one visit frees the page.
    template <class Visit>
    void for_live(uint64_t page, Visit&& visit) const;
    void add_stats(Stats& sum) const;

  private:
    static constexpr uint16_t in_other_list = 1, in_zone_list = 2;  // Page::partial
    struct OfClass {
        uint32_t partial_head[2] = {nil, nil};  // pages with free slots: outside the lease zone, and in it
        uint64_t pages = 0, used = 0;
    };

    bool adopt(uint64_t page, uint8_t size_class);
    void add_partial(uint64_t page);

    fabric::Region* region_ = nullptr;
    Arena* arena_ = nullptr;
    uint16_t number_ = 0;  // of the partition
    uint32_t home_ = 0;    // of its pages (page_pool.h, P3)
    std::array<OfClass, class_numbers> classes_;
};

template <class Visit>
void Slots::for_live(uint64_t page, Visit&& visit) const {
    const Page& at = arena_->page(page);
    const uint32_t used = at.size_class == layout::large_class ? 1 : at.fresh;
    for (uint32_t slot = 0; slot < used; slot++) {
        Ref ref = make_ref(page, slot);
        if (arena_->descriptor(ref).state == SlotState::live) visit(ref);
        if (!owns(page)) return;  // the visit freed the page's last item
    }
}

// HeldSlots: the slots of a partition whose bytes are used without the partition's lock: by replies that are being sent (pins),
// and by uploads.
//
// Owner: a Partition, under its lock.
// H1  A held slot is not reused, even if its item dies (S2), and no byte of a value being sent changes (S1).
// H2  Descriptor::held is set for exactly these slots, and Page::held counts them. Page::pinned counts those with pins, and the
//     arena counts the bytes of their pages.
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
