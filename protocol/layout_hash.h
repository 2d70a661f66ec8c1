// SPDX-License-Identifier: BSD-3-Clause
// layout_hash: one number for all of protocol/layout.h. A proxy and a node with different layouts notice by it, even if
// layout_version was not raised. The greeting has it; t/unit/protocol/handshake pins it together with the version.
// A constant.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/broken.h"
#include "base/hash.h"
#include "protocol/frame_layout.h"
#include "protocol/layout.h"

namespace farcached::layout {

namespace detail {

// FNV-1a over whole numbers: it distinguishes builds and protects no secret.
constexpr uint64_t mix(uint64_t hash, uint64_t number) {
    for (int i = 0; i < 8; i++) {
        hash ^= (number >> (8 * i)) & 0xff;
        hash *= UINT64_C(0x100000001b3);
    }
    return hash;
}

template <class... Numbers>
constexpr uint64_t mix_all(Numbers... numbers) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    ((hash = mix(hash, uint64_t(numbers))), ...);
    return hash;
}

}  // namespace detail

constexpr uint64_t layout_hash = detail::mix_all(
    // the whole
    region_magic, layout_version, stride_bytes, page_bytes, slot_bytes_min, partitions_max,
    large_class,
    // guard
    Guard::make(generation_max, GuardState::dead).word, GuardState::free, GuardState::live,
    GuardState::dead,
    // item
    sizeof(ItemHeader), offsetof(ItemHeader, guard), offsetof(ItemHeader, check),
    offsetof(ItemHeader, cas), offsetof(ItemHeader, value_len), offsetof(ItemHeader, flags),
    offsetof(ItemHeader, exptime), offsetof(ItemHeader, key_len), offsetof(ItemHeader, format),
    format_key_binary, format_tokens,
    // index: examples stand for the fields of a slot and of a hash
    sizeof(Bucket), offsetof(Bucket, overflow), bucket_slots,
    Slot::make(0xabcde, 0x5a, 0x123456780).word, partition_of(UINT64_C(0xfedcba9876543210), 6),
    tag_of(UINT64_C(0xfedcba9876543210)), bucket_of(UINT64_C(0xfedcba9876543210), 1000),
    // partition table
    sizeof(PartitionEntry), offsetof(PartitionEntry, bucket_count),
    offsetof(PartitionEntry, flush_floor), offsetof(PartitionEntry, buckets_offset),
    offsetof(PartitionEntry, overflow_offset), offsetof(PartitionEntry, buckets_max),
    offsetof(PartitionEntry, overflow_max),
    // page table
    sizeof(PageEntry), offsetof(PageEntry, epoch), offsetof(PageEntry, size_class),
    offsetof(PageEntry, run_pages),
    // region header
    sizeof(RegionHeader), offsetof(RegionHeader, version),
    offsetof(RegionHeader, partition_count_log2), offsetof(RegionHeader, incarnation),
    offsetof(RegionHeader, owner), offsetof(RegionHeader, region_bytes),
    offsetof(RegionHeader, partitions_offset), offsetof(RegionHeader, pages_offset),
    offsetof(RegionHeader, page_count), offsetof(RegionHeader, arena_offset),
    offsetof(RegionHeader, hash_seed), offsetof(RegionHeader, class_bytes));

// A layout, as greetings name it.
struct Identity {
    uint32_t version;
    uint64_t hash;
    constexpr bool operator==(const Identity&) const = default;
};

// The last layout without in-place writes of items.
constexpr Identity before_in_place{2, UINT64_C(15839788792690209363)};

// The layout that this process names in greetings.
inline Identity spoken() {
    if (broken::faults.speaks < protocol::version_with_in_place) return before_in_place;
    return {layout_version, layout_hash};
}

// May a peer that names this layout read this process's memory? (S18)
inline bool may_read(const Identity& named) { return named == spoken() || broken::s18_ignore_versions; }

// The check in each item (protocol/layout.h): a keyed hash of its generation and of all bytes after the check, keyed also
// by the item's place. A proxy with the secret of the incarnation can verify a copy. Pure.
// The key of the check of an item of that generation, `offset` bytes from the region's start.
inline uint64_t item_check_seed(uint64_t secret, uint64_t generation, uint64_t offset) {
    if (broken::s4_check_without_generation) generation = 0;
    return secret ^ generation * UINT64_C(0x9e3779b97f4a7c15) ^ offset;
}

// `item`: the item or a copy of it, `bytes` long, with its header; offset: of the item, from the region's start.
inline uint64_t item_check(const void* item, uint64_t bytes, uint64_t secret, uint64_t generation,
                           uint64_t offset) {
    constexpr size_t from = offsetof(ItemHeader, cas);
    return hash_bytes(static_cast<const char*>(item) + from, bytes - from, item_check_seed(secret, generation, offset));
}

}  // namespace farcached::layout
