// SPDX-License-Identifier: BSD-3-Clause
// Slots of a partition that are used without its lock (node/held_slots.h): replies are sent from them, uploads are received in
// them.
#include "base/broken.h"
#include "base/check.h"
#include "node/partition.h"
#include "protocol/item_check.h"
#include "protocol/words.h"

namespace farcached::node {

bool Partition::pin(Ref ref) {
    CHECK(arena_->descriptor(ref).state == SlotState::live);
    Page& page = arena_->page(page_of(ref));
    const bool first = page.pinned == 0;
    if (first && !arena_->count_pinned(arena_->kept_by(ref))) return false;
    try {
        if (held_.hold(*arena_, ref)) page.pinned++;
        return true;
    } catch (const std::bad_alloc&) {
        if (first) arena_->uncount_pinned(arena_->kept_by(ref));
        return false;
    }
}

void Partition::unpin(Ref ref) {
    if (!held_.let_go(*arena_, ref)) return;
    Page& page = arena_->page(page_of(ref));
    CHECK(page.pinned > 0);
    if (--page.pinned == 0) arena_->uncount_pinned(arena_->kept_by(ref));
    if (arena_->descriptor(ref).state == SlotState::parted) release_slot(ref);
}

// The slot's content is needed only by its holders.
void Partition::part(Ref ref) {
    if (held(ref) && !broken::s2_free_pinned)
        arena_->descriptor(ref).state = SlotState::parted;
    else
        release_slot(ref);
}

Ref Partition::receive(uint64_t bytes, NodeSeconds now, Reservation& reserved, uint64_t& need_pages) {
    need_pages = 0;
    reclaim_dead(now);
    const Ref ref = allocate(bytes, now, /* pinned= */ nil, reserved, need_pages);
    if (ref == nil) return nil;
    try {
        held_.hold(*arena_, ref);
    } catch (const std::bad_alloc&) {
        release_slot(ref);
        return nil;
    }
    arena_->descriptor(ref).state = SlotState::receiving;
    begin_write(arena_->words(ref));
    return ref;
}

Ref Partition::room_for_received(Ref received, const NewItem& item, Index::Place old, NodeSeconds now) {
    reclaim_dead(now);
    if (old.slot != nullptr && lease_runs(old.ref, now) && fits_in_place(old.ref, item, now)) return old.ref;
    if (old.slot == nullptr && !evict_ && index_.chain_full(item.key.hash)) return nil;  // put() would evict (-M)
    const Ref dead = dead_slot_for(item.key, item.bytes());
    return dead != nil ? dead : received;
}

void Partition::take_received(Ref received) {
    CHECK(arena_->descriptor(received).state == SlotState::receiving);
    arena_->uncount_receiving(arena_->kept_by(received));
    const bool last = held_.let_go(*arena_, received);
    CHECK(last);
}

void Partition::drop_received(Ref received) {
    take_received(received);
    release_slot(received);
}

// Key and value are in place; no reader can have found the slot.
void Partition::finish_received(Ref ref, const layout::ItemHeader& header, const NewItem& item, uint64_t generation) {
    uint64_t* at = arena_->words(ref);
    CHECK(item.value_tail.empty());
    CHECK(item.value.data() == reinterpret_cast<const char*>(at) + sizeof header + header.key_len);
    begin_write(at);
    store_header(at, header);
    words::store_relaxed(at + 1, check_of(ref, item.bytes(), generation));
}

}  // namespace farcached::node
