// SPDX-License-Identifier: BSD-3-Clause
#include "node/lease_zone.h"

#include <algorithm>

#include "base/check.h"
#include "base/hash.h"

namespace farcached::node {

namespace {

constexpr uint64_t scanned_max = 256;  // pages of the zone checked; the coldest of this partition is freed

}  // namespace

bool LeaseZone::move_here(Index::Place& at, NodeSeconds now) {
    const uint8_t size_class = arena_->classes().of(bytes_of(*arena_, at.ref));
    const Ref to = size_class == layout::large_class ? take_run_like(at.ref) : take_slot(size_class, now, at.ref);
    if (to == nil) return false;
    move_item(at, to, now);
    at.ref = to;
    leases_->count_moved();
    return true;
}

// A zone run for that item; nil if it is so long that its copy would delay others under the lock.
Ref LeaseZone::take_run_like(Ref like) {
    constexpr uint64_t pages_max = 64;
    const uint64_t pages = region_->page(page_of(like)).run_pages;
    uint64_t first = 0;
    if (pages > pages_max || !arena_->pool().take_run(pages, true, first)) return nil;
    return slots_->take_run(first, pages);
}

Ref LeaseZone::take_slot(uint8_t size_class, NodeSeconds now, Ref keep) {
    const auto take = [&]() -> Ref {
        if (Ref ref = slots_->take(size_class, /* in_zone= */ true); ref != nil) return ref;
        uint64_t page = 0;
        return slots_->zone_page_of_pool(page) ? slots_->take_first(page, size_class) : nil;
    };
    items_->reclaim_dead(now);
    room_->settle_drains(size_class, now, keep);
    if (Ref ref = take(); ref != nil) return ref;
    if (!evict_) return nil;
    if (make_room(size_class, now, keep)) return slots_->take(size_class, /* in_zone= */ true);
    return free_page(size_class, now, keep) ? take() : nil;
}

// Moves an unleased item out of the zone; if no slot outside is free, the class evicts its next victim for it. A flushed or
// expired item is freed instead: moved, it would be a new generation, which no earlier flush hides (S11).
bool LeaseZone::make_room(uint8_t size_class, NodeSeconds now, Ref keep) {
    constexpr uint32_t depth_max = 32;  // among the last of the class
    Ref leaves = nil;
    const auto may_leave = [&](Ref ref) {
        if (!leases_->leasable(ref) || !room_->may_go(ref, now)) return false;
        leaves = ref;
        return true;
    };
    if (!order_->walk(size_class, depth_max, now, may_leave)) return false;
    if (items_->dead(leaves, now)) {
        items_->evict_or_reclaim(leaves, now);
        return true;
    }
    Ref to = slots_->take(size_class, /* in_zone= */ false);
    if (to == nil) {
        const uint64_t guard = arena_->header(leaves).guard;
        if (!room_->evict_one(size_class, now, keep)) return false;
        if (arena_->descriptor(leaves).state != SlotState::live || arena_->header(leaves).guard != guard) return true;
        to = slots_->take(size_class, /* in_zone= */ false);
        if (to == nil) return true;  // it was another slot of the zone
    }
    move_item(items_->place_of(leaves), to, now);
    return true;
}

// The same bytes as a new generation. The read counter stays with the old slot, so it is read first.
void LeaseZone::move_item(Index::Place from, Ref to, NodeSeconds now) {
    CHECK(!items_->hidden(from.ref));
    order_->see_reads(from.ref, now);
    const std::string_view key = key_of(*arena_, from.ref);
    NewItem item = copy_of(*arena_, from.ref, {key, hash_key(key, region_->view().hash_seed)});
    item.counts_as_new = false;
    item.same_item = true;
    items_->put(to, item, now, from);
}

// The coldest unleased page among some pages of other classes in the zone, if it is no warmer than `heat`.
uint64_t LeaseZone::coldest_page(uint8_t except, double heat, NodeSeconds now, Ref keep) {
    const uint64_t zone = arena_->pool().lease_zone();
    uint64_t best = nil;
    for (uint64_t i = 0; i < std::min(scanned_max, zone); i++) {
        const uint64_t page = cursor_++ % zone;
        if (!slots_->owns(page) || draining_->pinned(arena_->page(page).run_head, now)) continue;
        const Page& at = arena_->page(page);
        if (at.run_head != page || at.size_class == except) continue;
        if (keep != nil && page_of(keep) == page) continue;
        uint64_t end = 0;
        const double its = room_->page_heat(page, now, end);
        if (its > heat) continue;
        best = page;
        heat = its;
    }
    return best;
}

// Frees a zone page without leases at once, if its items are no warmer than this class's next victim. Otherwise starts to drain
// a page of a class that has more pages than this one.
bool LeaseZone::free_page(uint8_t to, NodeSeconds now, Ref keep) {
    if (!evict_ || sought_[to] == now) return false;
    sought_[to] = now;
    double heat = 1;
    if (const Ref own = order_->next_to_go(to); own != nil)
        heat = 1.0 / (1.0 + double(seconds_since(arena_->descriptor(own).last_access, now)));
    if (const uint64_t page = coldest_page(to, heat, now, keep); page != nil) {
        room_->move_out(page, nil, now);
        return true;
    }
    draining_->drain_larger(to, now);
    return false;
}

}  // namespace farcached::node
