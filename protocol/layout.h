// SPDX-License-Identifier: BSD-3-Clause
// The memory layout that others READ: region header, page table, index bucket and item. Little-endian, pinned by
// static_assert. A change raises layout_version.
//
//   region   | header | partition table | page table | buckets ...           | arena (pages of 64 KiB) |
//
// Every word that can change while it is readable is read and written whole, by atomics (protocol/words.h).
//
// Types, constants and pure functions; any thread. Only the node writes the region, and the kernel its owner word
// (fabric/owner.h). Peers add to the read counters, which lie beside it (S6).
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/broken.h"

namespace farcached::layout {

constexpr uint32_t layout_version = 3;  // since 3 items are written in place, and a slot under a lease stays with its key
constexpr uint64_t region_magic = 0x3130646568636166;  // "fached01" in memory order

constexpr uint32_t stride_bytes = 16;
constexpr uint32_t page_bytes = 64 * 1024;
constexpr uint32_t slot_bytes_min = 64;
constexpr uint32_t page_slots_max = page_bytes / slot_bytes_min;
constexpr uint32_t partitions_max = 64;

// ---- item -------------------------------------------------------------------------------------------
//
//  0        8        16       24         28     32       36       38      40
//  | guard  | check  | cas    | value_len| flags| exptime| key_len| format| key bytes, value bytes |
//
// guard: {generation:62, state:2}. Other words of a published slot change only while it is dead (S1).
enum class GuardState : uint64_t { free = 0, live = 1, dead = 2 };

struct Guard {
    uint64_t word;

    static constexpr Guard make(uint64_t generation, GuardState state) {
        return {generation << 2 | uint64_t(state)};
    }
    constexpr uint64_t generation() const { return word >> 2; }
    constexpr GuardState state() const { return GuardState(word & 3); }
    constexpr Guard dead() const { return make(generation(), GuardState::dead); }
    constexpr bool operator==(const Guard&) const = default;
};

constexpr uint64_t generation_max = (UINT64_C(1) << 62) - 1;

// Sixteen bits of a generation, for access records: the low ones of its partition's count. The bits below them name the
// partition.
constexpr uint16_t generation_tag(uint64_t generation) { return uint16_t(generation / partitions_max); }

// format bits
constexpr uint16_t format_plain = 0;
constexpr uint16_t format_key_binary = 1;  // the key came as base64 (meta b)
constexpr uint16_t format_tokens = 2;      // stale or win state: mg must go to the locked path
constexpr uint16_t format_stub = 4;        // the value is elsewhere: its place stands here (node/items/stub.h)
constexpr uint16_t format_spilled = 8;     // another node's item, with that node's key: protocol/spilled.h

// The exptime in a stub's header, in every reader's past: each reader, of any version, leaves the item to the node (S13).
constexpr uint32_t stub_exptime = 1;

struct ItemHeader {
    uint64_t guard;
    uint64_t check;      // keyed XXH3-64 of generation and all fields below, by secret and offset
    uint64_t cas;        // for clients; never the generation
    uint32_t value_len;  // bytes
    uint32_t flags;      // the client's
    uint32_t exptime;    // NodeSeconds; a lower bound, 0 never
    uint16_t key_len;    // bytes, 1 to 250
    uint16_t format;
};
static_assert(sizeof(ItemHeader) == 40);
static_assert(offsetof(ItemHeader, cas) == 16);
static_assert(offsetof(ItemHeader, exptime) == 32);
static_assert(std::is_trivially_copyable_v<ItemHeader>);

constexpr uint64_t item_bytes(uint64_t key_len, uint64_t value_len) {
    return sizeof(ItemHeader) + key_len + value_len;
}

// ---- index ------------------------------------------------------------------------------------------
//
// slot: | tag:20 | size class:8 | offset / 16 :36 |, 0 when empty. The class is 1-based.
// A bucket is one cache line: seven slots and, last, the link to an overflow bucket (its number + 1, or 0).
struct Slot {
    uint64_t word;

