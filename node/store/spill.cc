// SPDX-License-Identifier: BSD-3-Clause
#include "node/store/spill.h"

#include <new>

#include "base/hash.h"

namespace farcached::node {

void Spill::attach(const PartsOfRoom& parts, DiskStore* disk, const SpillRules* rules) {
    PartsOfRoom::operator=(parts);
    disk_ = disk;
    rules_ = rules;
}

uint8_t Spill::stub_class(Ref ref) const {
    return arena_->classes().of(layout::item_bytes(arena_->header(ref).key_len, sizeof(Stub)));
}

// Whether the value of this item, which leaves memory, goes to the disk.
bool Spill::moves(Ref ref, NodeSeconds now) const {
    if (disk_ == nullptr || is_stub(*arena_, ref)) return false;
    const layout::ItemHeader& header = arena_->header(ref);
    if (header.value_len < rules_->value_bytes_min) return false;
    if (uint64_t(header.key_len) + header.value_len > disk_->record_bytes_max()) return false;
    if (stub_class(ref) >= size_class_of(*arena_, ref)) return false;  // no memory would be gained
    if (rules_->drop_unread && (arena_->descriptor(ref).flags & (item_fetched | item_read)) == 0) return false;
    return !items_->dead(ref, now) && !leases_->runs(ref, now) && !held(*arena_, ref);
}

bool Spill::take(Ref ref, Ref keep, NodeSeconds now) {
    if (disk_ == nullptr) return false;
    order_->see_reads(ref, now);
    if (!moves(ref, now)) return false;
    const uint8_t size_class = stub_class(ref);
    Ref to = slot_for_stub(size_class, now);
    if (to == nil && has_share(size_class)) return free_page(ref, keep, now);
    if (to == nil) to = slot_of_oldest(size_class, keep, now);
    return to != nil && replace(ref, to, now);
}

bool Spill::take_from_page(Ref ref, NodeSeconds now) {
    if (disk_ == nullptr) return false;
    order_->see_reads(ref, now);
    if (!moves(ref, now)) return false;
    if (const Ref to = slot_for_stub(stub_class(ref), now); to != nil) return replace(ref, to, now);
    if (size_class_of(*arena_, ref) != layout::large_class) return false;
    // Its own pages have room for its stub, and for those of the next items.
    std::vector<Moved> moved;
    try {
        moved.reserve(1);
    } catch (const std::bad_alloc&) {
        return false;
    }
    leave(ref, moved, now);
    for (const Moved& item : moved) insert(item, now);
    return true;
}

bool Spill::idle(Ref ref, NodeSeconds now) const {
    if (disk_ == nullptr || rules_->idle_s == UINT32_MAX) return false;
    return seconds_since(arena_->descriptor(ref).last_access, now) >= rules_->idle_s && moves(ref, now);
}

// ---- slots for stubs --------------------------------------------------------------------------------------

// A free slot, or that of a lost stub; nil: none.
Ref Spill::slot_for_stub(uint8_t size_class, NodeSeconds now) {
    constexpr uint32_t tails_max = 4;  // stubs of one age are lost together
    const auto take = [&]() -> Ref {
        if (const Ref ref = slots_->take(size_class, /* in_zone= */ false); ref != nil) return ref;
        uint64_t page = 0;
        if (slots_->page_of_pool(page, size_class)) return slots_->take_first(page, size_class);
        return slots_->take(size_class, /* in_zone= */ true);
    };
    if (const Ref ref = take(); ref != nil) return ref;
    const bool reclaimed = order_->walk(size_class, tails_max, now, [&](Ref ref) {
        if (!items_->lost(ref) || held(*arena_, ref)) return false;
        items_->evict_or_reclaim(ref, now);
        return true;
    });
    return reclaimed ? take() : nil;
}

Ref Spill::slot_of_oldest(uint8_t size_class, Ref keep, NodeSeconds now) {
    const auto may_go = [&](Ref ref) {
        return ref != keep && !leases_->runs(ref, now) && !draining_->drains(ref) && !held(*arena_, ref);
    };
    const Ref oldest = order_->victim(size_class, now, may_go);
    if (oldest == nil) return nil;
    items_->evict_or_reclaim(oldest, now);
    return slot_for_stub(size_class, now);
}

// Whether the class may have one more page of the partition (W4).
bool Spill::has_share(uint8_t size_class) const {
    uint64_t pages = 0;
    for (uint8_t i = 1; i < class_numbers; i++) pages += slots_->pages(i);
    return slots_->pages(size_class) < pages / 2;
}

// ---- moving -----------------------------------------------------------------------------------------------

// The item becomes a stub in that slot.
bool Spill::replace(Ref ref, Ref to, NodeSeconds now) {
    const std::string_view key = key_of(*arena_, ref), value = value_of(*arena_, ref);
    const std::optional<Place> place = disk_->put(key, value, generation_of(*arena_, ref));
    if (!place.has_value()) {
        items_->free_slot(to);
        return false;
    }
    const Stub stub{*place, uint32_t(value.size())};
    NewItem item = copy_of(*arena_, ref, {key, hash_key(key, region_->view().hash_seed)});
    item.value = stub.bytes();
    item.format |= layout::format_stub;
    item.counts_as_new = false;
    item.same_item = true;
    items_->put(to, item, now, items_->place_of(ref));
    return true;
}

// W4. The next victims leave the class; those on other pages make room for what stays on the victim's page.
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
        here.push_back(victim);
        order_->walk(size_class, 4 * items, now, [&](Ref ref) {
            const bool may_go = ref != keep && ref != victim && !draining_->drains(ref) && !leases_->runs(ref, now);
            if (may_go && !held(*arena_, ref)) (page_of(ref) == page ? here : elsewhere).push_back(ref);
            return here.size() + elsewhere.size() == items;
        });
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
                const std::string_view key = key_of(*arena_, ref);
                NewItem item = copy_of(*arena_, ref, {key, hash_key(key, region_->view().hash_seed)});
                item.counts_as_new = false;
                item.same_item = true;
                items_->put(room.back(), item, now, items_->place_of(ref));
                room.pop_back();
            });
        }
    } catch (const std::bad_alloc&) {  // those that left are inserted
    }
    for (const Ref ref : room) items_->free_slot(ref);
    for (const Moved& item : moved) insert(item, now);
    return true;
}

