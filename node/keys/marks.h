// SPDX-License-Identifier: BSD-3-Clause
// Marks: counts a partition's mutations by stripes of its keys. A caller that brings a key's value from elsewhere takes the key's
// mark first. The node stores that value only if the key is missing and the mark is the same (StoreOp, mode cas).
//
// Owner: the Partition. Threads: any; every call needs the partition's lock.
//
// M1  Equal marks of a key mean: no mutation of the key, no flush, no delete by prefix, and no change of the list of nodes (`keep`)
//     was executed in between.
// M2  A mark has its top bit set, as no cas unique has. So a node of an earlier version, which has no marks, stores no such value.
//     It has no meaning for another node or another run: each begins at a random number.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/random_word.h"
#include "protocol/op.h"

namespace farcached::node {

class Marks {
  public:
    uint64_t of(uint64_t hash) const { return first_ + all_ + counts_[stripe(hash)]; }
    void note(uint64_t hash) { counts_[stripe(hash)]++; }
    // Of every key.
    void note_all() { all_++; }

  private:
    static constexpr size_t stripes = 256;
    static size_t stripe(uint64_t hash) { return (hash >> 8) % stripes; }  // partitions share the top bits, buckets the low ones

    // Room for the counts, so that the sum does not wrap.
    const uint64_t first_ = random_word() / 4 | protocol::mark_bit;
    uint64_t all_ = 0;
    std::array<uint32_t, stripes> counts_{};
};

}  // namespace farcached::node