    static constexpr Slot make(uint32_t tag, uint8_t size_class, uint64_t offset) {
        return {uint64_t(tag) << 44 | uint64_t(size_class) << 36 | offset / stride_bytes};
    }
    constexpr uint32_t tag() const { return uint32_t(word >> 44); }
    constexpr uint8_t size_class() const { return uint8_t(word >> 36); }
    constexpr uint64_t offset() const {  // bytes from the arena's start
        return (word & ((UINT64_C(1) << 36) - 1)) * stride_bytes;
    }
    constexpr bool empty() const { return word == 0; }
    constexpr bool operator==(const Slot&) const = default;
};

constexpr uint32_t bucket_slots = 7;

struct alignas(64) Bucket {
    uint64_t slots[bucket_slots];
    uint64_t overflow;
};
static_assert(sizeof(Bucket) == 64);

// The bits of a key hash: the partition takes the top 6, the tag the next 20, the bucket the low 32.
constexpr uint32_t partition_of(uint64_t hash, uint32_t partition_count_log2) {
    return partition_count_log2 == 0 ? 0 : uint32_t(hash >> (64 - partition_count_log2));
}
constexpr uint32_t tag_of(uint64_t hash) {
    const uint32_t tag = uint32_t(hash >> 38) & 0xfffff;
    return std::is_constant_evaluated() ? tag : tag & broken::faults.tag_mask;
}

// Linear hashing: `count` buckets are in use; count grows by one at each split.
constexpr uint32_t bucket_of(uint64_t hash, uint32_t count) {
    uint32_t mask = count <= 1 ? 0 : UINT32_MAX >> __builtin_clz(count - 1);
    uint32_t bucket = uint32_t(hash) & mask;
    return bucket < count ? bucket : bucket & (mask >> 1);
}

// ---- partition table --------------------------------------------------------------------------------
struct alignas(64) PartitionEntry {
    uint64_t bucket_count;    // in use, at least 1; grows by one
    uint64_t flush_floor;     // items of a lower generation may be flushed (S11): only their node knows
    uint64_t buckets_offset;  // bytes from the region's start; fixed
    uint64_t overflow_offset; // bytes from the region's start; fixed
    uint64_t buckets_max;     // fixed
    uint64_t overflow_max;    // fixed
    uint64_t reserved[2];
};
static_assert(sizeof(PartitionEntry) == 64);

// ---- page table -------------------------------------------------------------------------------------
struct PageEntry {
    uint64_t epoch;       // incremented before the page's strides change
    uint32_t size_class;  // 1-based; 0 free; large_class: part of a run
    uint32_t run_pages;   // first page of a run: its length; else 0
};
static_assert(sizeof(PageEntry) == 16);

constexpr uint8_t large_class = 63;  // items larger than a page: a run of pages each

// ---- read counters ----------------------------------------------------------------------------------
//
// Beside the region, in separate memory, a node may have a counter for each item: its number of one-sided reads (S6).
// One u64 for every slot_bytes_min of the arena, in its order: page number * counters_per_page + offset in the page /
// slot_bytes_min. No slot is smaller, so the counter of a slot's start belongs to that slot alone.
constexpr uint64_t counter_bytes = sizeof(uint64_t);
constexpr uint64_t counters_per_page = page_bytes / slot_bytes_min;
static_assert(page_bytes % slot_bytes_min == 0);

constexpr uint64_t counter_of(uint64_t arena_offset) {  // of the item there; bytes from the arena's start
    const uint64_t number = arena_offset / slot_bytes_min;
    if (std::is_constant_evaluated() || !broken::s6_count_in_items) return number;
    return (arena_offset + slot_bytes_min) / counter_bytes;
}
static_assert(counter_of(3 * page_bytes + 2 * slot_bytes_min) == 3 * counters_per_page + 2);

// ---- region header ----------------------------------------------------------------------------------
struct alignas(64) RegionHeader {
    uint64_t magic;
    uint32_t version;
    uint32_t partition_count_log2;
    uint64_t incarnation;      // random; never reused
    uint64_t owner;            // owner word (S9, fabric/owner.h): thread id of a living owner, marked at its death
    uint64_t region_bytes;
    uint64_t partitions_offset;
    uint64_t pages_offset;
    uint64_t page_count;       // entries in the page table
    uint64_t arena_offset;
    uint64_t hash_seed;        // of the key hash
    uint32_t class_bytes[64];  // slot size by 1-based class; 0: not in use
};
static_assert(offsetof(RegionHeader, incarnation) == 16);
static_assert(offsetof(RegionHeader, class_bytes) == 80);

}  // namespace farcached::layout
