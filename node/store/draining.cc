// SPDX-License-Identifier: BSD-3-Clause
#include "node/store/draining.h"

#include <algorithm>

#include "base/check.h"

namespace farcached::node {

namespace {

constexpr uint32_t claim_s = 2;          // D2
constexpr uint32_t looked_at_max = 8;    // pinned pages checked; the emptiest drains
constexpr uint64_t draining_share = 16;  // at most one in this many of its share of the lease zone drains, or one

}  // namespace

void Draining::attach(Arena& arena, const Config& config, uint32_t partition_count, Slots& slots, const Leases& leases) {
    arena_ = &arena;
    slots_ = &slots;
    leases_ = &leases;
    evict_ = config.evict;
    partition_count_ = partition_count;
    if (config.lease.enabled) pages_.reserve(pages_max);
}

uint64_t Draining::bytes_pinned_in(uint64_t page, NodeSeconds now) const {
    const Page& at = arena_->page(page);
    const uint32_t used = at.size_class == layout::large_class ? 1 : at.fresh;
    uint64_t bytes = 0;
    for (uint32_t slot = 0; slot < used; slot++) {
        const Ref ref = make_ref(page, slot);
        if (arena_->descriptor(ref).state == SlotState::dead || leases_->runs(ref, now))
            bytes += arena_->capacity(ref);
    }
    return bytes;
}

void Draining::drain_emptiest(uint8_t wanted_by, NodeSeconds now, FunctionRef<bool(uint8_t)> of_class) {
    const std::vector<uint32_t>& listed = leases_->pages().all();
    if (!evict_ || listed.empty()) return;
    const uint64_t of_zone = arena_->pool().lease_zone() / partition_count_ / draining_share;
    if (pages_.size() >= std::clamp<uint64_t>(of_zone, 1, pages_max)) return;
    uint32_t best = nil;
    uint64_t best_bytes = 0;
    for (size_t i = 0; i < std::min<size_t>(looked_at_max, listed.size()); i++) {
        const uint32_t page = listed[cursor_++ % listed.size()];
        if (!slots_->owns(page) || !leases_->pages().leases_run_in(page, now)) continue;
        const Page& at = arena_->page(page);
        if (at.listed == 0 || at.draining != 0 || !of_class(at.size_class)) continue;
        const uint64_t bytes = bytes_pinned_in(page, now);
        if (best != nil && bytes > best_bytes) continue;
        if (best != nil && bytes == best_bytes && at.lease_end >= arena_->page(best).lease_end) continue;
        best = page;
        best_bytes = bytes;
    }
    if (best == nil) return;
    CHECK(pages_.size() < pages_.capacity());  // attach() reserved it
    slots_->close_page(best);
    arena_->page(best).draining = wanted_by;
    pages_.push_back(best);
}

void Draining::drain_own(uint8_t size_class, NodeSeconds now) {
    const uint64_t pages = slots_->pages(size_class);
    if (!leases_->enabled() || pages == 0 || leases_->pages().listed(size_class) < pages) return;
    if (own_sought_[size_class] == now) return;
    own_sought_[size_class] = now;
    drain_emptiest(size_class, now, [&](uint8_t other) { return other == size_class; });
}

void Draining::drain_larger(uint8_t to, NodeSeconds now) {
    drain_emptiest(to, now, [&](uint8_t other) {
        return other != to && pages_to_lease(other) > pages_to_lease(to) + 1;
    });
}

void Draining::visit_drained(uint8_t size_class, NodeSeconds now, Ref keep, FunctionRef<void(uint64_t)> empty) {
    for (size_t i = pages_.size(); i-- > 0;) {
        if (i >= pages_.size()) continue;  // removed with the pending slots of another
        const uint32_t page = pages_[i];
        const Page& at = arena_->page(page);
        if (pinned(page, now) || (at.draining != size_class && at.lease_end + claim_s >= now)) continue;
        if (keep != nil && page_of(keep) == page) continue;
        empty(page);
    }
}

// Pages of the class once the draining pages have changed classes.
uint64_t Draining::pages_to_lease(uint8_t size_class) const {
    uint64_t pages = leases_->pages().listed(size_class);
    for (const uint32_t page : pages_) {
        const Page& at = arena_->page(page);
        if (at.draining == size_class) pages++;
        if (at.size_class == size_class && at.listed != 0) pages--;
    }
    return pages;
}

void Draining::forget(uint64_t number_of_page) {
    Page& page = arena_->page(number_of_page);
    if (page.draining == 0) return;
    page.draining = 0;
    const auto at = std::find(pages_.begin(), pages_.end(), uint32_t(number_of_page));
    CHECK(at != pages_.end());
    pages_.erase(at);
    drained_++;
}

void Draining::add_stats(LeaseStats& sum) const {
    sum.draining += pages_.size();
    sum.drained += drained_;
}

}  // namespace farcached::node
