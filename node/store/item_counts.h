// SPDX-License-Identifier: BSD-3-Clause
// ItemCounts: numbers and bytes of a partition's items, now and since the start, also by size class.
//
// Owner: an Items, under its partition's lock.
#pragma once

#include <array>
#include <cstdint>

#include "node/items/stored_item.h"
#include "node/memory/arena.h"
#include "node/store/leases.h"
#include "node/store/node.h"

namespace farcached::node {

// reclaimed: expired or flushed when its memory was needed, or when next to go; crawled: by a sweep; met: by a request for its
// key.
enum class Gone : uint8_t { replaced, deleted, evicted, reclaimed, crawled, met };

class ItemCounts {
  public:
    void attach(Arena& arena) { arena_ = &arena; }

    // A new item is in that slot.
    void born(Ref ref, const NewItem& item) {
        tally(ref).requested += item.bytes();
        count_kind(ref, item.format, /* gone= */ false);
        items_++;
        bytes_ += item.bytes();
        if (item.counts_as_new) items_total_++;
    }
    // Before `item` is written over the item in that slot.
    void overwritten(Ref ref, const NewItem& item);
    // The item is still in its slot. stays: an eviction would pass over it (EvictionOrder::stays()).
    void gone(Ref ref, Gone why, bool stays, NodeSeconds now);
    void reclaimed(Ref ref) { tally(ref).reclaimed++; }
    // Its bucket chain is full.
    void overflowed() { overflow_evictions_++; }
    // A store found no memory.
    void no_memory(uint64_t bytes) { tally_[arena_->classes().of(bytes)].out_of_memory++; }
    // An item left its slot to move elsewhere, and found no room there.
    void evicted(uint8_t size_class) {
        tally_[size_class].evicted++;
        evictions_++;
    }
    // A sweep looked at an item.
    void checked(uint8_t size_class) { tally_[size_class].crawler_checked++; }

    Turnover turnover() const { return {items_, evictions_}; }
    uint64_t stub_bytes(uint8_t size_class) const { return stub_bytes_[size_class]; }  // of slots
    uint64_t foreign_bytes() const { return foreign_bytes_; }  // of slots with items of other nodes (protocol/spilled.h)
    void add_stats(Stats& sum) const;

  private:
    struct Tally {
        uint64_t requested = 0;
        uint64_t evicted = 0, evicted_nonzero = 0, evicted_unfetched = 0, evicted_active = 0;
        uint64_t evicted_age_s = 0, out_of_memory = 0, reclaimed = 0, expired_unfetched = 0;
        uint64_t crawler_reclaimed = 0, crawler_checked = 0;
    };

    Tally& tally(Ref ref) { return tally_[size_class_of(*arena_, ref)]; }
    void count_kind(Ref ref, uint16_t format, bool gone);

    Arena* arena_ = nullptr;
    std::array<Tally, class_numbers> tally_;
    uint64_t items_ = 0, items_total_ = 0, bytes_ = 0;
    uint64_t evictions_ = 0, overflow_evictions_ = 0;
    std::array<uint64_t, class_numbers> stub_bytes_{};
    uint64_t foreign_bytes_ = 0;
};

}  // namespace farcached::node
