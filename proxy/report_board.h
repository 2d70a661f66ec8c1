// SPDX-License-Identifier: BSD-3-Clause
// ReportBoard: the place where all links of a host to one node put the accesses that they would report. One link, the
// reporter, sends them to the node: each item once, with the sum of all accesses.
//
// Owner: the mapping's owner. Other processes write the memory at the same time; any thread may call.
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
#pragma once

#include <cstdint>
#include <optional>

#include "base/function_ref.h"
#include "protocol/access_record.h"
#include "proxy/report_board_layout.h"

namespace farcached::proxy {

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
