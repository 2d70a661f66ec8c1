// SPDX-License-Identifier: BSD-3-Clause
// Ghosts: the hashes of recently evicted items, with their touch counts. No I/O, no clock; owned by a policy.
//
// G1  It holds the last `limit` items added, except those taken.
// G2  An item is identified by 32 bits of its key's hash. A collision only gives an item a wrong position in a list.
// G3  An entry takes 16 to 32 bytes. The table doubles up to the limit, with amortized O(1) growth, and never shrinks. If
//     memory to grow is unavailable, the oldest entries are dropped; no call throws.
// G4  Positions depend on a seed that no peer learns, so no peer can aim many items at one position. The amount of memory does
//     not depend on the seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/hash.h"

namespace farcached::node {

class Ghosts {
  public:
    explicit Ghosts(uint64_t seed = 0) : seed_(seed) {}

    // touches: at least 1. limit: at least 1, and may change; entries above it are dropped, oldest first.
    void add(uint64_t hash, uint32_t touches, size_t limit) noexcept;
    // Removes the entry and returns its touch count; 0: unknown.
    uint32_t take(uint64_t hash) noexcept;
    size_t added() const { return size_; }  // entries in the ring, taken ones included

  private:
    struct Ghost {
        uint32_t tag = 0;
        uint32_t touches = 0;  // 0: taken
    };
    // Part of the key's hash; its top bits chose the partition.
    static uint32_t tag_of(uint64_t hash) { return uint32_t(hash); }
    size_t home(uint32_t tag) const { return hash_bytes(&tag, sizeof tag, seed_) >> shift_; }
    size_t find(uint32_t tag) const;
    void erase(size_t slot);
    void drop_oldest();
    bool grow() noexcept;

    std::vector<Ghost> ring_;  // size: a power of two
    size_t first_ = 0, size_ = 0;
    std::vector<uint32_t> slots_;  // twice the ring: 1 + position in the ring, by linear probing; 0: empty
    uint32_t shift_ = 0;
    uint64_t seed_;
};

}  // namespace farcached::node
