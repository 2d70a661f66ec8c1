// SPDX-License-Identifier: BSD-3-Clause
// UnseenAccesses: accesses to one node's items that the node did not see, because this process read its memory: by a
// remote pointer, by the index, or where it is mapped.
//
// Owner: a NodeLink.
// U1  They travel right in front of the next frame of requests, so that the node knows of each before it executes what
//     was asked after it; never by themselves: a node that is only read is left alone.
// U2  They are bounded: sets of four by the key's hash, accesses to one item counted together. In a full set the
//     oldest makes room, and is told of as dropped.
#pragma once

#include <array>
#include <cstdint>

#include "base/out_buffer.h"
#include "protocol/frame_layout.h"

namespace farcached::proxy {

class UnseenAccesses {
  public:
    static constexpr uint32_t items_max = 256;

    bool any() const { return touched_ != 0; }

    // Returns how many accesses were dropped for it: usually none.
    // offset: of the item, from the region's start; key_hash: under the node's seed.
    uint32_t note(uint64_t key_hash, uint64_t generation, uint64_t offset, uint32_t region) {
        Set& set = sets_[key_hash % sets];
        touched_ |= UINT64_C(1) << key_hash % sets;
        for (uint32_t i = 0; i < set.filled; i++) {
            protocol::AccessRecord& item = set.items[i];
            if (item.generation != generation || item.offset != offset) continue;
            item.count += item.count != UINT32_MAX;
            return 0;
        }
        return add(set, {key_hash, generation, offset, region, 1});
    }

    // Frames of all of them, none longer than agreed, to the end of `out`; returns how many accesses they tell of.
    uint64_t send(OutBuffer& out, uint32_t frame_bytes_max);
    // The connection is over, and with it what offsets meant. Returns how many.
    uint64_t drop_all();

  private:
    static constexpr uint32_t sets = 64;  // a bit each in touched_
    static constexpr uint32_t ways = 4;
    static_assert(sets * ways == items_max);
    struct Set {
        std::array<protocol::AccessRecord, ways> items;
        uint32_t filled = 0;
        uint32_t oldest = 0;  // when it is full
    };

    static uint32_t add(Set& set, const protocol::AccessRecord& item);
    template <class Visit>
    void take(Visit&& visit);

    uint64_t touched_ = 0;
    std::array<Set, sets> sets_{};
};

}  // namespace farcached::proxy
