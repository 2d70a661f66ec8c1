// SPDX-License-Identifier: BSD-3-Clause
// Accesses that travel with the next requests, and the frames that carry access records.
// Owner: an AccessNotes, on its thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/check.h"
#include "base/out_buffer.h"
#include "protocol/frame_layout.h"
#include "protocol/frame_writer.h"

namespace farcached::proxy {

// AccessFrames: writes access records as frames; each frame is full before the next one begins.
class AccessFrames {
  public:
    // Appends to `out`, which outlives this and has no other writer until end().
    AccessFrames(OutBuffer& out, uint32_t frame_bytes_max) : writer_(out, frame_bytes_max) {}

    void add(const protocol::ItemAccess& item) {
        accesses_ += item.count;
        if (writer_.open() && writer_.add(item)) return;
        end();
        writer_.begin(protocol::FrameKind::accesses, /* sequence= */ 0);
        const bool added = writer_.add(item);
        CHECK(added);
    }
    void end() {
        if (writer_.open()) writer_.end();
    }
    uint64_t accesses() const { return accesses_; }

    // Number of records that fit into `bytes` bytes of frames.
    static constexpr uint32_t records_in(uint32_t bytes, uint32_t frame_bytes_max) {
        constexpr uint32_t head = sizeof(protocol::FrameHeader), record = sizeof(protocol::AccessRecord);
        const uint32_t each = std::min<uint32_t>((frame_bytes_max - head) / record, UINT16_MAX);
        const uint32_t whole = bytes / (head + each * record);
        const uint32_t rest = bytes % (head + each * record);
        return whole * each + (rest > head ? (rest - head) / record : 0);
    }

  private:
    protocol::FrameWriter writer_;
    uint64_t accesses_ = 0;
};

// UnseenAccesses: accesses to one node's items that travel with the next requests.
//
// U1  They travel directly before the next frame of requests, so that the node records each before it executes later
//     requests. They are never sent alone: a node that is only READ is not woken.
// U2  They are bounded: sets of four by the key's hash, with one count per slot of a key. In a full set the oldest is
//     dropped, and counted as such.
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
