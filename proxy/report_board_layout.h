// SPDX-License-Identifier: BSD-3-Clause
// The shapes of the report boards, which lie behind the entries of a pointer table (pointer_table_layout.h).
// Little-endian, pinned here and by t/unit_report_board.cc. Change one and table_version goes up.
//
//   | headers of the boards, 64 bytes each | cells of board 0, 32 bytes each, in sets of eight | cells of board 1 | ...
//
// Every word is loaded and stored whole, by anybody at any time. A cell's count changes by nothing but compare and exchange
// of its meter, in which a tag, a keyed hash of the words before it and of the board's node, says which item it counts. So
// a count is never taken twice; one whose tag is not that of the words beside it, because two took the cell for different
// items, or one stopped on the way, counts nothing that is known, and is dropped.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/hash.h"

namespace farcached::proxy {

constexpr uint32_t boards_max = 32;  // nodes
constexpr uint64_t board_cells_min = 64;
constexpr uint64_t board_cells_max = 4096;
constexpr uint64_t board_entries_per_cell = 256;  // of the table: its boards take 4 bytes more for an entry
constexpr uint32_t board_set_ways = 8;

// ---- cell -------------------------------------------------------------------------------------------
//
//  0         8           16                     24
//  | key hash| generation| region:16, offset:48 | tag:32, count:32 |
//
enum CellWord : uint32_t { cell_key_hash, cell_generation, cell_place, cell_meter };
constexpr uint32_t cell_words = 4;
constexpr uint32_t cell_item_words = 3;
static_assert(cell_meter == cell_item_words);

using CellItem = std::array<uint64_t, cell_item_words>;

constexpr uint64_t board_cells(uint64_t entries) {
    return std::clamp(entries / board_entries_per_cell, board_cells_min, board_cells_max);
}

inline uint32_t cell_tag(const CellItem& item, uint64_t incarnation, uint64_t seed) {
    const std::array<uint64_t, cell_item_words + 1> all{item[0], item[1], item[2], incarnation};
    return uint32_t(hash_bytes(all.data(), sizeof all, seed));
}
constexpr uint64_t make_meter(uint32_t tag, uint32_t count) { return uint64_t(tag) << 32 | count; }
constexpr uint32_t meter_tag(uint64_t meter) { return uint32_t(meter >> 32); }
constexpr uint32_t meter_count(uint64_t meter) { return uint32_t(meter); }

// ---- header -----------------------------------------------------------------------------------------
struct BoardHeader {
    uint64_t incarnation;  // of the node; 0: nobody's yet
    uint64_t used_ns;      // when a link last came by, on CLOCK_BOOTTIME; about
    uint64_t office;       // who reports; 0: nobody
    uint64_t puts;         // how often something was put, as far as those who did lived to say so
    uint64_t drained;      // what `puts` was before all there was had been taken
    uint64_t reserved[3];
};
static_assert(sizeof(BoardHeader) == 64, "a board's header is one cache line");
static_assert(offsetof(BoardHeader, office) == 16);
static_assert(offsetof(BoardHeader, drained) == 32);
static_assert(std::is_trivially_copyable_v<BoardHeader>);

// The office is one word, so that holder and time change together: | filler:16 | link:12 | until:36 |
// filler: the holder's process, by its number in the table. link: which of its links. until: on CLOCK_BOOTTIME, in units of
// 2^24 ns, which is 16.8 ms: 36 bits last for 36 years.
constexpr uint32_t office_until_shift = 24;
constexpr uint64_t office_until_max = (UINT64_C(1) << 36) - 1;
constexpr uint16_t office_links_max = 0xfff;

constexpr uint64_t boards_bytes(uint64_t entries) {
    return boards_max * (sizeof(BoardHeader) + board_cells(entries) * cell_words * sizeof(uint64_t));
}

}  // namespace farcached::proxy
