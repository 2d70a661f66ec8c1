// SPDX-License-Identifier: BSD-3-Clause
// The layout of the report boards, which lie behind the entries of a pointer table (pointer_table_layout.h).
// Little-endian, pinned here and by t/unit/proxy/report_board.cc. A change of the layout increments table_version.
//
//   | headers of the boards, 64 bytes each | cells of board 0, 24 bytes each, in sets of eight | cells of board 1 | ...
//
// Any process may load or store each word whole at any time. A cell's count changes only by compare and exchange of its
// meter. The tag in the meter, a keyed hash of the item's words and the board's node, names the counted item. So a
// count is never taken twice. If two processes took the cell for different items, or one stopped half way, the tag does
// not match the words: the count is dropped.
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
constexpr uint64_t board_entries_per_cell = 256;  // of the table; the boards add 3 bytes per entry
constexpr uint32_t board_set_ways = 8;

// ---- cell -------------------------------------------------------------------------------------------
//
//  0         8                      16
//  | key hash| region:16, offset:48 | tag:24, generation:16, count:24 |
//
// An item is a key's slot: one cell counts all of its generations, with layout::generation_tag() of the latest.
enum CellWord : uint32_t { cell_key_hash, cell_place, cell_meter };
constexpr uint32_t cell_words = 3;
constexpr uint32_t cell_item_words = 2;
static_assert(cell_meter == cell_item_words);

using CellItem = std::array<uint64_t, cell_item_words>;

constexpr uint64_t board_cells(uint64_t entries) {
    return std::clamp(entries / board_entries_per_cell, board_cells_min, board_cells_max);
}

inline uint32_t cell_tag(const CellItem& item, uint64_t incarnation, uint64_t seed) {
    const std::array<uint64_t, cell_item_words + 1> all{item[0], item[1], incarnation};
    return uint32_t(hash_bytes(all.data(), sizeof all, seed)) >> 8;
}
constexpr uint32_t meter_count_max = (1u << 24) - 1;
constexpr uint64_t make_meter(uint32_t tag, uint16_t generation_tag, uint32_t count) {
    return uint64_t(tag) << 40 | uint64_t(generation_tag) << 24 | count;
}
constexpr uint32_t meter_tag(uint64_t meter) { return uint32_t(meter >> 40); }
constexpr uint16_t meter_generation(uint64_t meter) { return uint16_t(meter >> 24); }
constexpr uint32_t meter_count(uint64_t meter) { return uint32_t(meter) & meter_count_max; }

// ---- header -----------------------------------------------------------------------------------------
struct BoardHeader {
    uint64_t incarnation;  // of the node; 0: unused
    uint64_t used_ns;      // last use by a link, on CLOCK_BOOTTIME; approximate
    uint64_t leader;       // the reporter and the end of its term; 0: none
    uint64_t puts;         // announcements so far
    uint64_t drained;      // `puts` as it was before the board was last emptied
    uint64_t reserved[3];
};
static_assert(sizeof(BoardHeader) == 64, "a board's header is one cache line");
static_assert(offsetof(BoardHeader, leader) == 16);
static_assert(offsetof(BoardHeader, drained) == 32);
static_assert(std::is_trivially_copyable_v<BoardHeader>);

// One word holds the reporter and the end of its term, so that both change together: | filler:16 | link:12 | until:36 |
// filler: the process's number in the table. link: one of its links. until: CLOCK_BOOTTIME in units of 2^24 ns (16.8
// ms); 36 bits last for 36 years.
constexpr uint32_t leader_until_shift = 24;
constexpr uint64_t leader_until_max = (UINT64_C(1) << 36) - 1;
constexpr uint16_t leader_links_max = 0xfff;

constexpr uint64_t boards_bytes(uint64_t entries) {
    return boards_max * (sizeof(BoardHeader) + board_cells(entries) * cell_words * sizeof(uint64_t));
}

}  // namespace farcached::proxy
