// SPDX-License-Identifier: BSD-3-Clause
// Index: one partition's part of the published hash index (protocol/layout.h): linear hashing over 64-byte
// buckets with overflow chains. All calls under the partition's lock; readers need none.
//
// X1  Every slot is changed by one store. A key may be in two places, or found nowhere, while a bucket is
//     split; readers cannot prove a miss for that reason (S5).
// X2  Buckets grow one at a time: no pause, no second table.
#pragma once

#include <cstdint>
#include <string_view>

#include "fabric/region.h"
#include "node/arena.h"

namespace farcached::node {

class Index {
  public:
    void attach(fabric::Region& region, Arena& arena, uint32_t partition);

    struct Place {
        uint64_t* slot = nullptr;  // null: not there
        Ref ref = nil;
    };
    Place find(uint64_t hash, std::string_view key) const;
    // False when the chain is full and no overflow bucket is left: evict one of chain() and try again.
    bool insert(uint64_t hash, layout::Slot slot);
    static void replace(uint64_t* place, layout::Slot slot);
    void erase(uint64_t* place);
    // Finds the slot that points at an offset.
    uint64_t* find_offset(uint64_t hash, layout::Slot slot) const;
    // Some item of the chain that `hash` belongs to.
    layout::Slot any_of_chain(uint64_t hash) const;

    uint64_t bucket_count() const { return count_; }
    uint64_t buckets_used() const { return count_ + overflow_used_; }

  private:
    layout::Bucket* first(uint64_t hash) const;
    layout::Bucket* next(const layout::Bucket* bucket) const;
    uint64_t* empty_slot(layout::Bucket* bucket) const;
    uint64_t* add_overflow(layout::Bucket* last);
    bool back_overflow(uint64_t count);
    bool back_added();
    void split();
    void compact(layout::Bucket* head);
    uint64_t hash_of(layout::Slot slot) const;

    fabric::Region* region_ = nullptr;
    Arena* arena_ = nullptr;
    layout::PartitionEntry* entry_ = nullptr;
    layout::Bucket* buckets_ = nullptr;
    layout::Bucket* overflow_ = nullptr;
    uint64_t hash_seed_ = 0;
    uint64_t count_ = 1;
    uint64_t items_ = 0;
    uint64_t overflow_fresh_ = 0;  // never used yet
    uint64_t overflow_free_ = 0;   // number + 1 of the first free one, linked through `overflow`
    uint64_t overflow_used_ = 0;
    uint64_t overflow_backed_ = 0;  // so many of them have their memory
};

}  // namespace farcached::node
