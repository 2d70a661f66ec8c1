// SPDX-License-Identifier: BSD-3-Clause
#include "node/store/partition.h"

#include "base/broken.h"
#include "base/check.h"
#include "base/hash.h"
#include "node/items/stub.h"
#include "protocol/words.h"

namespace farcached::node {

namespace {

constexpr uint32_t told_times_max = 128;  // limit per record: enough for the last queue

}  // namespace

void Partition::attach(fabric::Region& region, Arena& arena, const Config& config, uint32_t which,
                       uint32_t partition_count, uint64_t secret, uint64_t private_seed,
                       uint64_t first_generation) {
    region_ = &region;
    arena_ = &arena;
    evict_ = config.evict;
    partition_count_ = partition_count;
    tiers_ = {config.peer, config.disk};
    const uint16_t number = uint16_t(which);
    const uint64_t generation = first_generation / layout::partitions_max * layout::partitions_max + which;
    slots_.attach(region, arena, number, partition_count);
    held_.attach(arena);
    leases_.attach(arena, config, number, partition_count, private_seed);
    draining_.attach(arena, config, partition_count, slots_, leases_);
    hidden_.attach(arena, region.partition(which), former_of(config.file) != nullptr ? 0 : generation);  // below: its items
    order_.attach(arena, config.policy, private_seed);
    items_.attach(region, config, number, partition_count, {&arena, &slots_, &order_, &hidden_, &leases_, &draining_, tiers_});
    items_.writer().attach(arena, region.header().arena_offset, secret,
                           config.offered || config.lease.enabled || config.file != nullptr, generation);
    const PartsOfRoom parts{&region, &arena, &slots_, &order_, &leases_, &draining_, &items_, evict_};
    spill_.attach(parts, tiers_, &config.spill, private_seed);
    room_.attach(parts, spill_);
    zone_.attach(parts, room_);
}

void Partition::keep(Notes& notes, uint32_t number) {
    hidden_.keep(&notes.flush_floors[number]);
    items_.keep(&notes.generation_ceilings[number], &notes.cas_ceilings[number]);
}

bool Partition::stub_lives(std::string_view value) const {
    return value.size() == sizeof(Stub) && tiers_.alive(stub_from(value).place);
}

bool Partition::restore(const FormerRun::Item& former, const protocol::Key& key, NodeSeconds now, Reservation& reserved,
                        uint64_t& need_pages) {
    need_pages = 0;
    if (const Index::Place other = items_.locate(key); other.slot != nullptr) {
        if (generation_of(*arena_, other.ref) >= former.generation) return true;
        items_.kill(other.ref, other.slot, Gone::replaced, now);
    }
    const bool stub = (former.format & layout::format_stub) != 0;
    if (stub && !stub_lives(former.value)) return true;
    NewItem item;
    item.key = key;
    item.value = former.value;
    item.flags = former.flags;
    item.exptime = former.exptime;
    item.cas = former.cas;
    item.format = former.format;
    item.descriptor_flags = former.descriptor_flags;
    item.generation = former.generation;
    item.counts_as_new = false;
    const Ref ref = room_for(item, {}, now, reserved, need_pages);
    if (ref == nil) return false;
    items_.put(ref, item, now, {});
    if (stub) tiers_.adopt(stub_from(former.value).place);
    order_.recall(ref, {former.last_access, former.access_count, former.descriptor_flags}, now);
    return true;
}

// ---- writing ----------------------------------------------------------------------------------------

Ref Partition::room_for(const NewItem& item, Index::Place old, NodeSeconds now, Reservation& reserved,
                        uint64_t& need_pages, bool made_of_old) {
    need_pages = 0;
    items_.reclaim_dead(now);
    const Ref replaced = old.slot == nullptr ? nil : old.ref;
    if (replaced != nil && items_.fits_in_place(replaced, item, now)) return replaced;
    if (replaced == nil && !evict_ && items_.chain_full(item.key.hash)) return nil;  // put() would evict (-M)
    if (const Ref dead = leases_.find_dead(item.key, item.bytes()); dead != nil) return dead;
    if (made_of_old) {
        reserved.keep_first = arena_->page(page_of(replaced)).run_head;
        reserved.keep_pages = std::max(UINT32_C(1), region_->page(reserved.keep_first).run_pages);
    }
    return room_.allocate(item.bytes(), now, replaced, reserved, need_pages);
}

bool Partition::has_room_for_foreign(uint64_t bytes, double share, NodeSeconds now) {
    constexpr uint32_t evictions_max = 8;
    const uint64_t most = uint64_t(double(arena_->pool().limit_bytes()) * share) / partition_count_;
    for (uint32_t i = 0; items_.counts().foreign_bytes() + bytes > most; i++)
        if (i == evictions_max || bytes > most || !room_.evict_foreign(arena_->classes().of(bytes), now)) return false;
    return true;
}

Index::Place Partition::rewrite(Index::Place at, const NewItem& changed, NodeSeconds now) {
    NewItem again = changed;
    again.counts_as_new = false;
    again.same_item = true;
    Ref ref = at.ref;
    if (changed.bytes() <= layout::page_bytes && !items_.fits_in_place(ref, changed, now)) {
        Reservation none;
        uint64_t need = 0;
        ref = room_for(again, at, now, none, need);
    }
    if (ref == nil && held(*arena_, at.ref) && !same_value(*arena_, at.ref, changed)) return {};
    if (ref == nil) ref = at.ref;
    CHECK(changed.bytes() <= arena_->capacity(at.ref));
    items_.put(ref, again, now, at);
    return {at.slot, ref};
}

// ---- slots that are used without the lock (node/store/slots.h) ---------------------------------------

void Partition::unpin(Ref ref) {
    if (held_.unpin(ref) && arena_->descriptor(ref).state == SlotState::parted) items_.free_slot(ref);
}

Ref Partition::receive(uint64_t bytes, NodeSeconds now, Reservation& reserved, uint64_t& need_pages) {
    need_pages = 0;
    items_.reclaim_dead(now);
    const Ref ref = room_.allocate(bytes, now, /* keep= */ nil, reserved, need_pages);
    if (ref == nil) return nil;
    try {
        held_.hold(ref);
    } catch (const std::bad_alloc&) {
        items_.free_slot(ref);
        return nil;
    }
    arena_->descriptor(ref).state = SlotState::receiving;
    items_.writer().begin_write(ref);
    return ref;
}

Ref Partition::room_for_received(Ref received, const NewItem& item, Index::Place old, NodeSeconds now) {
    items_.reclaim_dead(now);
    if (old.slot != nullptr && leases_.runs(old.ref, now) && items_.fits_in_place(old.ref, item, now)) return old.ref;
    if (old.slot == nullptr && !evict_ && items_.chain_full(item.key.hash)) return nil;  // put() would evict (-M)
    const Ref dead = leases_.find_dead(item.key, item.bytes());
    return dead != nil ? dead : received;
}

void Partition::take_received(Ref received) {
    CHECK(arena_->descriptor(received).state == SlotState::receiving);
    arena_->withheld().uncount_receiving(arena_->kept_by(received));
    const bool last = held_.let_go(received);
    CHECK(last);
}

void Partition::drop_received(Ref received) {
    take_received(received);
    items_.free_slot(received);
}

// ---- leases -----------------------------------------------------------------------------------------

Partition::Granted Partition::grant(Index::Place& at, NodeSeconds now, Asker asker, LeaseCost* report) {
    using protocol::LeaseDenial;
    if (!leases_.enabled()) return {};
    Granted granted;
    uint32_t term_ms = 0;
    if (asker != Asker::mutation || (arena_->descriptor(at.ref).flags & item_read) != 0)
        granted.denied = lengthen(at, now, report, term_ms);
    else if (!leases_.runs(at.ref, now))
        granted.denied = LeaseDenial::young_;
    if (granted.denied != LeaseDenial::none) leases_.count_denied(granted.denied);
    if (term_ms == 0 && asker != Asker::report) term_ms = leases_.told_ms(at.ref, now);
    if (term_ms == 0) {
        if (granted.denied == LeaseDenial::none) granted.denied = LeaseDenial::short_;
        return granted;
    }
    items_.true_exptime(at, now);
    protocol::Grant& told = granted.grant.emplace();
    told.offset = region_->header().arena_offset + arena_->offset(at.ref);
    told.length = uint32_t(bytes_of(*arena_, at.ref));
    told.capacity = uint32_t(arena_->capacity(at.ref));
    told.generation = generation_of(*arena_, at.ref);
    told.term_ms = term_ms;
    granted.denied = LeaseDenial::none;
    return granted;
}

// Grants a new lease, or extends one.
protocol::LeaseDenial Partition::lengthen(Index::Place& at, NodeSeconds now, LeaseCost* report, uint32_t& granted_ms) {
    using protocol::LeaseDenial;
    if (is_stub(*arena_, at.ref)) return LeaseDenial::young_;  // it was read too seldom for memory
    items_.reclaim_dead(now);
    if (!leases_.pages().can_add()) return LeaseDenial::no_room_;
    uint32_t term_ms = 0;
    const LeaseDenial why = leases_.judge(at.ref, now, report != nullptr, items_.counts().turnover(), term_ms);
    if (why != LeaseDenial::none) return why;
    const bool moves = leases_.must_move(at.ref, now);
    if (moves && (report != nullptr || !zone_.move_here(at, now))) return LeaseDenial::no_room_;
    const uint32_t lease_end = leases_.end_of(term_ms, now);
    if (report != nullptr && !leases_.affords(*report, at.ref, lease_end, now)) return LeaseDenial::none;
    leases_.grant(at.ref, lease_end, now);
    granted_ms = term_ms;
    return LeaseDenial::none;
}

Renewal Partition::renew(const Access& seen, NodeSeconds now, uint64_t byte_s_max) {
    bool same_generation = false;
    const Ref ref = seen_item(seen, same_generation);
    if (ref == nil || hash_key(key_of(*arena_, ref), region_->view().hash_seed) != seen.hash) return {};
    if (items_.dead(ref, now)) return {};
    record(seen, now);
    LeaseCost cost{byte_s_max};
    Index::Place at{nullptr, ref};
    const Granted granted = grant(at, now, Asker::report, &cost);
    CHECK(at.ref == ref);
    if (cost.over) return {Renewal::Outcome::over};
    if (!granted.grant.has_value()) return {Renewal::Outcome::seen};
    return {Renewal::Outcome::renewed, granted.grant->term_ms, cost.byte_s};
}

// ---- reports of accesses ----------------------------------------------------------------------------

// The live item of that key in that slot, in any generation; nil: none.
Ref Partition::seen_item(const Access& seen, bool& same_generation) const {
    layout::Slot slot{seen.slot_word};
    const uint64_t number_of_page = slot.offset() / layout::page_bytes;
    const Page& page = arena_->page(number_of_page);
    if (!slots_.owns(number_of_page)) return nil;
    if (page.size_class != slot.size_class()) return nil;
    Ref ref = arena_->ref_at(slot.offset());
    if (arena_->descriptor(ref).state != SlotState::live) return nil;
    const layout::Guard guard{words::load_relaxed(arena_->words(ref))};
    same_generation = guard.word == seen.guard_word;
    if (same_generation) return ref;
    if (hash_key(key_of(*arena_, ref), region_->view().hash_seed) != seen.hash) return nil;
    same_generation = seen.guard_word == 0 && layout::generation_tag(guard.generation()) == seen.generation_tag;
    return ref;
}

void Partition::record(const Access& seen, NodeSeconds now) {
    bool same_generation = false;
    const Ref ref = seen_item(seen, same_generation);
    if (ref == nil || hidden_.is_kept_moved(ref)) return;
    const uint32_t times = std::min(seen.times, told_times_max);
    if (same_generation) return order_.access(ref, now, times);
    order_.access_earlier(ref, now, times);
}

// ---- flushes and sweeps -----------------------------------------------------------------------------

void Partition::flush(NodeSeconds now) {
    changes_.note_all();
    if (broken::s11_forget_floor) return;
    leases_.end_before(0);
    for (uint32_t page : leases_.pages().take_all()) {
        if (!slots_.owns(page)) continue;
        if (arena_->page(page).listed == 0) continue;
        leases_.pages().remove(page);
        slots_.for_live(page, [&](Ref ref) {
            if (leases_.runs(ref, now)) items_.kill(ref, items_.place_of(ref).slot, Gone::reclaimed, now);
        });
    }
    hidden_.flush(items_.writer().next_generation());
}

uint64_t Partition::hide(const PartialFlush& what, uint64_t order) {
    what.kept == nullptr ? changes_.note_all() : changes_.note_moved(what.move.until);
    const uint64_t floor = items_.writer().next_generation();
    if (broken::s11_forget_floor) return floor;
    const bool hidden = what.kept != nullptr ? hidden_.hide_moved(what.kept, floor, order, what.move) :
                                               hidden_.hide_prefix(what.prefix, floor, order);
    return hidden ? floor : 0;
}

void Partition::kill_leased(uint64_t page, const PartialFlush& what, uint64_t floor, NodeSeconds now) {
    if (broken::s11_spare_leased) return;
    if (!slots_.owns(page) || arena_->page(page).listed == 0) return;
    slots_.for_live(page, [&](Ref ref) {
        if (!leases_.runs(ref, now) || generation_of(*arena_, ref) >= floor) return;
        if (!what.has(key_of(*arena_, ref)) || items_.keep_moved(ref, now)) return;
        items_.kill(ref, items_.place_of(ref).slot, Gone::deleted, now);
    });
}

// Removes expired and flushed items among the next to go; returns their number. Bounded, because the lock is held.
uint64_t Partition::reclaim_tails(uint8_t size_class, NodeSeconds now) {
    constexpr uint64_t tails_max = 1024;
    for (uint64_t removed = 0; removed < tails_max; removed++) {
        const Ref tail = order_.next_to_go(size_class);
        if (tail == nil || hidden_.hides_by_prefix(tail) || keeps_moved(tail, now) || !items_.dead(tail, now)) return removed;
        items_.evict_or_reclaim(tail, now);
    }
    return tails_max;
}

SweptPage Partition::sweep_page(uint64_t page, NodeSeconds now, bool tails) {
    SweptPage swept;
    if (tails) swept.removed = reclaim_tails(arena_->page(page).size_class, now);
    swept.checked = swept.removed;
    items_.reclaim_dead(now);
    if (!slots_.owns(page)) return swept;
    slots_.for_live(page, [&](Ref ref) {
        swept.checked++;
        items_.counts().checked(arena_->page(page).size_class);
        if (!items_.dead(ref, now)) return spill_.take_idle(ref, now);
        if (keeps_moved(ref, now) || items_.keep_moved(ref, now)) return;
        const Gone why = hidden_.hides_by_prefix(ref) ? Gone::deleted : items_.lost(ref) ? Gone::met : Gone::crawled;
        items_.kill(ref, items_.place_of(ref).slot, why, now);
        swept.removed++;
    });
    return swept;
}

void Partition::visit_page(uint64_t page, NodeSeconds now,
                           FunctionRef<void(const ItemView&)> visit) {
    slots_.for_live(page, [&](Ref ref) {
        if (!items_.dead(ref, now)) visit(ItemView{key_of(*arena_, ref), items_.meta(ref)});
    });
}

void Partition::add_stats(Stats& stats, NodeSeconds now) const {
    items_.add_stats(stats);
    room_.add_stats(stats);
    order_.add_stats(stats, now);
    slots_.add_stats(stats);
    hidden_.add_stats(stats);
    leases_.add_stats(stats.leases, now);
    draining_.add_stats(stats.leases);
}

}  // namespace farcached::node
