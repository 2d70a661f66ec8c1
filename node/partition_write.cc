// SPDX-License-Identifier: BSD-3-Clause
// How a partition writes items (S1): in place, into a dead slot of the key, or into a free slot.
//
// A slot visible to readers changes in this order: its guard becomes dead; a release fence; check and bytes by relaxed words; a
// release store of a live guard with a new generation. So a reader that copied a word of the new item sees another guard when
// it rereads it. A reader with a remote pointer compares the check, which is keyed by the generation.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>

#include "base/broken.h"
#include "base/check.h"
#include "base/hash.h"
#include "node/partition.h"
#include "protocol/item_check.h"
#include "protocol/words.h"

namespace farcached::node {

namespace {

constexpr size_t behind_check = offsetof(layout::ItemHeader, cas);  // the check covers all bytes from here on

layout::ItemHeader header_of(const NewItem& item) {
    layout::ItemHeader header{};
    header.cas = item.cas;
    header.value_len = uint32_t(item.value.size() + item.value_tail.size());
    header.flags = item.flags;
    header.exptime = item.exptime;
    header.key_len = uint16_t(item.key.bytes.size());
    header.format = item.format;
    return header;
}

// An item of at most a page in private memory, padded with zeros to whole words.
class Composed {
  public:
    Composed(const layout::ItemHeader& header, const NewItem& item) {
        add({reinterpret_cast<const char*>(&header), sizeof header});
        add(item.key.bytes);
        add(item.value);
        add(item.value_tail);
        std::memset(bytes_ + size_, 0, -size_ % sizeof(uint64_t));
    }
    uint64_t check(uint64_t seed) const { return hash_bytes(bytes_ + behind_check, size_ - behind_check, seed); }
    // Stores all words behind the check.
    void store(uint64_t* to) const {
        for (size_t at = behind_check; at < size_; at += sizeof(uint64_t)) {
            uint64_t word;
            std::memcpy(&word, bytes_ + at, sizeof word);
            words::store_relaxed(to + at / sizeof word, word);
        }
    }

  private:
    void add(std::string_view part) {
        if (part.empty()) return;
        std::memcpy(bytes_ + size_, part.data(), part.size());
        size_ += part.size();
    }

