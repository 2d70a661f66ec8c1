// SPDX-License-Identifier: BSD-3-Clause
#include "node/store/spill.h"

#include <algorithm>
#include <new>

#include "base/check.h"
#include "base/hash.h"

namespace farcached::node {

void PartsOfRoom::move_item(Index::Place from, Ref to, NodeSeconds now) {
    CHECK(!items_->hidden(from.ref));
    order_->see_reads(from.ref, now);
    const std::string_view key = key_of(*arena_, from.ref);
    NewItem item = copy_of(*arena_, from.ref, {key, hash_key(key, region_->view().hash_seed)});
    item.counts_as_new = false;
    item.same_item = true;
    items_->put(to, item, now, from);
}

void Spill::attach(const PartsOfRoom& parts, const Tiers& tiers, const SpillRules* rules, uint64_t private_seed) {
    PartsOfRoom::operator=(parts);
    tiers_ = tiers;
    rules_ = rules;
    dropped_ = Ghosts(private_seed);
}

uint8_t Spill::stub_class(Ref ref) const {
    return arena_->classes().of(layout::item_bytes(arena_->header(ref).key_len, sizeof(Stub)));
}

bool Spill::was_read(Ref ref) const { return (arena_->descriptor(ref).flags & (item_fetched | item_read)) != 0; }

// X6. A key is remembered from its first drop on.
bool Spill::returned(Ref ref) {
    constexpr uint64_t ghosts_min = 64;
    const uint64_t hash = hash_key(key_of(*arena_, ref), region_->view().hash_seed);
    const bool known = dropped_.take(hash) != 0;
    dropped_.add(hash, 1, std::max(ghosts_min, items_->counts().turnover().items));
    return known;
}

// Whether the value of this item, which leaves memory, goes to a tier.
bool Spill::moves(Ref ref, NodeSeconds now) {
    return may_move(ref, now) && (!rules_->drop_unread || was_read(ref) || returned(ref));
}

bool Spill::may_move(Ref ref, NodeSeconds now) const {
    if (!tiers_.any() || is_stub(*arena_, ref)) return false;
    const layout::ItemHeader& header = arena_->header(ref);
    if (header.value_len < rules_->value_bytes_min) return false;
    if (uint64_t(header.key_len) + header.value_len > tiers_.record_bytes_max()) return false;
    if (stub_class(ref) >= size_class_of(*arena_, ref)) return false;  // no memory would be gained
    return !items_->dead(ref, now) && !leases_->runs(ref, now) && !held(*arena_, ref);
}

bool Spill::take(Ref ref, Ref keep, NodeSeconds now) {
    if (!tiers_.any()) return false;
    order_->see_reads(ref, now);
    if (!moves(ref, now)) return false;
    const uint8_t size_class = stub_class(ref);
    Ref to = slot_for_stub(size_class, keep, now);
    if (to == nil && has_share()) return free_page(ref, keep, now);
    if (to == nil) to = slot_of_oldest(size_class, keep, now);
    return to != nil && replace(ref, to, now);
}

bool Spill::take_from_page(Ref ref, Ref keep, NodeSeconds now) {
    if (!tiers_.any()) return false;
    order_->see_reads(ref, now);
    if (!moves(ref, now)) return false;
    if (const Ref to = slot_for_stub(stub_class(ref), keep, now); to != nil) return replace(ref, to, now);
    if (size_class_of(*arena_, ref) != layout::large_class) return false;
    // Its own pages have room for its stub, and for those of the next items.
    std::vector<Moved> moved;
    try {
        moved.reserve(1);
    } catch (const std::bad_alloc&) {
        return false;
    }
    leave(ref, moved, now);
    for (const Moved& item : moved) insert(item, keep, now);
    return true;
}

void Spill::take_idle(Ref ref, NodeSeconds now) {
    if (!tiers_.any() || rules_->idle_s == UINT32_MAX) return;
    order_->see_reads(ref, now);
    if (seconds_since(arena_->descriptor(ref).last_access, now) < rules_->idle_s || !may_move(ref, now)) return;
    if (rules_->drop_unread && !was_read(ref)) return;
    if (const Ref to = slot_for_stub(stub_class(ref), nil, now); to != nil) replace(ref, to, now);
}

// ---- slots for stubs --------------------------------------------------------------------------------------

// A free slot, or that of a lost stub; nil: none.
Ref Spill::slot_for_stub(uint8_t size_class, Ref keep, NodeSeconds now) {
    constexpr uint32_t tails_max = 4;  // stubs of one age are lost together
    const auto take = [&]() -> Ref {
        if (const Ref ref = slots_->take(size_class, /* in_zone= */ false); ref != nil) return ref;
        uint64_t page = 0;
        if (slots_->page_of_pool(page, size_class)) return slots_->take_first(page, size_class);
        return slots_->take(size_class, /* in_zone= */ true);
    };
    if (const Ref ref = take(); ref != nil) return ref;
    const bool reclaimed = order_->walk(size_class, tails_max, now, [&](Ref ref) {
        if (!items_->lost(ref) || ref == keep || !may_go(ref, now)) return false;
        items_->evict_or_reclaim(ref, now);
        return true;
    });
    return reclaimed ? take() : nil;
}

// nil: the class has no stub that may go.
Ref Spill::slot_of_oldest(uint8_t size_class, Ref keep, NodeSeconds now) {
    const auto stub = [&](Ref ref) { return is_stub(*arena_, ref) && ref != keep && may_go(ref, now); };
    const Ref oldest = order_->victim(size_class, now, stub);
    if (oldest == nil) return nil;
    items_->evict_or_reclaim(oldest, now);
    return slot_for_stub(size_class, keep, now);
}

// Whether stubs may have one more page of the partition (X4).
bool Spill::has_share() const {
    uint64_t pages = 0, stub_bytes = 0;
    for (uint8_t i = 1; i < class_numbers; i++) {
        pages += slots_->pages(i);
        stub_bytes += items_->counts().stub_bytes(i);
    }
    return stub_bytes < pages * layout::page_bytes / 2;
}

// ---- moving -----------------------------------------------------------------------------------------------

// The tier's copy of the item's value.
std::optional<Place> Spill::put(Ref ref) {
    const layout::ItemHeader& header = arena_->header(ref);
    const bool key_binary = (header.format & layout::format_key_binary) != 0;
    const LeavingValue leaving{key_of(*arena_, ref), value_of(*arena_, ref), header.flags, header.cas, key_binary,
                               is_foreign(*arena_, ref)};
    return tiers_.put(leaving, generation_of(*arena_, ref));
}

// The item becomes a stub in that slot.
bool Spill::replace(Ref ref, Ref to, NodeSeconds now) {
    const std::optional<Place> place = put(ref);
    if (!place.has_value()) {
        items_->free_slot(to);
        return false;
    }
    const Stub stub{*place, arena_->header(ref).value_len};
    const std::string_view key = key_of(*arena_, ref);
    NewItem item = copy_of(*arena_, ref, {key, hash_key(key, region_->view().hash_seed)});
    item.value = stub.bytes();
    item.format |= layout::format_stub;
    item.counts_as_new = false;
    item.same_item = true;
    items_->put(to, item, now, items_->place_of(ref));
    return true;
}

// The next victims of the victim's class, as many as its page has items; `here` are those on that page, the victim first. Both
// lists have room for as many.
void Spill::next_to_move(Ref victim, Ref keep, NodeSeconds now, std::vector<Ref>& here, std::vector<Ref>& elsewhere) {
    const uint64_t page = page_of(victim);
    const uint32_t items = arena_->page(page).live;
    here.push_back(victim);
    for (const bool spares_read : {true, false}) {  // those read since they were passed over come last
        order_->walk(size_class_of(*arena_, victim), 4 * items, now, [&](Ref ref) {
            if (here.size() + elsewhere.size() >= items) return true;
            if (ref == victim || order_->stays(ref) == spares_read || ref == keep || !may_go(ref, now)) return false;
            (page_of(ref) == page ? here : elsewhere).push_back(ref);
            return false;
        });
    }
}

// X4. The next victims leave the class; those on other pages make room for what stays on the victim's page.
bool Spill::free_page(Ref victim, Ref keep, NodeSeconds now) {
    const uint64_t page = page_of(victim);
    const uint8_t size_class = size_class_of(*arena_, victim);
    const uint32_t items = arena_->page(page).live;
    if (draining_->pinned(page, now) || (keep != nil && page_of(keep) == page)) return false;
    std::vector<Moved> moved;
    std::vector<Ref> elsewhere, here, room;
    try {
        for (auto* list : {&elsewhere, &here, &room}) list->reserve(items);
        moved.reserve(items);
    } catch (const std::bad_alloc&) {
        return false;
    }
    next_to_move(victim, keep, now, here, elsewhere);
    for (const Ref ref : elsewhere) leave(ref, moved, now);
    while (room.size() < elsewhere.size()) {
        Ref ref = slots_->take(size_class, /* in_zone= */ false);
        if (ref == nil) ref = slots_->take(size_class, /* in_zone= */ true);
        if (ref == nil) break;
        room.push_back(ref);
    }
    for (const Ref ref : here) leave(ref, moved, now);
    if (slots_->owns(page)) {
        slots_->for_live(page, [&](Ref ref) {
            if (room.empty() || items_->dead(ref, now)) return leave(ref, moved, now);
            move_item(items_->place_of(ref), room.back(), now);
            room.pop_back();
        });
    }
    for (const Ref ref : room) items_->free_slot(ref);
    for (const Moved& item : moved) insert(item, keep, now);
    return true;
}

// The item leaves its slot: moved, if its value reaches a write buffer.
void Spill::leave(Ref ref, std::vector<Moved>& moved, NodeSeconds now) {
    order_->see_reads(ref, now);
    if (!moves(ref, now) || moved.size() == moved.capacity()) return items_->evict_or_reclaim(ref, now);
    const layout::ItemHeader& header = arena_->header(ref);
    const Descriptor& descriptor = arena_->descriptor(ref);
    Moved& item = moved.emplace_back();
    try {
        item.key = key_of(*arena_, ref);
    } catch (const std::bad_alloc&) {
        moved.pop_back();
        return items_->evict_or_reclaim(ref, now);
    }
    const std::optional<Place> place = put(ref);
    if (!place.has_value()) {
        moved.pop_back();
        return items_->evict_or_reclaim(ref, now);
    }
    item.stub = {*place, header.value_len};
    item.cas = header.cas;
    item.flags = header.flags;
    item.exptime = descriptor.exptime;
    item.last_access = descriptor.last_access;
    item.format = uint16_t(header.format | layout::format_stub);
    item.access_count = descriptor.access_count;
    item.descriptor_flags = descriptor.flags;
    item.left_class = size_class_of(*arena_, ref);
    items_->kill(ref, items_->place_of(ref).slot, Gone::replaced, now);
}

void Spill::insert(const Moved& moved, Ref keep, NodeSeconds now) {
    const uint8_t size_class = arena_->classes().of(layout::item_bytes(moved.key.size(), sizeof(Stub)));
    const Ref to = slot_for_stub(size_class, keep, now);
    if (to == nil) {  // another partition took the page
        tiers_.forget(moved.stub.place);
        return items_->counts().evicted(moved.left_class);
    }
    NewItem item;
    item.key = {moved.key, hash_key(moved.key, region_->view().hash_seed)};
    item.value = moved.stub.bytes();
    item.flags = moved.flags;
    item.exptime = moved.exptime;
    item.cas = moved.cas;
    item.format = moved.format;
    item.descriptor_flags = moved.descriptor_flags;
    item.counts_as_new = false;
    item.moves_no_other = true;
    items_->put(to, item, now, {});
    order_->recall(to, {moved.last_access, moved.access_count, moved.descriptor_flags}, now);
}

}  // namespace farcached::node
