// SPDX-License-Identifier: BSD-3-Clause
// Fragmentation by leases: the partition drains pages whose leases pin them while other items need room (S8). It touches no
// page of another partition; only LeaseStop is shared.
//
// D1  A page starts to drain if a set found every page of its class pinned. It also does if a lease found no room in the zone
//     while another class holds more pages there. The emptiest of several is chosen. While it drains, no lease in it is granted
//     or renewed, and none of its slots is taken.
// D2  When its last lease and grace have ended, the page is emptied and returns to the pool. That happens when the class it
//     drains for needs it, or after claim_s when any class does. Otherwise the first class to ask would get it.
// D3  The cost of a denied lease to others is bounded: one search per second for each class, over a bounded number of pages,
//     and few pages drain at a time.
#include <algorithm>

#include "base/check.h"
#include "node/partition.h"

namespace farcached::node {

namespace {

constexpr uint32_t claim_s = 2;          // D2
constexpr uint32_t looked_at_max = 8;    // pinned pages checked; the emptiest drains
constexpr uint64_t draining_share = 16;  // at most one in this many of its share of the lease zone drains, or one
constexpr uint64_t scanned_max = 256;    // pages of the zone checked; the coldest of this partition is freed

}  // namespace

uint64_t Partition::bytes_pinned_in(uint64_t page, NodeSeconds now) const {
    const Page& at = arena_->page(page);
    const uint32_t used = at.size_class == layout::large_class ? 1 : at.fresh;
    uint64_t bytes = 0;
    for (uint32_t slot = 0; slot < used; slot++) {
        const Ref ref = make_ref(page, slot);
        if (arena_->descriptor(ref).state == SlotState::dead || lease_runs(ref, now))
            bytes += arena_->capacity(ref);
    }
    return bytes;
}

void Partition::drain_emptiest(uint8_t wanted_by, NodeSeconds now, FunctionRef<bool(uint8_t)> of_class) {
    if (!evict_ || pinned_pages_.empty()) return;
    const uint64_t of_zone = arena_->lease_zone() / partition_count_ / draining_share;
    if (draining_.size() >= std::clamp<uint64_t>(of_zone, 1, draining_max)) return;
    uint32_t best = nil;
    uint64_t best_bytes = 0;
    for (size_t i = 0; i < std::min<size_t>(looked_at_max, pinned_pages_.size()); i++) {
        const uint32_t page = pinned_pages_[drain_cursor_++ % pinned_pages_.size()];
        if (arena_->owner_hint(page) != number || !leases_run_in(page, now)) continue;
        const Page& at = arena_->page(page);
        if (at.listed == 0 || at.draining != 0 || !of_class(at.size_class)) continue;
        const uint64_t bytes = bytes_pinned_in(page, now);
        if (best != nil && bytes > best_bytes) continue;
        if (best != nil && bytes == best_bytes && at.lease_end >= arena_->page(best).lease_end) continue;
        best = page;
        best_bytes = bytes;
    }
    if (best == nil) return;
    CHECK(draining_.size() < draining_.capacity());  // attach() reserved it
    drop_partial(best);
    arena_->page(best).draining = wanted_by;
    draining_.push_back(best);
}

void Partition::drain_own(uint8_t size_class, NodeSeconds now) {
    ClassTally& tally = tally_[size_class];
    if (!lease_.enabled || tally.pages == 0 || tally.listed < tally.pages) return;
    if (tally.own_sought == now) return;
    tally.own_sought = now;
    drain_emptiest(size_class, now, [&](uint8_t other) { return other == size_class; });
}

void Partition::settle_drains(uint8_t size_class, NodeSeconds now, Ref pinned) {
    if (draining_.empty()) return;
    reclaim_dead(now);
    for (size_t i = draining_.size(); i-- > 0;) {
        if (i >= draining_.size()) continue;  // removed with the pending slots of another
        const uint32_t page = draining_[i];
        const Page& at = arena_->page(page);
        if (page_pinned(page, now) || (at.draining != size_class && at.lease_end + claim_s >= now)) continue;
        if (pinned != nil && page_of(pinned) == page) continue;
        empty_page(page, nil, now);
    }
}

// Pages of the class once the draining pages have changed classes.
uint64_t Partition::pages_to_lease(uint8_t size_class) const {
    uint64_t pages = tally_[size_class].listed;
    for (const uint32_t page : draining_) {
        const Page& at = arena_->page(page);
        if (at.draining == size_class) pages++;
        if (at.size_class == size_class && at.listed != 0) pages--;
    }
    return pages;
}

// The coldest unleased page among some pages of other classes in the zone, if it is no warmer than `heat`.
uint64_t Partition::coldest_zone_page(uint8_t except, double heat, NodeSeconds now, Ref pinned) {
    const uint64_t zone = arena_->lease_zone();
    uint64_t best = nil;
    for (uint64_t i = 0; i < std::min(scanned_max, zone); i++) {
        const uint64_t page = zone_cursor_++ % zone;
        if (arena_->owner_hint(page) != number || page_pinned(arena_->page(page).run_head, now)) continue;
        const Page& at = arena_->page(page);
        if (at.run_head != page || at.size_class == except) continue;
        if (pinned != nil && page_of(pinned) == page) continue;
        uint64_t end = 0;
        const double its = page_heat(page, now, end);
        if (its > heat) continue;
        best = page;
        heat = its;
    }
    return best;
}

// Frees a zone page without leases at once, if its items are no warmer than this class's next victim. Otherwise starts to drain
// a page of a class that has more pages than this one.
bool Partition::free_zone_page(uint8_t to, NodeSeconds now, Ref pinned) {
    if (!evict_ || tally_[to].zone_sought == now) return false;
    tally_[to].zone_sought = now;
    double heat = 1;
    if (const Ref own = next_to_go(to); own != nil)
        heat = 1.0 / (1.0 + double(seconds_since(arena_->descriptor(own).last_access, now)));
    if (const uint64_t page = coldest_zone_page(to, heat, now, pinned); page != nil) {
        empty_page(page, nil, now);
        pages_moved_++;
        return true;
    }
    drain_emptiest(to, now, [&](uint8_t other) {
        return other != to && pages_to_lease(other) > pages_to_lease(to) + 1;
    });
    return false;
}

// For a page that left the partition.
void Partition::forget_page(uint64_t number_of_page) {
    Page& page = arena_->page(number_of_page);
    unlist(number_of_page);
    if (page.draining == 0) return;
    page.draining = 0;
    const auto at = std::find(draining_.begin(), draining_.end(), uint32_t(number_of_page));
    CHECK(at != draining_.end());
    draining_.erase(at);
    leases_.drained++;
}

}  // namespace farcached::node
