// SPDX-License-Identifier: BSD-3-Clause
// Index: one partition's part of the published hash index (protocol/layout.h): linear hashing over 64-byte buckets with
// overflow chains. Owner: Items. All calls need the partition's lock; one-sided readers need none.
//
// X1  Every slot changes by one store. While a bucket is split, a key may be in two places, or in none. So readers cannot prove
//     a miss (S5).
// X2  Buckets grow one at a time: no pause, no second table.
// X3  A chain has at most chain_buckets_max buckets. Proxies know the hash seed, because they hash keys for pointers, reports
//     and one-sided probes. So a peer can choose keys that all belong to one chain. Each call, and each split, visits one
//     chain. The longest chain therefore bounds the cost of aimed keys. DeadSlots and Ghosts have no such bound; they use a
//     seed that no peer learns.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/function_ref.h"
#include "fabric/local_read.h"
#include "fabric/region.h"
#include "node/memory/arena.h"

namespace farcached::node {

// One-sided readers visit the same number of buckets. The next bucket to split has ten items on average, and a chain has room
// for 63: random keys do not reach the bound.
constexpr uint32_t chain_buckets_max = fabric::overflow_hops_max + 1;

class Index {
  public:
    void attach(fabric::Region& region, Arena& arena, uint32_t partition);

    // Gives an empty index the buckets for that many items, if there is memory for them.
    void expect(uint64_t items);

    struct Place {
        uint64_t* slot = nullptr;  // null: not found
        Ref ref = nil;
    };
    Place find(uint64_t hash, std::string_view key) const;
    // The place of a slot that is in the index. hash: of its item's key.
    uint64_t* find(uint64_t hash, layout::Slot slot) const;
    // False: the chain is full and may not have, or cannot get, another bucket. The caller evicts an item of for_chain() and
    // tries again.
    bool insert(uint64_t hash, layout::Slot slot, bool grows = true);
    static void replace(uint64_t* place, layout::Slot slot);
    void erase(uint64_t* place);
    // Visits each item of the chain that `hash` belongs to. `visit` changes nothing here.
    void for_chain(uint64_t hash, FunctionRef<void(const Place&)> visit) const;
    // Whether the chain has chain_buckets_max buckets and no free slot.
    bool chain_full(uint64_t hash) const;

    uint64_t items() const { return items_; }
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
    uint64_t overflow_fresh_ = 0;  // never used
    uint64_t overflow_free_ = 0;   // number + 1 of the first free bucket, linked through `overflow`
    uint64_t overflow_used_ = 0;
    uint64_t overflow_backed_ = 0;  // buckets that are backed by memory
};

}  // namespace farcached::node
