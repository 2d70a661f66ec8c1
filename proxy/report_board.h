// SPDX-License-Identifier: BSD-3-Clause
// The board of a host's reports in shared memory: its layout, and its use.
// Owner: of ReportBoards the PointerTable. Any thread; other processes write the memory at the same time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "base/function_ref.h"
#include "base/hash.h"
#include "protocol/frame_layout.h"

namespace farcached::proxy {

// The layout of the report boards, which lie behind the entries of a pointer table (pointer_table_layout.h).
// Little-endian, pinned here and by t/unit/proxy/report_board.cc. A change of the layout increments table_version.
//
//   | headers of the boards, 64 bytes each | cells of board 0, 24 bytes each, in sets of eight | cells of board 1 | ...
//
// Any process may load or store each word whole at any time. A cell's count changes only by compare and exchange of its
// meter. The tag in the meter, a keyed hash of the item's words and the board's node, names the counted item. So a
// count is never taken twice. If two processes took the cell for different items, or one stopped half way, the tag does
// not match the words: the count is dropped.

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

// ReportBoard: the place where all links of a host to one node put the accesses that they would report. One link, the
// reporter, sends them to the node: each item once, with the sum of all accesses.
//
// Any thread may call.
//
// B1  The board uses no locks and no thread waits. A process stopped or killed between any two stores, or resumed
//     later, costs at most the counts of one cell: the one that it was taking.
// B2  Every access that put() accepted leaves take() once, as visited or as lost, even with two takers at once. A
//     visited access was put for that item of that node, unless the tags of two items match: 1 in 2^24 for each torn
//     cell.
// B3  Whatever the memory holds, a visited item is well formed: a record can name its place, and its count is not 0.
//     The node decides whether the item exists.
// B4  At most one link is the reporter. Its term ends when it resigns, is dead, or does not renew the term in time. A
//     former reporter may not notice at once; two that report do no harm (B2).

// A link of an attached process.
struct BoardMember {
    uint16_t filler = 0;  // the process; not 0
    uint16_t link = 0;    // 1 to leader_links_max

    bool operator==(const BoardMember&) const = default;
};

class ReportBoard {
  public:
    // Tests get the number of each store or exchange before it happens.
    using Steps = FunctionRef<void(uint32_t)>;

    struct Put {
        uint32_t accepted = 0;  // accesses; the rest found no room and stays with the caller
        bool merged = false;    // with earlier accesses to the same item
    };
    Put put(const protocol::ItemAccess& item);
    Put put(const protocol::ItemAccess& item, Steps steps);
    // After one put() or more: makes them visible to waiting(). Returns their number.
    uint64_t announce();
    // Does the board hold accesses? Up to that announcement; of any announcement.
    bool waiting(uint64_t number) const;
    bool waiting() const;

    struct Taken {
        uint32_t items = 0;
        uint64_t lost = 0;  // accesses whose item is unknown
    };
    // Takes up to items_max items, from cell number `cursor` on; the next call continues there.
    Taken take(uint32_t items_max, uint32_t& cursor, FunctionRef<void(const protocol::ItemAccess&)> visit);

    enum class Leadership : uint8_t {
        others,      // another link is the reporter
        held,        // this link is the reporter, as before
        elected,     // there was no reporter
        taken_over,  // the reporter was dead or late
    };
    // Becomes or stays the reporter until until_ns, if the role is free or one's own. alive: is that process attached?
    Leadership seek(BoardMember me, uint64_t now_ns, uint64_t until_ns, FunctionRef<bool(uint16_t)> alive);
    void resign(BoardMember me);

    static constexpr uint64_t leader_term_ns_max = UINT64_C(600'000'000'000);  // longer terms are invalid, and count as ended

  private:
    friend class ReportBoards;
    ReportBoard(BoardHeader& header, uint64_t* cells, uint64_t count, uint64_t incarnation, uint64_t seed)
        : header_(&header), cells_(cells), count_(count), incarnation_(incarnation), seed_(seed) {}

    uint64_t* cell(uint64_t number) const { return cells_ + number * cell_words; }
    uint64_t* find(const CellItem& item, uint32_t tag) const;
    bool take_from(uint64_t* cell, CellItem& item, uint64_t& meter) const;

    BoardHeader* header_;
    uint64_t* cells_;
    uint64_t count_;
    uint64_t incarnation_;
    uint64_t seed_;
};

// All boards of a table.
class ReportBoards {
  public:
    static constexpr uint64_t idle_ns = UINT64_C(180'000'000'000);  // after this long without use, another node may take a board

    // memory: boards_bytes(entries), initially zero; outlives this. seed: the table's.
    ReportBoards(void* memory, uint64_t entries, uint64_t seed);

    // The node's board; claims a free or idle one if it has none. Valid for one poll: later it may be another node's.
    std::optional<ReportBoard> of(uint64_t incarnation, uint64_t now_ns);

  private:
    BoardHeader& header(uint32_t number) const { return headers_[number]; }
    ReportBoard board(uint32_t number, uint64_t incarnation) const;
    bool idle(const BoardHeader& header, uint64_t now_ns) const;

    BoardHeader* headers_;
    uint64_t* cells_;
    uint64_t cells_each_;
    uint64_t seed_;
};

}  // namespace farcached::proxy
