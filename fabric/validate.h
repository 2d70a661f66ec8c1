// SPDX-License-Identifier: BSD-3-Clause
// validate(): the one place that decides whether a reader's copy is the requested item (S4).
// Pure: its input is what the reader saw before, in and after the copy.
//
// Torn copies by pointer. A READ copies words in any order (S5). During it the slot may be written in place, die and revive,
// several times. Writers store whole words. So each word of the copy has a value that stood there during the READ. While the
// lease runs all these values are of one key (S1), so key_len and the words of the key never differ. The rest may be mixed:
//
//   guard    dead, or live with the generation of any item of that time. None is older than the pointer's generation, which
//            was live before the READ was posted.
//   lengths  of any item of that time: within the slot, but perhaps beyond the copy.
//   others   of any item of that time, in any combination with guard and check.
//
//   -> A hit needs a check that matches generation, header, key and value of the copy. A mixture has the check of one item
//      and a generation or a byte of another. So a hit is one whole item. Its guard was live at one moment of the READ, which
//      makes it a right answer (S7).
//   -> A tear may show `guard_dead`, `check` or `grown`. (Beyond the copy no check can be computed.) These keep the pointer.
//      So does `expired` (S13): a touch or a set makes the pointer good again.
//   -> A tear cannot show an older generation, another key or impossible lengths. These drop the pointer: the slot has gone
//      to another key, or the entry was wrong from the start (S10). They come before the check, because a foreign item need
//      not be whole.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/broken.h"
#include "base/limits.h"
#include "base/node_clock.h"
#include "fabric/remote_ptr.h"
#include "protocol/layout.h"

