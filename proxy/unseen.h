// SPDX-License-Identifier: BSD-3-Clause
// UnseenAccesses: accesses to one node's items that travel with the next requests.
//
// Owner: an AccessNotes.
// U1  They travel directly before the next frame of requests, so that the node records each before it executes later
//     requests. They are never sent alone: a node that is only READ is not woken.
// U2  They are bounded: sets of four by the key's hash, with one count per slot of a key. In a full set the oldest is
//     dropped, and counted as such.
#pragma once

#include <array>
#include <cstdint>

#include "base/out_buffer.h"
#include "protocol/access_record.h"

namespace farcached::proxy {

class UnseenAccesses {
  public:
    static constexpr uint32_t items_max = 256;

    bool any() const { return touched_ != 0; }

    // Returns how many accesses were dropped for it: usually 0.
    uint32_t note(const protocol::ItemAccess& access) {
        Set& set = sets_[access.hash % sets];
        touched_ |= UINT64_C(1) << access.hash % sets;
        for (uint32_t i = 0; i < set.filled; i++) {
            protocol::ItemAccess& item = set.items[i];
            if (item.hash == access.hash && protocol::same_place(item, access)) return protocol::merge(item, access);
        }
        return add(set, access);
    }

    // Appends frames of all of them to `out`, each within frame_bytes_max; returns the number of accesses sent.
    uint64_t send(OutBuffer& out, uint32_t frame_bytes_max);
    // The connection ended; offsets lose their meaning. Returns the number of accesses dropped.
    uint64_t drop_all();

  private:
    static constexpr uint32_t sets = 64;  // one bit each in touched_
    static constexpr uint32_t ways = 4;
    static_assert(sets * ways == items_max);
    struct Set {
        std::array<protocol::ItemAccess, ways> items;
        uint32_t filled = 0;
        uint32_t oldest = 0;  // replaced next, if the set is full
    };

    static uint32_t add(Set& set, const protocol::ItemAccess& item);
    template <class Visit>
    void take(Visit&& visit);

    uint64_t touched_ = 0;
    std::array<Set, sets> sets_{};
};

}  // namespace farcached::proxy
