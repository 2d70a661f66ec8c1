// SPDX-License-Identifier: BSD-3-Clause
#include "node/store/room.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/hash.h"
#include "node/items/stub.h"

namespace farcached::node {

// ---- room ------------------------------------------------------------------------------------------------

// Finds a free slot.
Ref Room::allocate(uint64_t bytes, NodeSeconds now, Ref keep, Reservation& reserved, uint64_t& need_pages) {
    const uint8_t size_class = arena_->classes().of(bytes);
    settle_drains(size_class, now, keep);
    if (size_class == layout::large_class) return allocate_run(bytes, reserved, need_pages);
    constexpr uint32_t tries_max = 4;
    for (uint32_t attempt = 0; attempt < tries_max; attempt++) {
        if (Ref ref = slots_->take(size_class, /* in_zone= */ false); ref != nil) return ref;
        uint64_t page = 0;
        if (slots_->page_of_pool(page, size_class)) {
            if (Ref ref = slots_->take_first(page, size_class); ref != nil) return ref;
            continue;
        }
        if (reserved.pages == 1) {
            reserved.pages = 0;
            if (!slots_->describable(reserved.first, size_class)) continue;
            if (Ref ref = slots_->take_first(reserved.first, size_class); ref != nil) return ref;
            continue;
        }
        if (Ref ref = slots_->take(size_class, /* in_zone= */ true); ref != nil) return ref;
        if (reclaim_tail(size_class, now, keep)) continue;
        if (!evict_) break;
        if (should_move_page(size_class, now))
            if (move_page(size_class, now, keep)) continue;
        if (evict_one(size_class, now, keep)) continue;
        draining_->drain_own(size_class, now);
        if (move_page(size_class, now, keep)) continue;
        break;
    }
    if (evict_) need_pages = 1;
    return nil;
}

Ref Room::allocate_run(uint64_t bytes, Reservation& reserved, uint64_t& need_pages) {
    const uint64_t pages = (bytes + layout::page_bytes - 1) / layout::page_bytes;
    if (reserved.pages < pages) {
        need_pages = pages;
        return nil;
    }
    if (reserved.pages > pages)
        arena_->pool().give_back(reserved.first + pages, reserved.pages - pages);
    reserved.pages = 0;
    const Ref ref = slots_->take_run(reserved.first, pages);
    if (ref == nil) need_pages = pages;
    return ref;
}

// Frees an expired or flushed item among the last few of a class, unless its slot could not be taken then.
bool Room::reclaim_tail(uint8_t size_class, NodeSeconds now, Ref keep) {
    return order_->walk(size_class, reclaim_tries, now, [&](Ref ref) {
        if (ref == keep || !may_go(ref, now)) return false;
        if (!items_->dead(ref, now)) return false;
        items_->evict_or_reclaim(ref, now);
        return true;
    });
}

bool Room::evict_one(uint8_t size_class, NodeSeconds now, Ref keep) {
    const auto candidate = [&](Ref ref) { return ref != keep && may_go(ref, now); };
    const Ref victim = order_->victim(size_class, now, candidate);
    if (victim == nil) return false;
    if (!spill_->take(victim, keep, now)) items_->evict_or_reclaim(victim, now);
    return true;
}

bool Room::evict_foreign(uint8_t size_class, NodeSeconds now) {
    constexpr uint32_t depth_max = 64;  // among the last of a class
    Ref found = nil;
    const auto may_leave = [&](Ref ref) {
        if (!is_foreign(*arena_, ref) || !may_go(ref, now)) return false;
        found = ref;
        return true;
    };
    bool any = order_->walk(size_class, depth_max, now, may_leave);
    for (uint8_t i = 1; !any && i <= layout::large_class; i++) any = order_->walk(i, depth_max, now, may_leave);
    if (any && !spill_->take(found, nil, now)) items_->evict_or_reclaim(found, now);
    return any;
}

// The class whose next victim was accessed longest ago; 0 if no other class has a page. Stubs are the oldest items, and a page of
// them stands for many pages of values: such a page goes only if Node::Impl::reserve() finds none in any partition that loses less.
uint8_t Room::coldest_class(uint8_t except, NodeSeconds now, uint32_t& age) {
    uint8_t coldest = 0;
    age = 0;
    for (uint8_t i = 1; i <= layout::large_class; i++) {
        if (i == except || slots_->pages(i) == 0 || order_->next_to_go(i) == nil) continue;
        order_->see_reads(order_->next_to_go(i), now);
        Ref tail = order_->next_to_go(i);
        const bool has_stubs = is_stub(*arena_, tail) || items_->counts().stub_bytes(i) > slots_->pages(i) * layout::page_bytes / 8;
        if (has_stubs && !items_->lost(tail)) continue;
        uint32_t tail_age = seconds_since(arena_->descriptor(tail).last_access, now);
        if (coldest != 0 && tail_age <= age) continue;
        coldest = i;
        age = tail_age;
    }
    return coldest;
}

// Whether the class deserves a page: it evicts recently used items while another class keeps older ones.
bool Room::should_move_page(uint8_t to, NodeSeconds now) {
    if (order_->next_to_go(to) == nil) return true;
    if (items_->counts().turnover().evictions % balance_every != 0) return false;
    uint32_t other_age = 0;
    if (coldest_class(to, now, other_age) == 0) return false;
    uint32_t age = seconds_since(arena_->descriptor(order_->next_to_go(to)).last_access, now);
    return other_age > 2 * age + 1;
}

bool Room::move_page(uint8_t to, NodeSeconds now, Ref keep) {
    uint32_t age = 0;
    uint8_t from = coldest_class(to, now, age);
    if (from == 0) return false;
    constexpr uint32_t candidates = 4;  // of the pages with the oldest items, the one that loses least moves
    uint64_t best = nil;
    uint32_t looked_at = 0;
    order_->walk(from, candidates * popularity_queues, now, [&](Ref ref) {
        uint64_t page = page_of(ref);
        bool stays = (keep != nil && page_of(keep) == page) || draining_->pinned(page, now);
        if (!stays)
            if (best == nil || arena_->page(page).live < arena_->page(best).live) best = page;
        return ++looked_at == candidates;
    });
    if (best == nil) return false;
    move_out(best, keep, now);
    return true;
}

void Room::empty_page(uint64_t page, Ref keep, NodeSeconds now) {
    slots_->for_live(page, [&](Ref ref) {
        if (ref != keep && !spill_->take_from_page(ref, keep, now)) items_->evict_or_reclaim(ref, now);
    });
}

void Room::settle_drains(uint8_t size_class, NodeSeconds now, Ref keep) {
    if (draining_->none()) return;
    items_->reclaim_dead(now);
    draining_->visit_drained(size_class, now, keep, [&](uint64_t page) { empty_page(page, nil, now); });
}

double Room::page_heat(uint64_t page, NodeSeconds now, uint64_t& end) {
    const Page& at = arena_->page(page);
    end = page + 1;
    if (arena_->page(at.run_head).held != 0) return std::numeric_limits<double>::infinity();  // cannot be emptied
    if (draining_->pinned(at.run_head, now)) return double(layout::page_bytes);  // unavailable
    if (at.size_class == layout::large_class) {
        const uint64_t pages = region_->page(at.run_head).run_pages;
        end = at.run_head + pages;
        const Ref ref = make_ref(at.run_head, 0);
        if (arena_->descriptor(ref).state == SlotState::live) order_->see_reads(ref, now);
        const uint32_t last = arena_->descriptor(ref).last_access;
        const double youth = double(arena_->page(at.run_head).born) / double(arena_->births());
        return double(pages) * (0.01 + 0.99 * youth) / (1.0 + double(seconds_since(last, now)));
    }
    constexpr uint32_t samples = 8;
    const uint32_t step = std::max<uint32_t>(1, at.fresh / samples);
    double heat = 0;
    uint32_t taken = 0;
    for (uint32_t slot = 0; slot < at.fresh; slot += step, taken++) {
        Ref ref = make_ref(page, slot);
        if (arena_->descriptor(ref).state != SlotState::live) continue;
        order_->see_reads(ref, now);
        if (items_->lost(ref)) continue;
        const double stands_for = is_stub(*arena_, ref) ? double(stub_of(*arena_, ref).value_len) / double(sizeof(Stub)) : 1.0;
        heat += stands_for / (1.0 + double(seconds_since(arena_->descriptor(ref).last_access, now)));
    }
    return taken == 0 ? 0 : heat / taken;
}

// ---- lease zone ------------------------------------------------------------------------------------------

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
        return slots_->zone_page_of_pool(page, size_class) ? slots_->take_first(page, size_class) : nil;
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
        if (!leases_->leasable(ref) || !may_go(ref, now)) return false;
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