namespace farcached::fabric {

// Why a read may or may not be used. Anything but `hit` goes to the locked path.
enum class Outcome : uint8_t {
    hit,
    not_found,   // the probe ended without the key: no proof of absence
    guard_dead,  // replaced, deleted or evicted, or being written
    moved,       // slot, guard or page epoch changed under the copy
    expired,     // the header's exptime has passed (it is a lower bound)
    flushed,     // stored before the last flush, or under a delete by prefix that is not swept yet: it may be gone
    tokens,      // stale or win state, and the caller needs it
    bounds,      // an impossible length or offset
    lease,       // of a pointer: its lease ended before the copy was complete
    generation,  // the slot has an older generation than the pointer's
    grown,       // the item is longer than the copy
    key,         // the slot has another key
    check,       // the bytes do not match the item's check
};

// Does the pointer stay in the table after this outcome? (S4)
constexpr bool keeps_pointer(Outcome outcome) {
    return outcome != Outcome::generation && outcome != Outcome::key && outcome != Outcome::bounds;
}

// A reader's view of the item during the read; valid only if the read ends in Outcome::hit.
struct ReadMeta {
    uint64_t cas;
    uint32_t value_len;
    uint32_t flags;
    NodeSeconds exptime;  // a lower bound; 0 never
    uint8_t size_class;
    bool key_binary;
};

// Requirements of a read by pointer, and the end of its lease.
struct ByPointer {
    uint64_t generation = 0;      // or a later one
    uint64_t item_bytes_max = 0;  // longest possible item at that offset
    uint64_t valid_until_ns = 0;  // CLOCK_BOOTTIME
};

struct Expect {
    uint32_t key_len = 0;
    NodeSeconds now = 0;
    bool tokens_matter = false;
    const ByPointer* pointer = nullptr;  // nullptr: found by the index; borrowed
};

// The reader's observations. "after" was loaded after an acquire fence that follows the copy. Of another host's memory the
// reader has a private copy alone: guards, slots and epochs before and after are equal, and the check replaces them.
struct Seen {
    layout::Slot slot_before{}, slot_after{};
    layout::Guard guard_before{}, guard_after{};
    uint64_t epoch_before = 0, epoch_after = 0;
    uint64_t flush_floor = 0;    // after the copy
    uint64_t capacity_bytes = 0; // of the slot or run; by a pointer, of the copy
    bool key_equal = false;
    bool check_equal = true;     // verified in copies that a READ made; local reads leave it true
    uint64_t now_ns = 0;         // by a pointer: CLOCK_BOOTTIME, read when the copy was complete
    layout::ItemHeader header{};
};

// Do the lengths fit the item's place (S10)?
inline bool lengths_fit(const layout::ItemHeader& header, uint64_t capacity_bytes) {
    if (broken::s10_trust_lengths) return true;
    return layout::item_bytes(header.key_len, header.value_len) <= capacity_bytes;
}

// Checks a read by pointer. The lease comes first: a copy completed after its end proves nothing.
inline Outcome validate_pointer(const ByPointer& pointer, const Expect& expect, const Seen& seen) {
    if (!broken::s4_skip_lease && seen.now_ns >= pointer.valid_until_ns) return Outcome::lease;
    if (!broken::s4_skip_guard) {
        if (seen.guard_before.generation() < pointer.generation) return Outcome::generation;
        if (seen.guard_before.state() != layout::GuardState::live) return Outcome::guard_dead;
    }
    const layout::ItemHeader& header = seen.header;
    if (header.key_len == 0 || header.key_len > limits::key_bytes_max) return Outcome::bounds;
    if (layout::item_bytes(header.key_len, header.value_len) > pointer.item_bytes_max) return Outcome::bounds;
    if (layout::item_bytes(header.key_len, 0) > seen.capacity_bytes) return Outcome::bounds;
    if (!broken::s4_skip_key) {
        if (header.key_len != expect.key_len) return Outcome::key;
        if (!seen.key_equal) return Outcome::key;
    }
    if (layout::item_bytes(header.key_len, header.value_len) > seen.capacity_bytes) return Outcome::grown;
    if (!broken::s5_trust_shm_copy && !seen.check_equal) return Outcome::check;
    if (!broken::s13_pointers_never_expire && has_expired(header.exptime, expect.now)) return Outcome::expired;
    if (expect.tokens_matter && (header.format & layout::format_tokens) != 0) return Outcome::tokens;
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

// ---- copies that one-sided READs made -----------------------------------------------------------------
//
// Through a remote pointer or an index probe (S4). The copy is private, and the clock was read after the READ had completed.
// P1  No field of the copy is trusted before validate() returns hit; no byte beyond its end is read (S10).

struct PointerCopy {
    const uint64_t* words = nullptr;  // leased.ptr.length bytes
    LeasedPtr leased;                 // the pointer that was READ
    uint64_t completed_ns = 0;        // CLOCK_BOOTTIME, read after the completion
    uint64_t item_bytes_max = UINT64_MAX;  // longest possible item at that offset
    NodeSeconds latest = 0;           // upper bound of the node's clock at the completion (S13)
};

// A whole slot found through the index, without a lease.
struct ProbeCopy {
    const uint64_t* words = nullptr;
    uint32_t capacity_bytes = 0;  // of the slot; more than an item's header
    uint64_t offset = 0;          // from the region's start
    uint64_t flush_floor = 0;     // of the partition, READ for this probe
    NodeSeconds latest = 0;       // upper bound of the node's clock at the completion (S13)
};

struct PointerRead {
    Outcome outcome = Outcome::bounds;
    uint64_t generation = 0;  // of a hit
    ReadMeta meta{};         // of a hit; its size class is unknown (0)
    std::string_view value;  // of a hit; in the copy
};

// Both verify the item's check with the generation and the lengths in the copy (S5). check_secret: of the incarnation.
PointerRead judge_copy(const PointerCopy& copy, std::string_view key, bool tokens_matter, uint64_t check_secret);
// Of a slot with an item of another node, the home of `key` (protocol/spilled.h). Such a slot has its item in one generation, so
// only the pointer's own counts. The result's lengths and value are those of the home's item.
PointerRead judge_spilled(const PointerCopy& copy, std::string_view key, bool tokens_matter, uint64_t check_secret);
PointerRead judge_probe(const ProbeCopy& copy, std::string_view key, bool tokens_matter, uint64_t check_secret);

}  // namespace farcached::fabric
