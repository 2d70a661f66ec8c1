// SPDX-License-Identifier: BSD-3-Clause
// The slots of a partition: pages, eviction, balance between size classes, walks.
#include <algorithm>
#include <limits>

#include "base/check.h"
#include "node/partition.h"
#include "protocol/words.h"

namespace farcached::node {

Ref Partition::take_slot(uint8_t size_class, bool in_zone) {
    ClassTally& tally = tally_[size_class];
    if (tally.partial_head[in_zone] == nil) return nil;
    const uint64_t number_of_page = tally.partial_head[in_zone];
    Page& page = arena_->page(number_of_page);
    Ref ref = page.free_head;
    if (ref != nil)
        page.free_head = arena_->descriptor(ref).next;
    else
        ref = make_ref(number_of_page, page.fresh++);
    page.live++;
    tally.used++;
    if (page.live == arena_->classes().slots(size_class)) drop_partial(number_of_page);
    return ref;
}

void Partition::drop_partial(uint64_t number_of_page) {
    Page& page = arena_->page(number_of_page);
    if (page.partial == 0) return;
    ClassTally& tally = tally_[page.size_class];
    if (page.prev != nil)
        arena_->page(page.prev).next = page.next;
    else
        tally.partial_head[page.partial == in_zone_list] = page.next;
    if (page.next != nil) arena_->page(page.next).prev = page.prev;
    page.partial = 0;
    page.prev = page.next = nil;
}

void Partition::add_partial(uint64_t number_of_page) {
    Page& page = arena_->page(number_of_page);
    const bool in_zone = number_of_page < arena_->lease_zone();
    uint32_t& head = tally_[page.size_class].partial_head[in_zone];
    page.partial = in_zone ? in_zone_list : in_other_list;
    page.prev = nil;
    page.next = head;
    if (head != nil) arena_->page(head).prev = uint32_t(number_of_page);
    head = uint32_t(number_of_page);
}

void Partition::zone_moved(uint64_t number_of_page) {
    if (arena_->page(number_of_page).partial == 0) return;
    drop_partial(number_of_page);
    add_partial(number_of_page);
}

// False: the limit was lowered below that page in the meantime, by a thread that saw no owner.
bool Partition::adopt_page(uint64_t number_of_page, uint8_t size_class) {
    arena_->cut(number_of_page, 1, size_class, number);
    if (number_of_page >= arena_->limit_pages()) {
        arena_->uncut(number_of_page);
        return false;
    }
    add_partial(number_of_page);
    tally_[size_class].pages++;
    return true;
}

void Partition::release_slot(Ref ref) {
    const uint64_t number_of_page = page_of(ref);
    Page& page = arena_->page(number_of_page);
    ClassTally& tally = tally_[page.size_class];
    Descriptor& item = arena_->descriptor(ref);
    item.state = SlotState::free;
    CHECK(page.live > 0);
    page.live--;
    tally.used--;
    if (page.live == 0) forget_page(number_of_page);
    if (page.size_class == layout::large_class) {
        tally.pages -= region_->page(number_of_page).run_pages;
        arena_->uncut(number_of_page);
        return;
    }
    item.next = page.free_head;
    page.free_head = ref;
    if (page.live == 0) {
        drop_partial(number_of_page);
        tally.pages--;
        arena_->uncut(number_of_page);
        return;
    }
    if (page.partial == 0 && page.draining == 0) add_partial(number_of_page);
}

// A slot of a page taken from the pool.
Ref Partition::first_slot(uint64_t number_of_page, uint8_t size_class) {
    if (!adopt_page(number_of_page, size_class)) return nil;
    return take_slot(size_class, arena_->page(number_of_page).partial == in_zone_list);
}

// Finds a free slot.
Ref Partition::allocate(uint64_t bytes, NodeSeconds now, Ref pinned, Reservation& reserved, uint64_t& need_pages) {
    const uint8_t size_class = arena_->classes().of(bytes);
    settle_drains(size_class, now, pinned);
    if (size_class == layout::large_class) return allocate_run(bytes, reserved, need_pages);
    constexpr uint32_t tries_max = 4;
    for (uint32_t attempt = 0; attempt < tries_max; attempt++) {
        if (Ref ref = take_slot(size_class, /* in_zone= */ false); ref != nil) return ref;
        uint64_t page = 0;
        if (arena_->take_page(page, home_)) {
            if (Ref ref = first_slot(page, size_class); ref != nil) return ref;
            continue;
        }
        if (reserved.pages == 1) {
            reserved.pages = 0;
            if (Ref ref = first_slot(reserved.first, size_class); ref != nil) return ref;
            continue;
        }
        if (Ref ref = take_slot(size_class, /* in_zone= */ true); ref != nil) return ref;
        if (reclaim_tail(size_class, now, pinned)) continue;
        if (!evict_) break;
        if (should_move_page(size_class, now))
            if (move_page(size_class, now, pinned)) continue;
        if (evict_one(size_class, now, pinned)) continue;
        drain_own(size_class, now);
        if (move_page(size_class, now, pinned)) continue;
        break;
    }
    if (evict_) need_pages = 1;
    return nil;
}

Ref Partition::allocate_run(uint64_t bytes, Reservation& reserved, uint64_t& need_pages) {
    const uint64_t pages = (bytes + layout::page_bytes - 1) / layout::page_bytes;
    if (reserved.pages < pages) {
        need_pages = pages;
        return nil;
    }
    if (reserved.pages > pages)
        arena_->give_back(reserved.first + pages, reserved.pages - pages);
    reserved.pages = 0;
    const Ref ref = adopt_run(reserved.first, pages);
    if (ref == nil) need_pages = pages;
    return ref;
}

// A slot of a run taken from the pool; nil: the limit was lowered in the meantime, and the run is back in the pool.
Ref Partition::adopt_run(uint64_t first, uint64_t pages) {
    arena_->cut(first, pages, layout::large_class, number);
    if (first + pages > arena_->limit_pages()) {
        arena_->uncut(first);
        return nil;
    }
    Page& page = arena_->page(first);
    page.live = 1;
    page.fresh = 1;
    page.born = arena_->next_birth();
    tally_[layout::large_class].pages += pages;
    tally_[layout::large_class].used++;
    return make_ref(first, 0);
}

// Frees an expired or flushed item among the last few of a class, unless its slot could not be taken then.
bool Partition::reclaim_tail(uint8_t size_class, NodeSeconds now, Ref pinned) {
    return walk_next_to_go(size_class, reclaim_tries, now, [&](Ref ref) {
        if (ref == pinned || !may_go(ref, now)) return false;
        if (!flushed(ref))
            if (!dead_by_time(ref, now)) return false;
        evict_or_reclaim(ref, now);
        return true;
    });
}

Ref Partition::next_to_go(uint8_t size_class) const {
    return std::visit([&](const auto& policy) { return policy.next_to_go(size_class); }, policy_);
}

bool Partition::walk_next_to_go(uint8_t size_class, uint32_t depth, NodeSeconds now,
                                FunctionRef<bool(Ref)> stop) {
    return std::visit([&](auto& policy) { return policy.walk(moment(now), size_class, depth, stop); },
                      policy_);
}

// Frees an item for its memory. An expired or flushed one is reclaimed: it leaves no ghost and no watcher event.
void Partition::evict_or_reclaim(Ref ref, NodeSeconds now) {
    const Index::Place place = place_of(ref);
    const bool dead = flushed(ref) || dead_by_time(ref, now);
    if (dead) tally_[arena_->page(page_of(ref)).size_class].reclaimed++;
    kill(ref, place.slot, dead ? Gone::reclaimed : Gone::evicted, now);
}

bool Partition::evict_one(uint8_t size_class, NodeSeconds now, Ref pinned) {
    auto candidate = [&](Ref ref) { return ref != pinned && may_go(ref, now); };
    auto was_read = [&](Ref ref) { return see_reads(ref, now); };
    const Candidates candidates{candidate, was_read};
    Ref victim = std::visit(
        [&](auto& policy) { return policy.victim(moment(now), size_class, candidates); }, policy_);
    if (victim == nil) return false;
    evict_or_reclaim(victim, now);
    return true;
}

// The class whose next victim was accessed longest ago; 0 if no other class has a page.
uint8_t Partition::coldest_class(uint8_t except, NodeSeconds now, uint32_t& age) {
    uint8_t coldest = 0;
    age = 0;
    for (uint8_t i = 1; i <= layout::large_class; i++) {
        if (i == except || next_to_go(i) == nil) continue;
        see_reads(next_to_go(i), now);
        Ref tail = next_to_go(i);
        uint32_t tail_age = seconds_since(arena_->descriptor(tail).last_access, now);
        if (coldest != 0 && tail_age <= age) continue;
        coldest = i;
        age = tail_age;
    }
    return coldest;
}

// Whether the class deserves a page: it evicts recently used items while another class keeps older ones.
bool Partition::should_move_page(uint8_t to, NodeSeconds now) {
    if (next_to_go(to) == nil) return true;
    if (evictions_ % balance_every != 0) return false;
    uint32_t other_age = 0;
    if (coldest_class(to, now, other_age) == 0) return false;
    uint32_t age = seconds_since(arena_->descriptor(next_to_go(to)).last_access, now);
    return other_age > 2 * age + 1;
}

bool Partition::move_page(uint8_t to, NodeSeconds now, Ref pinned) {
    uint32_t age = 0;
    uint8_t from = coldest_class(to, now, age);
    if (from == 0) return false;
    constexpr uint32_t candidates = 4;  // of the pages with the oldest items, the one that loses least moves
    uint64_t best = nil;
    uint32_t looked_at = 0;
    walk_next_to_go(from, candidates * popularity_queues, now, [&](Ref ref) {
        uint64_t page = page_of(ref);
        bool stays = (pinned != nil && page_of(pinned) == page) || page_pinned(page, now);
        if (!stays)
            if (best == nil || arena_->page(page).live < arena_->page(best).live) best = page;
        return ++looked_at == candidates;
    });
    if (best == nil) return false;
    empty_page(best, pinned, now);
    pages_moved_++;
    return true;
}

void Partition::empty_page(uint64_t page, Ref pinned, NodeSeconds now) {
    for_live(page, [&](Ref ref) {
        if (ref != pinned) evict_or_reclaim(ref, now);
    });
}

// Removes expired and flushed items among the next to go; returns their number. Bounded, because the lock is held.
uint64_t Partition::reclaim_tails(uint8_t size_class, NodeSeconds now) {
    constexpr uint64_t tails_max = 1024;
    for (uint64_t removed = 0; removed < tails_max; removed++) {
        const Ref tail = next_to_go(size_class);
        if (tail == nil || prefix_deleted(tail)) return removed;
        if (!flushed(tail) && !dead_by_time(tail, now)) return removed;
        evict_or_reclaim(tail, now);
    }
    return tails_max;
}

Node::Swept Partition::sweep_page(uint64_t page, NodeSeconds now, bool tails) {
    Node::Swept swept{0, 0};
    if (tails) swept.removed = reclaim_tails(arena_->page(page).size_class, now);
    swept.checked = swept.removed;
    reclaim_dead(now);
    if (arena_->owner_hint(page) != number) return swept;
    for_live(page, [&](Ref ref) {
        swept.checked++;
        tally_[arena_->page(page).size_class].crawler_checked++;
        if (!flushed(ref))
            if (!dead_by_time(ref, now)) return;
        Index::Place place = place_of(ref);
        kill(ref, place.slot, prefix_deleted(ref) ? Gone::deleted : Gone::crawled, now);
        swept.removed++;
    });
    return swept;
}

void Partition::visit_page(uint64_t page, NodeSeconds now,
                           FunctionRef<void(const ItemView&)> visit) {
    for_live(page, [&](Ref ref) {
        if (flushed(ref)) return;
        if (dead_by_time(ref, now)) return;
        visit(ItemView{key_of(ref), meta(ref)});
    });
}

double Partition::page_heat(uint64_t page, NodeSeconds now, uint64_t& end) {
    const Page& at = arena_->page(page);
    end = page + 1;
    if (arena_->page(at.run_head).held != 0) return std::numeric_limits<double>::infinity();  // cannot be emptied
    if (page_pinned(at.run_head, now)) return double(layout::page_bytes);  // unavailable
    if (at.size_class == layout::large_class) {
        const uint64_t pages = region_->page(at.run_head).run_pages;
        end = at.run_head + pages;
        const Ref ref = make_ref(at.run_head, 0);
        if (arena_->descriptor(ref).state == SlotState::live) see_reads(ref, now);
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
        see_reads(ref, now);
        heat += 1.0 / (1.0 + double(seconds_since(arena_->descriptor(ref).last_access, now)));
    }
    return taken == 0 ? 0 : heat / taken;
}

void Partition::add_stats(Stats& stats, NodeSeconds now) const {
    stats.items += items_;
    stats.items_total += items_total_;
    stats.bytes += bytes_;
    stats.pages_moved += pages_moved_;
    stats.overflow_evictions += overflow_evictions_;
    stats.reads_counted += reads_counted_;
    stats.prefix_items += prefix_items_;
    stats.prefixes_pending = std::max<uint64_t>(stats.prefixes_pending, prefixes_.size());
    add_lease_stats(stats.leases, now);
    stats.index_buckets += index_.bucket_count();
    stats.index_bytes += index_.buckets_used() * sizeof(layout::Bucket);
    for (uint8_t i = 1; i < class_numbers; i++) {
        const auto add_queues = [&](const auto& policy) {
            for (uint32_t queue = 0; queue < popularity_queues; queue++)
                stats.queues[queue] += policy.length(i, queue);
            return policy.kept(i);
        };
        ClassStats& sum = stats.classes[i];
        const ClassTally& mine = tally_[i];
        sum.pages += mine.pages;
        sum.slots_used += mine.used;
        sum.slots_total += i == layout::large_class ? mine.used : mine.pages * arena_->classes().slots(i);
        sum.bytes_requested += mine.requested;
        if (const Ref tail = next_to_go(i); tail != nil) {
            uint64_t age = seconds_since(arena_->descriptor(tail).last_access, now);
            sum.age_oldest_s = std::max(sum.age_oldest_s, age);
        }
        sum.evicted += mine.evicted;
        sum.evicted_nonzero += mine.evicted_nonzero;
        sum.evicted_unfetched += mine.evicted_unfetched;
        sum.evicted_active += mine.evicted_active;
        sum.evicted_age_s = std::max(sum.evicted_age_s, mine.evicted_age_s);
        sum.out_of_memory += mine.out_of_memory;
        sum.reclaimed += mine.reclaimed;
        sum.expired_unfetched += mine.expired_unfetched;
        sum.crawler_reclaimed += mine.crawler_reclaimed;
        sum.crawler_checked += mine.crawler_checked;
        sum.kept += std::visit(add_queues, policy_);
    }
}

}  // namespace farcached::node
