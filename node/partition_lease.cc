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

bool Partition::leases_run_in(uint64_t page, NodeSeconds now) const {
    const uint32_t lease_end = arena_->page(page).lease_end;
    return lease_end != 0 && lease_end >= now;
}

// The maximum lease of an item: it ends before the item expires and before a scheduled flush. `now` is truncated to seconds, so
// the current second does not count.
uint32_t Partition::lease_ms_left(Ref ref, NodeSeconds now) const {
    uint64_t term_ms = lease_term_ms_longest;
    for (NodeSeconds end : {NodeSeconds(arena_->descriptor(ref).exptime), lease_before_})
        if (end != never_expires)
            term_ms = end <= now ? 0 : std::min<uint64_t>(term_ms, (uint64_t(end) - now - 1) * 1000);
    return uint32_t(term_ms);
}

bool Partition::is_sparse(uint64_t bytes, uint64_t capacity) {
    constexpr uint64_t small_slot_bytes = 1024, filled_share = 4;
    return capacity > small_slot_bytes && bytes * filled_share < capacity;
}

bool Partition::sparse(Ref ref) const { return is_sparse(meta(ref).item_bytes, arena_->capacity(ref)); }

uint32_t Partition::flush_ms_left(NodeSeconds now) const {
    if (lease_before_ == never_expires) return lease_term_ms_longest;
    if (lease_before_ <= now) return 0;
    return uint32_t(std::min<uint64_t>((uint64_t(lease_before_) - now - 1) * 1000, lease_term_ms_longest));
}

// The rest of the running lease that may still be announced, such that lease_kept_s() of it is no later than its end.
uint32_t Partition::told_ms(Ref ref, NodeSeconds now) const {
    if (!lease_runs(ref, now)) return 0;
    const int64_t left_ms = (int64_t(arena_->descriptor(ref).lease_end) - now - 1) * 1000 - lease_.grace_ms;
    if (left_ms < int64_t(lease_term_ms_min)) return 0;
    return std::min({uint32_t(left_ms), flush_ms_left(now), terms_.longest_ms()});
}

Partition::Granted Partition::grant(Index::Place& at, NodeSeconds now, Asker asker, Cost* report) {
    using protocol::LeaseDenial;
    if (!lease_.enabled) return {};
    Granted granted;
    uint32_t term_ms = 0;
    if (asker != Asker::mutation || (arena_->descriptor(at.ref).flags & item_read) != 0)
        granted.denied = lengthen(at, now, report, term_ms);
    else if (!lease_runs(at.ref, now))
        granted.denied = LeaseDenial::young_;
    if (granted.denied != LeaseDenial::none) leases_.denied[size_t(granted.denied)]++;
    if (term_ms == 0 && asker != Asker::report) term_ms = told_ms(at.ref, now);
    if (term_ms == 0) {
        if (granted.denied == LeaseDenial::none) granted.denied = LeaseDenial::short_;
        return granted;
    }
    true_exptime(at, now);
    protocol::Grant& told = granted.grant.emplace();
    told.offset = region_->header().arena_offset + arena_->offset(at.ref);
    told.length = meta(at.ref).item_bytes;
    told.capacity = uint32_t(arena_->capacity(at.ref));
    told.generation = layout::Guard{arena_->header(at.ref).guard}.generation();
    told.term_ms = term_ms;
    granted.denied = LeaseDenial::none;
    return granted;
}

// Grants a new lease, or extends one.
protocol::LeaseDenial Partition::lengthen(Index::Place& at, NodeSeconds now, Cost* report, uint32_t& granted_ms) {
    using protocol::LeaseDenial;
    reclaim_dead(now);
    if (!can_list()) return LeaseDenial::no_room_;
    uint32_t term_ms = 0;
    if (const LeaseDenial why = judge_lease(at.ref, now, report != nullptr, term_ms); why != LeaseDenial::none) return why;
    const bool moves = !leasable(at.ref) || (sparse(at.ref) && !lease_runs(at.ref, now));
    if (moves && (report != nullptr || !move_to_zone(at, now))) return LeaseDenial::no_room_;
    const uint32_t lease_end = now + lease_kept_s(term_ms, lease_.grace_ms);
    if (report != nullptr && !affords(*report, at.ref, lease_end, now)) return LeaseDenial::none;
    count_leased(at.ref, lease_end, now);
    arena_->descriptor(at.ref).flags &= uint8_t(~item_read);
    granted_ms = term_ms;
    return LeaseDenial::none;
}

