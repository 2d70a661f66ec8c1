// SPDX-License-Identifier: BSD-3-Clause
#include "node/store/items.h"

#include <algorithm>
#include <atomic>

#include "base/broken.h"
#include "base/check.h"
#include "base/node_clock.h"
#include "node/items/stub.h"

namespace farcached::node {

void Items::attach(fabric::Region& region, const Config& config, uint16_t number, uint32_t partition_count,
                   const PartsOfItems& parts) {
    PartsOfItems::operator=(parts);
    index_.attach(region, *arena_, number);
    hash_seed_ = region.view().hash_seed;
    uniques_.attach(config, number, partition_count);
    counts_.attach(*arena_);
}

void Items::keep(uint64_t* generation_ceiling, uint64_t* cas_ceiling) {
    writer_.keep(generation_ceiling);
    uniques_.keep(cas_ceiling);
}

protocol::ItemMeta Items::meta(Ref ref) const {
    const layout::ItemHeader& header = arena_->header(ref);
    const Descriptor& item = arena_->descriptor(ref);
    protocol::ItemMeta meta;
    meta.cas = uniques_.on() ? header.cas : 0;
    meta.value_len = is_stub(*arena_, ref) ? stub_of(*arena_, ref).value_len : header.value_len;
    meta.flags = header.flags;
    meta.item_bytes = uint32_t(layout::item_bytes(header.key_len, meta.value_len));
    meta.exptime = item.exptime;
    meta.last_access = item.last_access;
    meta.size_class = size_class_of(*arena_, ref);
    meta.fetched = (item.flags & item_fetched) != 0;
    meta.stale = (item.flags & item_stale) != 0;
    meta.win_sent = (item.flags & item_win_sent) != 0;
    meta.key_binary = (header.format & layout::format_key_binary) != 0;
    return meta;
}

layout::Slot Items::slot_word(Ref ref, uint64_t hash) const {
    return layout::Slot::make(layout::tag_of(hash), size_class_of(*arena_, ref), arena_->offset(ref));
}

Index::Place Items::place_of(Ref ref, uint64_t key_hash) const {
    return {index_.find(key_hash, slot_word(ref, key_hash)), ref};
}

Items::Found Items::find(const protocol::Key& key, NodeSeconds now) {
    const Index::Place place = locate(key);
    if (place.slot == nullptr) return {};
    if (hidden_->hides(place.ref)) {
        kill(place.ref, place.slot, Gone::met, now);
        return {{}, protocol::Miss::flushed};
    }
    if (expired(*arena_, place.ref, now)) {
        kill(place.ref, place.slot, Gone::met, now);
        return {{}, protocol::Miss::expired};
    }
    if (lost(place.ref)) {
        kill(place.ref, place.slot, Gone::met, now);
        return {};
    }
    return {place, protocol::Miss::none};
}

bool Items::is_lost_stub(Ref ref) const {
    return is_stub(*arena_, ref) && !tiers_.alive(stub_of(*arena_, ref).place);
}

void Items::forget_value(Ref ref) {
    if (is_stub(*arena_, ref)) tiers_.forget(stub_of(*arena_, ref).place);
}

// ---- death ------------------------------------------------------------------------------------------

void Items::end_life(Ref ref, uint64_t* place, Gone why, uint64_t key_hash, NodeSeconds now) {
    writer_.flip_to_dead(ref);
    std::atomic_thread_fence(std::memory_order_release);
    broken::step();
    if (place != nullptr) index_.erase(place);
    broken::step();
    counts_.gone(ref, why, why == Gone::evicted && order_->stays(ref), now);
    if (why == Gone::evicted && observer_ != nullptr) observer_->evicted(key_of(*arena_, ref), meta(ref), now);
    if (why != Gone::replaced) forget_value(ref);  // else put() did
    hidden_->count_removed(ref, now);
    if (why == Gone::evicted)
        order_->evict(ref, key_hash, now);
    else
        order_->remove(ref, now);
    if (!leases_->runs(ref, now) || broken::s2_free_leased)
        part(ref);
    else
        leases_->bury(ref);
}

void Items::evict_or_reclaim(Ref ref, NodeSeconds now) {
    const uint64_t hash = hash_of(ref);
    const Index::Place place = place_of(ref, hash);
    if (lost(ref)) return kill(ref, place.slot, Gone::met, now);  // its tier has counted it
    if (!dead(ref, now)) return evict(place, hash, now);
    counts_.reclaimed(ref);
    kill(ref, place.slot, Gone::reclaimed, now);
}

// The slot's content is needed only by its holders.
void Items::part(Ref ref) {
    if (held(*arena_, ref) && !broken::s2_free_pinned)
        arena_->descriptor(ref).state = SlotState::parted;
    else
        free_slot(ref);
}

void Items::free_slot(Ref ref) {
    if (slots_->leaves_page_empty(ref)) {
        leases_->pages().remove(page_of(ref));
        draining_->forget(page_of(ref));
    }
    slots_->release(ref);
}

// ---- publishing -------------------------------------------------------------------------------------

// An item of the slot's class fits; under a lease, any item that is small enough, so that pointers to the slot stay valid. A
// run of pages takes no other bytes. While a value is being sent, only the header may change.
bool Items::fits_in_place(Ref ref, const NewItem& item, NodeSeconds now) const {
    const uint64_t bytes = item.bytes();
    const uint8_t size_class = size_class_of(*arena_, ref);
    if (size_class == layout::large_class) return false;
    if (held(*arena_, ref) && !same_value(*arena_, ref, item) && !broken::s1_write_pinned) return false;
    if (arena_->classes().of(bytes) == size_class) return true;
    return bytes <= arena_->capacity(ref) && leases_->runs(ref, now);
}

// Initializes the descriptor of an item new to this slot. A lease on the slot stays (S3).
void Items::describe(Ref ref, const NewItem& item, NodeSeconds now) {
    Descriptor& descriptor = arena_->descriptor(ref);
    if (descriptor.state != SlotState::dead) descriptor.lease_end = 0;
    descriptor.exptime = item.exptime;
    descriptor.last_access = now;
    descriptor.access_count = 0;
    descriptor.queue = 0;
    descriptor.flags = item.descriptor_flags;
    descriptor.state = SlotState::live;
    if (ReadCounters* counters = arena_->read_counters()) counters->forget(arena_->offset(ref));
}

void Items::put(Ref ref, const NewItem& item, NodeSeconds now, Index::Place old) {
    if (old.slot != nullptr && (item.format & layout::format_stub) == 0) forget_value(old.ref);
    if (old.slot != nullptr && old.ref == ref) return write_over(ref, item, now);
    const bool revived = arena_->descriptor(ref).state == SlotState::dead;
    const uint64_t generation = writer_.write(ref, item);
    if (revived) leases_->forget_dead(ref);
    describe(ref, item, now);
    if (revived) leases_->revive(ref, now);
    arena_->lease_stop().found(now);
    if (old.slot == nullptr)
        order_->add(ref, item.key.hash, now);
    else
        order_->replace(ref, arena_->descriptor(old.ref), item.same_item, now);
    counts_.born(ref, item);
    const layout::Slot word = slot_word(ref, item.key.hash);
    if (old.slot != nullptr) return replace(ref, generation, revived, word, old, now);
    writer_.bring_to_life(ref, generation);
    while (!index_.insert(item.key.hash, word, !item.moves_no_other)) evict_of_chain(item.key.hash, now);
}

void Items::replace(Ref ref, uint64_t generation, bool revived, layout::Slot word, Index::Place old, NodeSeconds now) {
    if (broken::s7_publish_before_flip || (revived && broken::s1_revive_first)) {
        writer_.bring_to_life(ref, generation);
        if (broken::s7_publish_before_flip) Index::replace(old.slot, word);
        writer_.halfway();
        kill(old.ref, nullptr, Gone::replaced, now);
        Index::replace(old.slot, word);
        return;
    }
    writer_.halfway();
    broken::lie(arena_->header(old.ref).value_len);
    writer_.flip_to_dead(old.ref);
    writer_.halfway();
    writer_.bring_to_life(ref, generation);
    Index::replace(old.slot, word);
    broken::step();
    kill(old.ref, nullptr, Gone::replaced, now);
}

// Evicts the least recently accessed item of the chain; of several, the one stored first. Under a lease it leaves a dead slot,
// as any item.
void Items::evict_of_chain(uint64_t hash, NodeSeconds now) {
    Index::Place oldest;
    uint32_t oldest_age = 0;
    index_.for_chain(hash, [&](const Index::Place& at) {
        const uint32_t age = seconds_since(arena_->descriptor(at.ref).last_access, now);
        const bool older = oldest.slot == nullptr || age > oldest_age ||
                           (age == oldest_age && arena_->header(at.ref).guard < arena_->header(oldest.ref).guard);
        if (!older) return;
        oldest = at;
        oldest_age = age;
    });
    CHECK(oldest.slot != nullptr);
    counts_.overflowed();
    evict(oldest, hash_of(oldest.ref), now);
}

// Keeps the slot, its place in the index and in the policy's lists, and its lease.
void Items::write_over(Ref ref, const NewItem& item, NodeSeconds now) {
    Descriptor& descriptor = arena_->descriptor(ref);
    CHECK(descriptor.state == SlotState::live);
    order_->see_reads(ref, now);  // they were reads of the old item
    counts_.overwritten(ref, item);
    const bool leased = leases_->begin_write(ref, now);
    if (broken::s1_receive_live && item.bytes() <= layout::page_bytes) writer_.receive_live(ref, item);
    writer_.halfway();
    broken::lie(arena_->header(ref).value_len);
    const uint64_t generation = writer_.write(ref, item);
    writer_.halfway();
    descriptor.exptime = item.exptime;  // before the item is whole, for a file that outlives the process
    descriptor.flags = uint8_t(item.descriptor_flags | (descriptor.flags & item_read));
    broken::step();
    writer_.bring_to_life(ref, generation);
    if (broken::s3_clear_lease) descriptor.lease_end = 0;
    leases_->end_write(ref, leased, now);
    if (!item.same_item) order_->bump(ref, now);
}

void Items::true_exptime(Index::Place at, NodeSeconds now) {
    if (is_stub(*arena_, at.ref) || arena_->header(at.ref).exptime == arena_->descriptor(at.ref).exptime) return;
    NewItem item = copy_of(*arena_, at.ref, {key_of(*arena_, at.ref), 0});
    item.counts_as_new = false;
    item.same_item = true;
    write_over(at.ref, item, now);
}

bool Items::keep_moved(Ref ref, NodeSeconds now) {
    if (!hidden_->may_keep_moved(ref) || expired(*arena_, ref, now)) return false;
    NewItem item = copy_of(*arena_, ref, {key_of(*arena_, ref), 0});
    if ((item.format & ~layout::format_key_binary) != layout::format_plain) return false;
    item.descriptor_flags |= item_moved;
    item.counts_as_new = false;
    item.same_item = true;
    write_over(ref, item, now);
    return true;
}

void Items::add_stats(Stats& sum) const {
    counts_.add_stats(sum);
    sum.index_buckets += index_.bucket_count();
    sum.index_bytes += index_.buckets_used() * sizeof(layout::Bucket);
}

}  // namespace farcached::node
