// SPDX-License-Identifier: BSD-3-Clause
// UnseenAccesses: accesses to one node's items that are to be told with the next requests.
//
// Owner: an AccessNotes.
// U1  They travel right in front of the next frame of requests, so that the node knows of each before it executes what
//     was asked after it; never by themselves: a node that is only read is left alone.
// U2  They are bounded: sets of four by the key's hash, accesses to one item counted together. In a full set the
//     oldest makes room, and is told of as dropped.
#pragma once

#include <algorithm>
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
    uint32_t note(const protocol::AccessRecord& access) {
        Set& set = sets_[access.hash % sets];
        touched_ |= UINT64_C(1) << access.hash % sets;
        for (uint32_t i = 0; i < set.filled; i++) {
            protocol::AccessRecord& item = set.items[i];
            if (item.generation != access.generation || item.offset != access.offset) continue;
            const uint32_t more = std::min(access.count, UINT32_MAX - item.count);
            item.count += more;
            return access.count - more;
        }
        return add(set, access);
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
