// SPDX-License-Identifier: BSD-3-Clause
// ItemAccess: accesses to one slot that its node did not see. A proxy counts them, and a node gets them in the AccessRecord
// of a frame. Pure values.
//
// A1  A slot belongs to its key while a lease runs (S1): place and key hash identify its items of all generations. The
//     generation's tag only shows whether the accesses were to the present item.
// A2  A record can name places below 1 TiB of the first sixteen regions. Accesses to other places are not counted.
// A3  A record's count of 255 means 255 or more: a node's policies count fewer per record.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "protocol/frame_layout.h"
#include "protocol/layout.h"

namespace farcached::protocol {

struct ItemAccess {
    uint64_t hash = 0;    // of the key, under the node's seed
    uint64_t offset = 0;  // of the slot, from the region's start; a multiple of a stride
    uint32_t count = 0;
    uint16_t region = 0;
    uint16_t generation_tag = 0;  // layout::generation_tag()

    bool operator==(const ItemAccess&) const = default;
};
static_assert(sizeof(ItemAccess) == 24);
static_assert(std::has_unique_object_representations_v<ItemAccess>, "no byte of it is padding");

constexpr uint32_t access_place_bits = 36;
constexpr uint32_t access_region_bits = 4;
constexpr uint32_t access_count_bits = 8;
constexpr uint32_t access_tag_bits = 16;
static_assert(access_place_bits + access_region_bits + access_count_bits + access_tag_bits == 64);

constexpr uint64_t access_offset_max = ((UINT64_C(1) << access_place_bits) - 1) * layout::stride_bytes;
constexpr uint32_t access_region_max = (1u << access_region_bits) - 1;
constexpr uint32_t access_count_max = (1u << access_count_bits) - 1;

// A2
constexpr bool has_record(uint64_t offset, uint32_t region) {
    return offset <= access_offset_max && offset % layout::stride_bytes == 0 && region <= access_region_max;
}

// Nothing: no record can name that place (A2).
constexpr std::optional<ItemAccess> item_access(uint64_t hash, uint64_t offset, uint32_t region, uint64_t generation,
                                                uint32_t count) {
    if (!has_record(offset, region)) return std::nullopt;
    return ItemAccess{hash, offset, count, uint16_t(region), layout::generation_tag(generation)};
}

constexpr bool same_place(const ItemAccess& a, const ItemAccess& b) {
    return a.offset == b.offset && a.region == b.region;
}

// Of two tags of one slot, at most 2^15 generations of its partition apart: is `a` the later one?
constexpr bool later_tag(uint16_t a, uint16_t b) { return int16_t(uint16_t(a - b)) > 0; }

// Adds the count of `more`, of the same place, to `item`; returns how many a count cannot hold.
constexpr uint32_t merge(ItemAccess& item, const ItemAccess& more) {
    if (item.count == 0 || later_tag(more.generation_tag, item.generation_tag)) item.generation_tag = more.generation_tag;
    const uint32_t added = std::min(more.count, UINT32_MAX - item.count);
    item.count += added;
    return more.count - added;
}

// Only for the result of item_access(), with a count that is not 0.
constexpr AccessRecord record_of(const ItemAccess& item) {
    uint64_t word = item.offset / layout::stride_bytes;
    uint32_t at = access_place_bits;
    word |= uint64_t(item.region) << at;
    at += access_region_bits;
    word |= uint64_t(std::min(item.count, access_count_max)) << at;
    at += access_count_bits;
    word |= uint64_t(item.generation_tag) << at;
    return {item.hash, word};
}

constexpr ItemAccess access_of(const AccessRecord& record) {
    ItemAccess item;
    item.hash = record.hash;
    uint64_t word = record.word;
    item.offset = (word & ((UINT64_C(1) << access_place_bits) - 1)) * layout::stride_bytes;
    word >>= access_place_bits;
    item.region = uint16_t(word & access_region_max);
    word >>= access_region_bits;
    item.count = uint32_t(word & access_count_max);
    item.generation_tag = uint16_t(word >> access_count_bits);
    return item;
}

}  // namespace farcached::protocol
