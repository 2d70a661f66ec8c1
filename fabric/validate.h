// SPDX-License-Identifier: BSD-3-Clause
// validate(): the one place that decides whether what a reader copied is the item it asked for (S4).
// Pure: it is given what was seen before, in and after the copy.
#pragma once

#include <cstdint>

#include "base/broken.h"
#include "base/node_clock.h"
#include "protocol/layout.h"

namespace farcached::fabric {

// Why a read may or may not be used. Anything but `hit` goes to the locked path.
enum class Outcome : uint8_t {
    hit,
    not_found,   // the probe ended without the key: no proof of absence
    guard_dead,  // replaced, deleted or evicted
    moved,       // slot, guard or page epoch changed under the copy
    expired,     // the header's exptime has passed (it is a lower bound)
    flushed,     // stored before the last flush, or a delete by prefix that is not swept yet: it may be gone
    tokens,      // stale or win state, and the caller cares
    bounds,      // a length or offset that cannot be
    lease,       // of a pointer: its lease was over before the copy was complete
    generation,  // another generation lies where it leads
    key,         // another key does, or lies where the index led
    check,       // the bytes are not what was written there
};

// How a read was found by a remote pointer: what must be there, and until when.
struct ByPointer {
    uint64_t generation = 0;
    uint32_t length = 0;          // bytes: header, key and value
    uint64_t valid_until_ns = 0;  // CLOCK_BOOTTIME
};

struct Expect {
    uint32_t key_len = 0;
    NodeSeconds now = 0;
    bool tokens_matter = false;
    const ByPointer* pointer = nullptr;  // nullptr: found by the index; borrowed
};

// What the reader saw. "after" was loaded after an acquire fence behind the copy. Of another host's memory it saw a
// private copy and nothing else: guards, slots and epochs before and after are the same, and the check stands for them.
struct Seen {
    layout::Slot slot_before{}, slot_after{};
    layout::Guard guard_before{}, guard_after{};
    uint64_t epoch_before = 0, epoch_after = 0;
    uint64_t flush_floor = 0;    // after the copy
    uint64_t capacity_bytes = 0; // of the slot or run
    bool key_equal = false;
    bool check_equal = true;     // as far as it was looked at
    uint64_t now_ns = 0;         // by a pointer: CLOCK_BOOTTIME, read when the copy was complete
    layout::ItemHeader header{};
};

// Lengths that fit where the item lies (S10).
inline bool lengths_fit(const layout::ItemHeader& header, uint64_t capacity_bytes) {
    if (broken::s10_trust_lengths) return true;
    return layout::item_bytes(header.key_len, header.value_len) <= capacity_bytes;
}

// What is asked of a read by pointer besides. The lease first: what is seen after its end says nothing.
inline Outcome validate_pointer(const ByPointer& pointer, const Expect& expect, const Seen& seen) {
    if (!broken::s4_skip_lease && seen.now_ns >= pointer.valid_until_ns) return Outcome::lease;
    if (!broken::s4_skip_guard) {
        if (seen.guard_before.generation() != pointer.generation) return Outcome::generation;
        if (seen.guard_before.state() != layout::GuardState::live) return Outcome::guard_dead;
    }
    if (layout::item_bytes(seen.header.key_len, seen.header.value_len) != pointer.length)
        return Outcome::bounds;
    if (!broken::s4_skip_key) {
        if (seen.header.key_len != expect.key_len) return Outcome::key;
        if (!seen.key_equal) return Outcome::key;
    }
    if (!seen.check_equal) return Outcome::check;
    if (expect.tokens_matter && (seen.header.format & layout::format_tokens) != 0)
        return Outcome::tokens;
    return Outcome::hit;
}

inline Outcome validate(const Expect& expect, const Seen& seen) {
    if (expect.pointer != nullptr) return validate_pointer(*expect.pointer, expect, seen);
    if (seen.guard_before.state() != layout::GuardState::live) return Outcome::guard_dead;
    if (!broken::s5_skip_recheck) {
        if (seen.guard_after != seen.guard_before) return Outcome::moved;
        if (seen.slot_after != seen.slot_before) return Outcome::moved;
        if (seen.epoch_after != seen.epoch_before) return Outcome::moved;
    }
    if (!lengths_fit(seen.header, seen.capacity_bytes)) return Outcome::bounds;
    if (!broken::s5_skip_check && !seen.check_equal) return Outcome::check;
    if (!broken::s4_skip_key) {
        if (seen.header.key_len != expect.key_len) return Outcome::key;
        if (!seen.key_equal) return Outcome::key;
    }
    if (seen.guard_before.generation() < seen.flush_floor) return Outcome::flushed;
    if (!broken::s13_ignore_exptime && has_expired(seen.header.exptime, expect.now))
        return Outcome::expired;
    if (expect.tokens_matter && (seen.header.format & layout::format_tokens) != 0)
        return Outcome::tokens;
    return Outcome::hit;
}

}  // namespace farcached::fabric
