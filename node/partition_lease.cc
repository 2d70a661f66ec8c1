// SPDX-License-Identifier: BSD-3-Clause
// Leases of a partition: granting, and keeping memory until they have ended (S2, S3, S8).
#include <algorithm>

#include "base/broken.h"
#include "base/check.h"
#include "base/hash.h"
#include "node/partition.h"

namespace farcached::node {

bool Partition::lease_runs(Ref ref, NodeSeconds now) const {
    return lease_.enabled && node::lease_runs(arena_->descriptor(ref), now);
}

bool Partition::page_pinned(uint64_t page, NodeSeconds now) const {
    const uint32_t lease_end = arena_->page(page).lease_end;
    return lease_end != 0 && lease_end >= now;
}

// For how long it may be leased: a lease ends before the item expires and before a scheduled flush. `now` has been cut
// off to seconds, so one of those that are left may be over already.
uint32_t Partition::lease_ms_left(Ref ref, NodeSeconds now) const {
    uint64_t term_ms = lease_term_ms_longest;
    for (NodeSeconds end : {NodeSeconds(arena_->descriptor(ref).exptime), lease_before_})
        if (end != never_expires)
            term_ms = end <= now ? 0 : std::min<uint64_t>(term_ms, (uint64_t(end) - now - 1) * 1000);
    return uint32_t(term_ms);
}

std::optional<protocol::Grant> Partition::grant(Index::Place& at, NodeSeconds now, Cost* report) {
    if (!lease_.enabled) return std::nullopt;
    const Descriptor before = arena_->descriptor(at.ref);
    if ((before.flags & (item_stale | item_win_sent)) != 0) return std::nullopt;
    auto denied = [](uint64_t& why) {
        why++;
        return std::nullopt;
    };
    press(now);
    const uint32_t touches = uint32_t(before.access_count) + 1;
    const uint32_t wanted_ms = terms_.term_ms(touches, before.lease_halvings);
    if (touches < lease_.from_touches || wanted_ms == 0) return denied(leases_.denied_young);
    if (term_wasted(before, now)) return denied(leases_.denied_wasted);
    const uint32_t term_ms = std::min(wanted_ms, lease_ms_left(at.ref, now));
    if (term_ms < std::min(lease_term_ms_min, wanted_ms)) return denied(leases_.denied_short);
    if (arena_->lease_stop().stopped(now)) return denied(leases_.denied_stopped);
    if (draining(at.ref) && (report != nullptr || lease_runs(at.ref, now))) return denied(leases_.denied_draining);
    if (report != nullptr && !leasable(at.ref)) return std::nullopt;
    if (!leasable(at.ref))
        if (!move_to_zone(at, now)) return denied(leases_.denied_no_room);
    const uint32_t lease_end = now + lease_kept_s(term_ms, lease_.grace_ms);
    if (report != nullptr && !affords(*report, at.ref, lease_end, now)) return std::nullopt;
    note_outlived(at.ref, lease_end, term_ms, now);
    count_leased(at.ref, lease_end, now);
    protocol::Grant granted;
    granted.offset = region_->header().arena_offset + arena_->offset(at.ref);
    granted.length = meta(at.ref).item_bytes;
    granted.generation = layout::Guard{arena_->header(at.ref).guard}.generation();
    granted.term_ms = term_ms;
    return granted;
}

// An item that replaces one which died under its lease waits until that term is over: the grace, and what the clock of whole
// seconds may hide, come behind. Not while those that died so take less than `dead_share` of what all live items do.
bool Partition::term_wasted(const Descriptor& item, NodeSeconds now) const {
    if ((item.flags & item_lease_wasted) == 0) return false;
    if (item.lease_end < now + lease_kept_s(0, lease_.grace_ms)) return false;
    return double(leases_.pending_bytes) >= lease_.dead_share * double(bytes_);
}

// An item that died under its lease has passed a halving on. One is taken back, in the mean, for each four whole terms by
// which leases are made longer that are not the first: so terms come to be a part of an item's life. Of 1, 2, 4, 8 and 16 terms
// more are better for the total hit ratio, and 4 are the best for remote pointers (zipf-95:5, 20/80: 0.216 of GETs, 0.252,
// 0.265, 0.252, 0.227).
void Partition::note_outlived(Ref ref, uint32_t lease_end, uint32_t term_ms, NodeSeconds now) {
    constexpr uint64_t terms_per_halving = 4;
    Descriptor& item = arena_->descriptor(ref);
    if (item.lease_halvings == 0 || item.lease_end == 0 || (item.flags & item_lease_wasted) != 0) return;
    const uint32_t longer_s = lease_end - std::min(lease_end, std::max<uint32_t>(item.lease_end, now));
    const uint64_t scattered = (leases_.granted + leases_.renewed) * UINT64_C(0x9e3779b97f4a7c15) >> 33;
    if (scattered % (terms_per_halving * (term_ms / 1000 + 1)) < longer_s) item.lease_halvings--;
}

bool Partition::affords(Cost& report, Ref ref, uint32_t lease_end, NodeSeconds now) const {
    const NodeSeconds kept_until = lease_runs(ref, now) ? arena_->descriptor(ref).lease_end : now;
    report.byte_s = lease_end > kept_until ? uint64_t(meta(ref).item_bytes) * (lease_end - kept_until) : 0;
    report.over = report.byte_s > report.byte_s_max;
    return !report.over;
}

Renewal Partition::renew(const Access& seen, NodeSeconds now, uint64_t byte_s_max) {
    const Ref ref = seen_item(seen);
    if (ref == nil) return {};
    if (hash_key(key_of(ref), region_->view().hash_seed) != seen.hash) return {};
    if (dead_by_time(ref, now) || flushed(ref)) return {};
    access(ref, now, std::min(seen.times, told_times_max));
    Cost cost{byte_s_max};
    Index::Place at{nullptr, ref};
    const std::optional<protocol::Grant> granted = grant(at, now, &cost);
    CHECK(at.ref == ref);
    if (granted.has_value()) return {Renewal::Outcome::renewed, granted->term_ms, cost.byte_s};
    return {cost.over ? Renewal::Outcome::over : Renewal::Outcome::seen};
}

void Partition::count_leased(Ref ref, uint32_t lease_end, NodeSeconds now) {
    Descriptor& item = arena_->descriptor(ref);
    if (lease_runs(ref, now)) {
        leases_.renewed++;
        lease_end = std::max(lease_end, item.lease_end);
        uncount_leased(ref);
    } else {
        leases_.granted++;
    }
    item.flags &= uint8_t(~item_lease_wasted);
    item.lease_end = lease_end;
    LeasedIn& in = leased_in_[lease_end % lease_seconds_max];
    if (in.second != lease_end) in = {lease_end, 0};
    in.bytes += meta(ref).item_bytes;
    note_pinned(arena_->page(page_of(ref)).run_head, lease_end, now);
}

void Partition::uncount_leased(Ref ref) {
    const Descriptor& item = arena_->descriptor(ref);
    LeasedIn& in = leased_in_[item.lease_end % lease_seconds_max];
    if (in.second != item.lease_end) return;
    const uint64_t bytes = meta(ref).item_bytes;
    CHECK(in.bytes >= bytes);
    in.bytes -= bytes;
}

uint64_t Partition::leased_bytes(NodeSeconds now) const {
    uint64_t bytes = 0;
    for (const LeasedIn& in : leased_in_)
        if (in.second >= now) bytes += in.bytes;
    return bytes;
}

void Partition::note_pinned(uint64_t number_of_page, uint32_t lease_end, NodeSeconds now) {
    Page& page = arena_->page(number_of_page);
    page.lease_end = std::max(page.lease_end, lease_end);
    if (page.listed != 0) return;
    if (pinned_pages_.size() >= pinned_compact_at_) {
        // A page that went and came back is there twice.
        std::sort(pinned_pages_.begin(), pinned_pages_.end());
        pinned_pages_.erase(std::unique(pinned_pages_.begin(), pinned_pages_.end()), pinned_pages_.end());
        std::erase_if(pinned_pages_, [&](uint32_t other) {
            if (arena_->owner_hint(other) != number) return true;
            if (page_pinned(other, now)) return false;
            unlist(other);
            return true;
        });
        pinned_compact_at_ = std::max<size_t>(64, 2 * pinned_pages_.size());
    }
    page.listed = 1;
    tally_[page.size_class].listed++;
    pinned_pages_.push_back(uint32_t(number_of_page));
}

void Partition::unlist(uint64_t number_of_page) {
    Page& page = arena_->page(number_of_page);
    if (page.listed == 0) return;
    page.listed = 0;
    uint64_t& listed = tally_[page.size_class].listed;
    CHECK(listed > 0);
    listed--;
}

// The same bytes as a new generation in the lease zone, so that all other pages stay free of leases (S8).
bool Partition::move_to_zone(Index::Place& at, NodeSeconds now) {
    const uint8_t size_class = arena_->page(page_of(at.ref)).size_class;
    const Ref to = size_class == layout::large_class ? take_zone_run(at.ref) : take_zone_slot(size_class, now, at.ref);
    if (to == nil) return false;
    move_item(at, to, now);
    at.ref = to;
    leases_.moved++;
    return true;
}

// Room for what lies in that run; nil for one so long that its copy would keep others waiting under the lock.
Ref Partition::take_zone_run(Ref like) {
    constexpr uint64_t pages_max = 64;
    const uint64_t pages = region_->page(page_of(like)).run_pages;
    uint64_t first = 0;
    if (pages > pages_max || !arena_->take_zone_run(pages, first)) return nil;
    return adopt_run(first, pages);
}

Ref Partition::take_zone_slot(uint8_t size_class, NodeSeconds now, Ref pinned) {
    const auto take = [&]() -> Ref {
        if (Ref ref = take_slot(size_class, /* in_zone= */ true); ref != nil) return ref;
        uint64_t page = 0;
        return arena_->take_zone_page(page, home_) ? first_slot(page, size_class) : nil;
    };
    reclaim_pending(now);
    settle_drains(size_class, now, pinned);
    if (Ref ref = take(); ref != nil) return ref;
    if (!evict_) return nil;
    if (make_room_in_zone(size_class, now, pinned)) return take_slot(size_class, /* in_zone= */ true);
    return free_zone_page(size_class, now, pinned) ? take() : nil;
}

// An item of the zone that is not leased goes, but only from the zone: what is lost for it is the next to be lost anyway.
// One that is flushed or expired goes for good: moved, it would be a new generation, which no flush before it hides (S11).
bool Partition::make_room_in_zone(uint8_t size_class, NodeSeconds now, Ref pinned) {
    constexpr uint32_t depth_max = 32;  // it is one of the last of the class
    Ref leaves = nil;
    const auto may_leave = [&](Ref ref) {
        if (!leasable(ref) || lease_runs(ref, now)) return false;
        leaves = ref;
        return true;
    };
    if (!walk_next_to_go(size_class, depth_max, now, may_leave)) return false;
    if (flushed(leaves) || dead_by_time(leaves, now)) {
        tally_[size_class].reclaimed++;
        kill(leaves, place_of(leaves).slot, Gone::reclaimed, now);
        return true;
    }
    Ref to = take_slot(size_class, /* in_zone= */ false);
    if (to == nil) {
        const uint64_t guard = arena_->header(leaves).guard;
        if (!evict_one(size_class, now, pinned)) return false;
        if (arena_->descriptor(leaves).state != SlotState::live || arena_->header(leaves).guard != guard) return true;
        to = take_slot(size_class, /* in_zone= */ false);
        if (to == nil) return true;  // it was another one of the zone
    }
    move_item(place_of(leaves), to, now);
    return true;
}

// The same bytes as a new generation. Its counter stays behind: what that says is seen first.
void Partition::move_item(Index::Place from, Ref to, NodeSeconds now) {
    CHECK(!flushed(from.ref));
    see_reads(from.ref, now);
    const std::string_view key = key_of(from.ref);
    NewItem item = same_item({key, hash_key(key, region_->view().hash_seed)}, from.ref);
    item.counts_as_new = false;
    item.same_item = true;
    put(to, item, now, from);
}

void Partition::retire(Ref ref, uint64_t bytes, NodeSeconds now) {
    if (!lease_runs(ref, now) || broken::s2_free_leased) {
        release_slot(ref);
        return;
    }
    uncount_leased(ref);
    Descriptor& item = arena_->descriptor(ref);
    item.state = SlotState::pending;
    pending_.push({item.lease_end, ref});
    leases_.pending_bytes += bytes;
    leases_.pending_slots++;
}

uint32_t Partition::reclaim_pending(NodeSeconds now) {
    uint32_t freed = 0;
    while (!pending_.empty()) {
        const Pending next = pending_.top();
        if (next.lease_end >= now) break;
        pending_.pop();
        const layout::ItemHeader& header = arena_->header(next.ref);
        CHECK(arena_->descriptor(next.ref).state == SlotState::pending);
        CHECK(layout::Guard{header.guard}.state() == layout::GuardState::dead);
        leases_.pending_bytes -= layout::item_bytes(header.key_len, header.value_len);
        leases_.pending_slots--;
        release_slot(next.ref);
        freed++;
    }
    return freed;
}

void Partition::add_lease_stats(LeaseStats& sum, NodeSeconds now) const {
    sum.granted += leases_.granted;
    sum.renewed += leases_.renewed;
    sum.denied_young += leases_.denied_young;
    sum.denied_wasted += leases_.denied_wasted;
    sum.denied_no_room += leases_.denied_no_room;
    sum.denied_short += leases_.denied_short;
    sum.denied_draining += leases_.denied_draining;
    sum.denied_stopped += leases_.denied_stopped;
    sum.draining += draining_.size();
    sum.drained += leases_.drained;
    sum.moved += leases_.moved;
    sum.bytes += leased_bytes(now);
    sum.pending_bytes += leases_.pending_bytes;
    sum.pending_slots += leases_.pending_slots;
    const uint32_t alpha_ms = terms_.alpha_ms();
    if (sum.alpha_ms == 0 || alpha_ms < sum.alpha_ms) sum.alpha_ms = alpha_ms;
}

}  // namespace farcached::node