    size_t size_ = 0;
    alignas(uint64_t) char bytes_[layout::page_bytes];
};

void append_item(words::Writer& to, const layout::ItemHeader& header, const NewItem& item) {
    to.append(reinterpret_cast<const char*>(&header.cas), sizeof header - behind_check);
    to.append(item.key.bytes.data(), item.key.bytes.size());
    to.append(item.value.data(), item.value.size());
    to.append(item.value_tail.data(), item.value_tail.size());
    to.finish();
}

}  // namespace

// ---- choice of a slot -------------------------------------------------------------------------------

// An item of the slot's class fits; under a lease, any item that is small enough, so that pointers to the slot stay valid. A
// run of pages takes no other bytes. While a value is being sent, only the header may change.
bool Partition::fits_in_place(Ref ref, const NewItem& item, NodeSeconds now) const {
    const uint64_t bytes = item.bytes();
    const uint8_t size_class = arena_->page(page_of(ref)).size_class;
    if (size_class == layout::large_class) return false;
    if (held(ref) && !same_value(ref, item) && !broken::s1_write_pinned) return false;
    if (arena_->classes().of(bytes) == size_class) return true;
    return bytes <= arena_->capacity(ref) && lease_runs(ref, now);
}

// Whether `item` has the value that the slot holds, without a copy.
bool Partition::same_value(Ref ref, const NewItem& item) const {
    const std::string_view value = value_of(ref);
    return item.value_tail.empty() && item.value.data() == value.data() && item.value.size() == value.size();
}

// The smallest dead slot of the key that the item does not leave almost empty. put() may list its page.
Ref Partition::dead_slot_for(const protocol::Key& key, uint64_t bytes) {
    if (dead_ == nullptr || dead_->count() == 0 || !can_list()) return nil;
    const bool large = bytes > layout::page_bytes;
    Ref best = nil;
    dead_->find(private_hash(key.bytes), [&](Ref ref) {
        if (key_of(ref) != key.bytes && !broken::s1_remember_by_hash) return false;
        if (held(ref)) return false;       // its old value is being sent
        if (!leasable(ref)) return false;  // the page drains, or left the lease zone
        if ((arena_->page(page_of(ref)).size_class == layout::large_class) != large) return false;
        const uint64_t capacity = arena_->capacity(ref);
        if (bytes > capacity || is_sparse(bytes, capacity)) return false;
        if (best == nil || capacity < arena_->capacity(best)) best = ref;
        return false;
    });
    return best;
}

bool Partition::left_dead_slot(Ref ref) const {
    if (dead_->count() == 0) return false;
    const std::string_view key = key_of(ref);
    const auto same_key = [&](Ref other) { return key_of(other) == key; };
    return dead_->find(private_hash(key), same_key) != nil;
}

Ref Partition::room_for(const NewItem& item, Index::Place old, NodeSeconds now, Reservation& reserved,
                        uint64_t& need_pages, bool made_of_old) {
    need_pages = 0;
    reclaim_dead(now);
    const Ref replaced = old.slot == nullptr ? nil : old.ref;
    if (replaced != nil && fits_in_place(replaced, item, now)) return replaced;
    if (replaced == nil && !evict_ && index_.chain_full(item.key.hash)) return nil;  // put() would evict (-M)
    if (const Ref dead = dead_slot_for(item.key, item.bytes()); dead != nil) return dead;
    if (made_of_old) {
        reserved.keep_first = arena_->page(page_of(replaced)).run_head;
        reserved.keep_pages = std::max(UINT32_C(1), region_->page(reserved.keep_first).run_pages);
    }
    return allocate(item.bytes(), now, replaced, reserved, need_pages);
}

// ---- bytes ------------------------------------------------------------------------------------------

uint64_t Partition::check_seed(Ref ref, uint64_t generation) const {
    return layout::item_check_seed(secret_, generation, region_->header().arena_offset + arena_->offset(ref));
}

// The check of the item in that slot, from its stored bytes.
uint64_t Partition::check_of(Ref ref, uint64_t bytes, uint64_t generation) const {
    if (!checked_) return 0;
    return layout::item_check(arena_->words(ref), bytes, secret_, generation, region_->header().arena_offset + arena_->offset(ref));
}

// No word of the slot changes while its guard is live.
void Partition::begin_write(uint64_t* at) {
    const layout::Guard guard{words::load_relaxed(at)};
    if (guard.state() == layout::GuardState::live && !broken::s1_keep_guard_live)
        words::store_relaxed(at, guard.dead().word);
    std::atomic_thread_fence(std::memory_order_release);
}

void Partition::compose(Ref ref, const layout::ItemHeader& header, const NewItem& item, uint64_t generation) {
    uint64_t* at = arena_->words(ref);
    if (broken::s1_compose_in_slot) return write_run(ref, header, item, generation);
    const Composed composed(header, item);
    const uint64_t check = checked_ ? composed.check(check_seed(ref, generation)) : 0;
    begin_write(at);
    if (broken::s1_receive_live || broken::s1_keep_guard_live) halfway();
    composed.store(at);
    words::store_relaxed(at + 1, check);
}

// Rewrites the header only; key and value stay. An item that is never leased gets no check, to save a read of all its bytes. A
// reader by the index takes it for torn and uses RPC.
void Partition::write_header(Ref ref, const layout::ItemHeader& header, uint64_t generation) {
    uint64_t* at = arena_->words(ref);
    const char* rest = reinterpret_cast<const char*>(at) + sizeof header;
    uint64_t words_of_header[sizeof header / sizeof(uint64_t)];
    std::memcpy(words_of_header, &header, sizeof header);
    const size_t rest_bytes = size_t(header.key_len) + header.value_len;
    uint64_t check = words::load_relaxed(at + 1);
    if (checked_ && sizeof header + rest_bytes <= leased_item_bytes_max)
        check = hash_bytes(words_of_header + 2, sizeof header - behind_check, rest, rest_bytes, check_seed(ref, generation));
    begin_write(at);
    store_header(at, header);
    words::store_relaxed(at + 1, check);
}

// All words behind the check.
void Partition::store_header(uint64_t* at, const layout::ItemHeader& header) {
    uint64_t all[sizeof header / sizeof(uint64_t)];
    std::memcpy(all, &header, sizeof header);
    for (size_t word = behind_check / sizeof(uint64_t); word < std::size(all); word++) words::store_relaxed(at + word, all[word]);
}

// Writes directly into a run of pages without readers: a free one, or a dead one of the key.
void Partition::write_run(Ref ref, const layout::ItemHeader& header, const NewItem& item, uint64_t generation) {
    uint64_t* at = arena_->words(ref);
    begin_write(at);
    words::Writer body(at + 2);
    append_item(body, header, item);
    words::store_relaxed(at + 1, check_of(ref, item.bytes(), generation));
}

// Writes all of the item except a live guard, which bring_to_life() stores. Returns the item's generation.
uint64_t Partition::write(Ref ref, const NewItem& item) {
    const uint64_t generation = generation_ += layout::partitions_max;
    CHECK(generation <= layout::generation_max);
    const layout::ItemHeader header = header_of(item);
    const SlotState state = arena_->descriptor(ref).state;
    if (state == SlotState::receiving) {
        finish_received(ref, header, item, generation);
    } else if (state == SlotState::live && held(ref) && same_value(ref, item)) {
        write_header(ref, header, generation);  // its value is being sent
    } else if (item.bytes() <= layout::page_bytes) {
        compose(ref, header, item, generation);
    } else if (state == SlotState::live) {
        CHECK(same_value(ref, item));
        write_header(ref, header, generation);
    } else {
        write_run(ref, header, item, generation);
    }
    return generation;
}

// A release store: a reader that sees the live guard sees the rest.
void Partition::bring_to_life(Ref ref, uint64_t generation) {
    words::store_release(arena_->words(ref),
                         layout::Guard::make(generation, layout::GuardState::live).word);
}

// ---- publishing -------------------------------------------------------------------------------------

// Initializes the descriptor of an item new to this slot. A lease on the slot stays (S3).
void Partition::describe(Ref ref, const NewItem& item, NodeSeconds now) {
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

void Partition::put(Ref ref, const NewItem& item, NodeSeconds now, Index::Place old) {
    if (old.slot != nullptr && old.ref == ref) return write_over(ref, item, now);
    const bool revived = arena_->descriptor(ref).state == SlotState::dead;
    const uint64_t generation = write(ref, item);
    if (revived) forget_dead(ref);
    describe(ref, item, now);
    if (revived) revive(ref, now);
    arena_->lease_stop().found(now);
    add_to_policy(ref, item, old.slot == nullptr ? nullptr : &arena_->descriptor(old.ref), now);
    tally_[arena_->page(page_of(ref)).size_class].requested += item.bytes();
    items_++;
    if (item.counts_as_new) items_total_++;
    bytes_ += item.bytes();
    layout::Slot word = slot_word(ref, item.key.hash);
    if (old.slot != nullptr) {
        if (broken::s7_publish_before_flip || (revived && broken::s1_revive_first)) {
            bring_to_life(ref, generation);
            if (broken::s7_publish_before_flip) Index::replace(old.slot, word);
            halfway();
            kill(old.ref, nullptr, Gone::replaced, now);
            Index::replace(old.slot, word);
            return;
        }
        halfway();
        broken::lie(arena_->header(old.ref).value_len);
        words::store_release(arena_->words(old.ref),
                             layout::Guard{arena_->header(old.ref).guard}.dead().word);
        halfway();
        bring_to_life(ref, generation);
        Index::replace(old.slot, word);
        kill(old.ref, nullptr, Gone::replaced, now);
        return;
    }
    bring_to_life(ref, generation);
    while (!index_.insert(item.key.hash, word)) evict_of_chain(item.key.hash, now);
}

// Evicts the least recently accessed item of the chain; of several, the one stored first. Under a lease it leaves a dead slot,
// as any item.
void Partition::evict_of_chain(uint64_t hash, NodeSeconds now) {
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
    overflow_evictions_++;
    kill(oldest.ref, oldest.slot, Gone::evicted, now);
}

// Keeps the slot, its place in the index and in the policy's lists, and its lease.
void Partition::write_over(Ref ref, const NewItem& item, NodeSeconds now) {
    Descriptor& descriptor = arena_->descriptor(ref);
    CHECK(descriptor.state == SlotState::live);
    see_reads(ref, now);  // they were reads of the old item
    const uint64_t bytes_before = meta(ref).item_bytes, bytes = item.bytes();
    const bool leased = lease_runs(ref, now);
    if (leased) uncount_leased(ref);
    if (broken::s1_receive_live && bytes <= layout::page_bytes) {
        words::Writer body(arena_->words(ref) + 2);
        append_item(body, header_of(item), item);
    }
    halfway();
    broken::lie(arena_->header(ref).value_len);
    const uint64_t generation = write(ref, item);
    halfway();
    bring_to_life(ref, generation);
    if (broken::s3_clear_lease) descriptor.lease_end = 0;
    if (lease_runs(ref, now)) add_leased(ref);
    if (leased) leases_.in_place++;
    tally_[arena_->page(page_of(ref)).size_class].requested += bytes - bytes_before;
    bytes_ += bytes - bytes_before;
    if (item.counts_as_new) items_total_++;
    descriptor.exptime = item.exptime;
    descriptor.flags = uint8_t(item.descriptor_flags | (descriptor.flags & item_read));
    if (!item.same_item) bump(ref, now);
}

Index::Place Partition::rewrite(Index::Place at, const NewItem& changed, NodeSeconds now) {
    NewItem again = changed;
    again.counts_as_new = false;
    again.same_item = true;
    Ref ref = at.ref;
    if (changed.bytes() <= layout::page_bytes && !fits_in_place(ref, changed, now)) {
        Reservation none;
        uint64_t need = 0;
        ref = room_for(again, at, now, none, need);
    }
    if (ref == nil && held(at.ref) && !same_value(at.ref, changed)) return {};
    if (ref == nil) ref = at.ref;
    CHECK(changed.bytes() <= arena_->capacity(at.ref));
    put(ref, again, now, at);
    return {at.slot, ref};
}

void Partition::true_exptime(Index::Place at, NodeSeconds now) {
    if (arena_->header(at.ref).exptime == arena_->descriptor(at.ref).exptime) return;
    NewItem item = same_item({key_of(at.ref), 0}, at.ref);
    item.counts_as_new = false;
    item.same_item = true;
    write_over(at.ref, item, now);
}

}  // namespace farcached::node
