// SPDX-License-Identifier: BSD-3-Clause
// Ghosts: which items were evicted lately, and how often each had been touched. Pure; owned by a policy.
//
// G1  It knows the last `limit` that were added, less those that were taken, and nothing else.
// G2  An item is known by 32 bits of its key's hash: it may be taken for another one, which errs by a place in a list.
// G3  16 to 32 bytes each; grown by doubling up to the limit, by O(1) in the mean, and never given back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace farcached::node {

class Ghosts {
  public:
    // touches: at least 1. limit: at least 1, of now; what is above it is forgotten, the oldest first.
    void add(uint64_t hash, uint32_t touches, size_t limit);
    // How often it had been touched; 0: it is not known. From then on it is not.
    uint32_t take(uint64_t hash);
    size_t added() const { return size_; }  // of the last, those that were taken among them

  private:
    struct Ghost {
        uint32_t tag = 0;
        uint32_t touches = 0;  // 0: taken
    };
    // Of the key's hash, whose top bits chose the partition.
    static uint32_t tag_of(uint64_t hash) { return uint32_t(hash); }
    size_t home(uint32_t tag) const { return (tag * UINT64_C(0x9e3779b97f4a7c15)) >> shift_; }
    size_t find(uint32_t tag) const;
    void erase(size_t slot);
    void drop_oldest();
    void grow();

    std::vector<Ghost> ring_;  // a power of two
    size_t first_ = 0, size_ = 0;
    std::vector<uint32_t> slots_;  // twice the ring: 1 + place in the ring, by linear probing; 0: empty
    uint32_t shift_ = 0;
};

}  // namespace farcached::node