protocol::LeaseDenial Partition::judge_lease(Ref ref, NodeSeconds now, bool by_report, uint32_t& term_ms) {
    using protocol::LeaseDenial;
    const Descriptor& item = arena_->descriptor(ref);
    if ((item.flags & (item_stale | item_win_sent)) != 0) return LeaseDenial::tokens_;
    if (meta(ref).item_bytes > leased_item_bytes_max) return LeaseDenial::no_room_;
    press(now);
    const uint32_t touches = uint32_t(item.access_count) + 1;
    const uint32_t wanted_ms = terms_.term_ms(touches, item.queue);
    if (touches < lease_.from_touches || wanted_ms == 0) return LeaseDenial::young_;
    if (const LeaseDenial why = judge_dead(ref, now); why != LeaseDenial::none) return why;
    term_ms = std::min(wanted_ms, lease_ms_left(ref, now));
    if (term_ms < std::min(lease_term_ms_min, wanted_ms)) return LeaseDenial::short_;
    if (arena_->lease_stop().stopped(now)) return LeaseDenial::stopped_;
    const bool runs = lease_runs(ref, now);
    if (draining(ref) && (by_report || runs)) return LeaseDenial::draining_;
    if (runs && sparse(ref)) return LeaseDenial::sparse_;
    return LeaseDenial::none;
}

// S8, for the memory limit and the dead slots of all partitions.
protocol::LeaseDenial Partition::judge_dead(Ref ref, NodeSeconds now) const {
    using protocol::LeaseDenial;
    const double share = arena_->dead_share();
    if (share <= lease_.dead_share) return LeaseDenial::none;
    if (share > 2 * lease_.dead_share && !lease_runs(ref, now)) return LeaseDenial::dead_;
    return left_dead_slot(ref) ? LeaseDenial::dead_key_ : LeaseDenial::none;
}

bool Partition::affords(Cost& report, Ref ref, uint32_t lease_end, NodeSeconds now) const {
    const NodeSeconds kept_until = lease_runs(ref, now) ? arena_->descriptor(ref).lease_end : now;
    report.byte_s = lease_end > kept_until ? arena_->capacity(ref) * (lease_end - kept_until) : 0;
    report.over = report.byte_s > report.byte_s_max;
    return !report.over;
}

Renewal Partition::renew(const Access& seen, NodeSeconds now, uint64_t byte_s_max) {
    bool same_generation = false;
    const Ref ref = seen_item(seen, same_generation);
    if (ref == nil || hash_key(key_of(ref), region_->view().hash_seed) != seen.hash) return {};
    if (dead_by_time(ref, now) || flushed(ref)) return {};
    record(seen, now);
    Cost cost{byte_s_max};
    Index::Place at{nullptr, ref};
    const Granted granted = grant(at, now, Asker::report, &cost);
    CHECK(at.ref == ref);
    if (cost.over) return {Renewal::Outcome::over};
    if (!granted.grant.has_value()) return {Renewal::Outcome::seen};
    return {Renewal::Outcome::renewed, granted.grant->term_ms, cost.byte_s};
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
    item.lease_end = lease_end;
    add_leased(ref);
    note_pinned(arena_->page(page_of(ref)).run_head, lease_end, now);
}

void Partition::add_leased(Ref ref) {
    const uint32_t lease_end = arena_->descriptor(ref).lease_end;
    LeasedIn& in = leased_in_[lease_end % lease_seconds_max];
    if (in.second != lease_end) in = {lease_end, 0, 0};
    in.bytes += arena_->capacity(ref);
    in.filled += meta(ref).item_bytes;
}

void Partition::uncount_leased(Ref ref) {
    const uint32_t lease_end = arena_->descriptor(ref).lease_end;
    LeasedIn& in = leased_in_[lease_end % lease_seconds_max];
    if (in.second != lease_end) return;
    const uint64_t bytes = arena_->capacity(ref), filled = meta(ref).item_bytes;
    CHECK(in.bytes >= bytes);
    CHECK(in.filled >= filled);
    in.bytes -= bytes;
    in.filled -= filled;
}

uint64_t Partition::leased_bytes(NodeSeconds now) const {
    uint64_t bytes = 0;
    for (const LeasedIn& in : leased_in_)
        if (in.second >= now) bytes += in.bytes;
    return bytes;
}

// Reserves an entry in the list of pages that leases run in, before any change that leads to note_pinned(). False: no memory.
bool Partition::can_list() noexcept {
    if (pinned_pages_.size() < pinned_pages_.capacity()) return true;
    try {
        pinned_pages_.reserve(std::max<size_t>(64, 2 * pinned_pages_.size()));
        return true;
    } catch (const std::bad_alloc&) {
        return false;
    }
}