// The item leaves its slot: moved, if its value reaches a write buffer.
void Spill::leave(Ref ref, std::vector<Moved>& moved, NodeSeconds now) {
    order_->see_reads(ref, now);
    if (!moves(ref, now)) return items_->evict_or_reclaim(ref, now);
    const layout::ItemHeader& header = arena_->header(ref);
    const Descriptor& descriptor = arena_->descriptor(ref);
    Moved& item = moved.emplace_back();
    try {
        item.key = key_of(*arena_, ref);
    } catch (const std::bad_alloc&) {
        moved.pop_back();
        return items_->evict_or_reclaim(ref, now);
    }
    const std::optional<Place> place = disk_->put(item.key, value_of(*arena_, ref), generation_of(*arena_, ref));
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
    items_->kill(ref, items_->place_of(ref).slot, Gone::replaced, now);
}

void Spill::insert(const Moved& moved, NodeSeconds now) {
    const uint8_t size_class = arena_->classes().of(layout::item_bytes(moved.key.size(), sizeof(Stub)));
    const Ref to = slot_for_stub(size_class, now);
    if (to == nil) return disk_->forget(moved.stub.place);  // another partition took the page
    NewItem item;
    item.key = {moved.key, hash_key(moved.key, region_->view().hash_seed)};
    item.value = moved.stub.bytes();
    item.flags = moved.flags;
    item.exptime = moved.exptime;
    item.cas = moved.cas;
    item.format = moved.format;
    item.descriptor_flags = moved.descriptor_flags;
    item.counts_as_new = false;
    items_->put(to, item, now, {});
    if (moved.access_count != 0) order_->access(to, now, moved.access_count);
    Descriptor& descriptor = arena_->descriptor(to);
    descriptor.last_access = moved.last_access;
    descriptor.flags = moved.descriptor_flags;
}

}  // namespace farcached::node
