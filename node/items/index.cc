// SPDX-License-Identifier: BSD-3-Clause
#include "node/items/index.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include "base/check.h"
#include "base/hash.h"
#include "base/mapping.h"
#include "protocol/words.h"

namespace farcached::node {

namespace {

// Items per bucket, on average, before a bucket is added; a bucket has seven slots. Random keys, averaged over one doubling of
// the table (simulated bucket by bucket):
//
//     filled   cache lines per hit   bytes of buckets per item
//       3.0           1.01                    21.8
//       4.0           1.04                    17.3
//       4.5           1.06                    15.9
//       5.0           1.08                    15.0
//       6.0           1.13                    13.7
//
// 5 costs less than memcached's table (two pointers per item, on average), and a second line every twelfth hit.
constexpr uint64_t items_per_bucket = 5;
// A split needs at most as many overflow buckets as its chain has; with fewer left, splits are postponed.
constexpr uint64_t overflow_spare = 64;

}  // namespace

void Index::attach(fabric::Region& region, Arena& arena, uint32_t partition) {
    region_ = &region;
    arena_ = &arena;
    entry_ = &region.partition(partition);
    buckets_ = region.buckets(partition);
    overflow_ = region.overflow(partition);
    hash_seed_ = region.view().hash_seed;
    if (!populate(buckets_, sizeof *buckets_)) throw std::system_error(ENOMEM, std::generic_category(), "a node's index");
}

void Index::expect(uint64_t items) {
    CHECK(items_ == 0);
    const uint64_t count = std::clamp<uint64_t>(items / items_per_bucket, 1, entry_->buckets_max);
    if (!populate(buckets_, count * sizeof *buckets_)) return;
    count_ = count;
    words::store_release(&entry_->bucket_count, count_);
}

layout::Bucket* Index::first(uint64_t hash) const {
    return buckets_ + layout::bucket_of(hash, uint32_t(count_));
}

layout::Bucket* Index::next(const layout::Bucket* bucket) const {
    return bucket->overflow == 0 ? nullptr : overflow_ + (bucket->overflow - 1);
}

uint64_t Index::hash_of(layout::Slot slot) const {
    const uint64_t* item = region_->arena() + slot.offset() / 8;
    const auto* header = reinterpret_cast<const layout::ItemHeader*>(item);
    const char* key = reinterpret_cast<const char*>(item) + sizeof *header;
    return hash_key({key, header->key_len}, hash_seed_);
}

Index::Place Index::find(uint64_t hash, std::string_view key) const {
    const uint32_t tag = layout::tag_of(hash);
    for (layout::Bucket* bucket = first(hash); bucket != nullptr; bucket = next(bucket)) {
        for (uint64_t& word : bucket->slots) {
            layout::Slot slot{word};
            if (slot.empty() || slot.tag() != tag) continue;
            const uint64_t* item = region_->arena() + slot.offset() / 8;
            const auto* header = reinterpret_cast<const layout::ItemHeader*>(item);
            if (header->key_len != key.size()) continue;
            if (!words::equal(item, sizeof *header, key.data(), key.size())) continue;
            return {&word, arena_->ref_at(slot.offset())};
        }
    }
    return {};
}

uint64_t* Index::find(uint64_t hash, layout::Slot slot) const {
    layout::Bucket* bucket = first(hash);
    for (;;) {
        for (uint64_t& word : bucket->slots)
            if (word == slot.word) return &word;
        bucket = next(bucket);
        CHECK(bucket != nullptr);
    }
}

void Index::for_chain(uint64_t hash, FunctionRef<void(const Place&)> visit) const {
    for (layout::Bucket* bucket = first(hash); bucket != nullptr; bucket = next(bucket))
        for (uint64_t& word : bucket->slots)
            if (word != 0) visit({&word, arena_->ref_at(layout::Slot{word}.offset())});
}

bool Index::chain_full(uint64_t hash) const {
    uint32_t buckets = 0;
    for (layout::Bucket* bucket = first(hash); bucket != nullptr; bucket = next(bucket), buckets++)
        if (empty_slot(bucket) != nullptr) return false;
    return buckets >= chain_buckets_max;
}

uint64_t* Index::empty_slot(layout::Bucket* bucket) const {
    for (uint64_t& word : bucket->slots)
        if (word == 0) return &word;
    return nullptr;
}

// Backs the first `count` overflow buckets with memory. False: no memory.
bool Index::back_overflow(uint64_t count) {
    if (count <= overflow_backed_) return true;
    constexpr uint64_t at_once = 128;
    const uint64_t to = std::min<uint64_t>(entry_->overflow_max, std::max(count, overflow_backed_ + at_once));
    if (!populate(overflow_ + overflow_backed_, (to - overflow_backed_) * sizeof(layout::Bucket))) return false;
    overflow_backed_ = to;
    return true;
}

// Backs the bucket that a split adds. Only the first bucket on a system page needs this; it backs the whole page. False: no
// memory.
bool Index::back_added() {
    constexpr uintptr_t least_page = 4096;
    layout::Bucket* const added = buckets_ + count_;
    if (reinterpret_cast<uintptr_t>(added) % least_page >= sizeof *added) return true;
    return populate(added, least_page);
}

uint64_t* Index::add_overflow(layout::Bucket* last) {
    uint64_t number = 0;
    if (overflow_free_ != 0) {
        number = overflow_free_;
        overflow_free_ = overflow_[number - 1].overflow;
    } else {
        if (overflow_fresh_ == entry_->overflow_max || !back_overflow(overflow_fresh_ + 1)) return nullptr;
        number = ++overflow_fresh_;
    }
    layout::Bucket& added = overflow_[number - 1];
    words::store_relaxed(&added.overflow, 0);
    overflow_used_++;
    words::store_release(&last->overflow, number);
    return &added.slots[0];
}

bool Index::insert(uint64_t hash, layout::Slot slot, bool grows) {
    layout::Bucket* bucket = first(hash);
    uint32_t hops = 0;
    for (;; hops++) {
        if (uint64_t* empty = empty_slot(bucket)) {
            words::store_release(empty, slot.word);
            break;
        }
        layout::Bucket* following = next(bucket);
        if (following != nullptr) {
            bucket = following;
            continue;
        }
        uint64_t* added = hops + 1 < chain_buckets_max ? add_overflow(bucket) : nullptr;
        if (added == nullptr) return false;
        words::store_release(added, slot.word);
        break;
    }
    items_++;
    if (grows && items_ > count_ * items_per_bucket)
        if (count_ < entry_->buckets_max)
            if (overflow_fresh_ + hops + overflow_spare <= entry_->overflow_max)
                if (back_overflow(overflow_fresh_ + hops + overflow_spare) && back_added()) split();
    return true;
}

void Index::replace(uint64_t* place, layout::Slot slot) { words::store_release(place, slot.word); }

void Index::erase(uint64_t* place) {
    words::store_release(place, 0);
    CHECK(items_ > 0);
    items_--;
}

// Adds bucket number count_ and moves the items that belong there from the split bucket. Each item is stored in its new place
// before it leaves the old one.
void Index::split() {
    const uint64_t added = count_;
    uint64_t mask = added == 0 ? 0 : (UINT64_C(1) << (63 - __builtin_clzll(added))) - 1;
    layout::Bucket* from = buckets_ + (added & mask);
    layout::Bucket* to = buckets_ + added;
    for (layout::Bucket* bucket = from; bucket != nullptr; bucket = next(bucket)) {
        for (uint64_t& word : bucket->slots) {
            if (word == 0) continue;
            if (layout::bucket_of(hash_of({word}), uint32_t(added + 1)) != added) continue;
            uint64_t* empty = empty_slot(to);
            if (empty == nullptr) {
                layout::Bucket* following = next(to);
                if (following != nullptr) {
                    to = following;
                    empty = empty_slot(to);
                }
            }
            if (empty == nullptr) empty = add_overflow(to);
            CHECK(empty != nullptr);  // insert() ensured overflow_spare
            words::store_release(empty, word);
            words::store_release(&word, 0);
        }
    }
    count_ = added + 1;
    words::store_release(&entry_->bucket_count, count_);
    compact(from);
}

// Moves items from overflow buckets forward into holes and frees empty overflow buckets.
void Index::compact(layout::Bucket* head) {
    while (head->overflow != 0) {
        layout::Bucket* before = head;
        layout::Bucket* last = next(head);
        while (layout::Bucket* following = next(last)) {
            before = last;
            last = following;
        }
        for (uint64_t& word : last->slots) {
            if (word == 0) continue;
            uint64_t* hole = nullptr;
            for (layout::Bucket* at = head; at != last && hole == nullptr; at = next(at))
                hole = empty_slot(at);
            if (hole == nullptr) return;
            words::store_release(hole, word);
            words::store_release(&word, 0);
        }
        uint64_t number = before->overflow;
        words::store_release(&before->overflow, 0);
        words::store_relaxed(&last->overflow, overflow_free_);
        overflow_free_ = number;
        overflow_used_--;
    }
}

}  // namespace farcached::node