// Called after can_list().
void Partition::note_pinned(uint64_t number_of_page, uint32_t lease_end, NodeSeconds now) {
    Page& page = arena_->page(number_of_page);
    page.lease_end = std::max(page.lease_end, lease_end);
    if (page.listed != 0) return;
    if (pinned_pages_.size() >= pinned_compact_at_) {
        // A page that left and returned is listed twice.
        std::sort(pinned_pages_.begin(), pinned_pages_.end());
        pinned_pages_.erase(std::unique(pinned_pages_.begin(), pinned_pages_.end()), pinned_pages_.end());
        std::erase_if(pinned_pages_, [&](uint32_t other) {
            if (arena_->owner_hint(other) != number) return true;
            if (leases_run_in(other, now)) return false;
            unlist(other);
            return true;
        });
        pinned_compact_at_ = std::max<size_t>(64, 2 * pinned_pages_.size());
    }
    page.listed = 1;
    tally_[page.size_class].listed++;
    CHECK(pinned_pages_.size() < pinned_pages_.capacity());
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

// Moves the item as a new generation into the lease zone, so that all other pages stay free of leases (S8).
bool Partition::move_to_zone(Index::Place& at, NodeSeconds now) {
    const uint8_t size_class = arena_->classes().of(meta(at.ref).item_bytes);
    const Ref to = size_class == layout::large_class ? take_zone_run(at.ref) : take_zone_slot(size_class, now, at.ref);
    if (to == nil) return false;
    move_item(at, to, now);
    at.ref = to;
    leases_.moved++;
    return true;
}

// A zone run for that item; nil if it is so long that its copy would delay others under the lock.
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
    reclaim_dead(now);
    settle_drains(size_class, now, pinned);
    if (Ref ref = take(); ref != nil) return ref;
    if (!evict_) return nil;
    if (make_room_in_zone(size_class, now, pinned)) return take_slot(size_class, /* in_zone= */ true);
    return free_zone_page(size_class, now, pinned) ? take() : nil;
}

// Moves an unleased item out of the zone; if no slot outside is free, the class evicts its next victim for it. A flushed or
// expired item is freed instead: moved, it would be a new generation, which no earlier flush hides (S11).
bool Partition::make_room_in_zone(uint8_t size_class, NodeSeconds now, Ref pinned) {
    constexpr uint32_t depth_max = 32;  // among the last of the class
    Ref leaves = nil;
    const auto may_leave = [&](Ref ref) {
        if (!leasable(ref) || !may_go(ref, now)) return false;
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
        if (to == nil) return true;  // it was another slot of the zone
    }
    move_item(place_of(leaves), to, now);
    return true;
}

// The same bytes as a new generation. The read counter stays with the old slot, so it is read first.
void Partition::move_item(Index::Place from, Ref to, NodeSeconds now) {
    CHECK(!flushed(from.ref));
    see_reads(from.ref, now);
    const std::string_view key = key_of(from.ref);
    NewItem item = same_item({key, hash_key(key, region_->view().hash_seed)}, from.ref);
    item.counts_as_new = false;
    item.same_item = true;
    put(to, item, now, from);
}

// The key of a dead item is still in the slot.
void Partition::retire(Ref ref, NodeSeconds now) {
    if (!lease_runs(ref, now) || broken::s2_free_leased) {
        part(ref);
        return;
    }
    uncount_leased(ref);
    arena_->descriptor(ref).state = SlotState::dead;
    dead_->add(ref, private_hash(key_of(ref)));
    leases_.dead_bytes += arena_->capacity(ref);
    leases_.dead_slots++;
    arena_->count_dead(int64_t(arena_->capacity(ref)));
}

uint32_t Partition::reclaim_dead(NodeSeconds now) {
    if (dead_ == nullptr) return 0;
    uint32_t freed = 0;
    dead_->ended(now, [&](Ref ref) {
        CHECK(layout::Guard{arena_->header(ref).guard}.state() == layout::GuardState::dead);
        count_dead_gone(ref);
        part(ref);
        freed++;
    });
    return freed;
}

void Partition::count_dead_gone(Ref ref) {
    const uint64_t bytes = arena_->capacity(ref);
    CHECK(leases_.dead_bytes >= bytes);
    CHECK(leases_.dead_slots > 0);
    leases_.dead_bytes -= bytes;
    leases_.dead_slots--;
    arena_->count_dead(-int64_t(bytes));
}

// The slot is about to store its key again.
void Partition::forget_dead(Ref ref) {
    dead_->remove(ref);
    count_dead_gone(ref);
    leases_.revived++;
}

// The slot holds an item again, under its old lease: a search for leased items must find it (S11).
void Partition::revive(Ref ref, NodeSeconds now) {
    add_leased(ref);
    if (broken::s11_revive_unlisted) return;
    note_pinned(arena_->page(page_of(ref)).run_head, arena_->descriptor(ref).lease_end, now);
}

void Partition::add_lease_stats(LeaseStats& sum, NodeSeconds now) const {
    sum.granted += leases_.granted;
    sum.renewed += leases_.renewed;
    for (size_t why = 0; why < sum.denied.size(); why++) sum.denied[why] += leases_.denied[why];
    sum.draining += draining_.size();
    sum.drained += leases_.drained;
    sum.moved += leases_.moved;
    for (const LeasedIn& in : leased_in_) {
        if (in.second < now) continue;
        sum.bytes += in.bytes;
        sum.slack_bytes += in.bytes - in.filled;
    }
    sum.dead_bytes += leases_.dead_bytes;
    sum.dead_slots += leases_.dead_slots;
    sum.revived += leases_.revived;
    sum.in_place += leases_.in_place;
    const uint32_t alpha_ms = terms_.alpha_ms();
    if (sum.alpha_ms == 0 || alpha_ms < sum.alpha_ms) sum.alpha_ms = alpha_ms;
}

}  // namespace farcached::node
