// SPDX-License-Identifier: BSD-3-Clause
// HiddenItems: which items of a partition a flush or a delete by prefix hides, and the word that tells readers.
//
// Owner: a Partition, under its lock.
//
// F1  An item is hidden if its generation is below the floor of the last flush, or if HiddenPrefixes hides it.
// F2  Readers without the lock see both through one word of the partition's entry, the published floor: older items use the
//     locked path, where hides() decides. It decreases only when all items hidden by a delete by prefix are dead (S11).
#pragma once

#include <cstdint>
#include <string_view>

#include "node/arena.h"
#include "node/hidden_prefixes.h"
#include "node/node.h"
#include "node/stored_item.h"
#include "protocol/layout.h"

namespace farcached::node {

class HiddenItems {
  public:
    void attach(Arena& arena, layout::PartitionEntry& entry, uint64_t floor);

    bool hides(Ref ref) const {
        const uint64_t generation = generation_of(*arena_, ref);
        if (generation >= entry_->flush_floor) return false;
        return generation < flush_floor_ || hides_by_prefix(ref);
    }
    bool hides_by_prefix(Ref ref) const { return prefixes_.hides(key_of(*arena_, ref), generation_of(*arena_, ref)); }
    // Hides all items below that generation.
    void flush(uint64_t floor);
    // Hides the items with the prefix below that generation. False: the table of prefixes is full. Throws std::bad_alloc.
    bool hide_prefix(std::string_view prefix, uint64_t floor, uint64_t order);
    // Every page was swept since that order: this prefix delete and earlier ones hide nothing any more.
    void swept(uint64_t order);
    // The item is being removed.
    void count_removed(Ref ref) {
        if (prefixes_.size() != 0 && hides_by_prefix(ref)) prefix_items_++;
    }
    void add_stats(Stats& sum) const;

  private:
    void publish();

    Arena* arena_ = nullptr;
    layout::PartitionEntry* entry_ = nullptr;
    uint64_t flush_floor_ = 0;   // of the last flush; entry_->flush_floor may be higher (F2)
    HiddenPrefixes prefixes_;    // not swept yet
    uint64_t prefix_items_ = 0;  // removed for a prefix
};

}  // namespace farcached::node
