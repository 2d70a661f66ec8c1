// SPDX-License-Identifier: BSD-3-Clause
// ReportBoard: where the links of a host that lead to one node put what they have to report, so that one of them, the
// reporter, tells the node of all: of each item once, with the accesses of everybody added up.
//
// Owner: whoever mapped the memory, which other processes write at the same time; any thread.
//
// B1  Nothing is locked and nobody waits. A process that is stopped or killed between any two stores, or stopped there and
//     resumed after others went on, costs at most the counts of the cell that it was about to take, or had just taken.
// B2  What put() accepted is what take() tells, or calls lost, once: whoever takes, and be it two at once. What is told was
//     put for that item of that node, unless two items' tags are alike, which is one chance in 2^32 for each that was torn.
// B3  Whatever the memory holds, an item that is told could be one: its generation is in range, its count is not 0. Whether
//     there is such an item is for the node to say.
// B4  The office is held by one link at most. It ends when its holder resigns, is dead, or has not asked for it for as long
//     as it wanted it. Who holds it no more may not know yet: two who report are harmless (B2).
#pragma once

#include <cstdint>
#include <optional>

#include "base/function_ref.h"
#include "protocol/frame_layout.h"
#include "proxy/report_board_layout.h"

namespace farcached::proxy {

// A link of a process that is attached to the table.
struct BoardMember {
    uint16_t filler = 0;  // the process; not 0
    uint16_t link = 0;    // 1 to office_links_max

    bool operator==(const BoardMember&) const = default;
};

class ReportBoard {
  public:
    // Tests are told before each store or exchange which one it is.
    using Steps = FunctionRef<void(uint32_t)>;

    struct Put {
        uint32_t accepted = 0;  // accesses; the rest stays the caller's: there is no room for it
        bool merged = false;    // with some of the same item
    };
    Put put(const protocol::AccessRecord& item);
    Put put(const protocol::AccessRecord& item, Steps steps);
    // After one put() or more: says that there is something. Returns their number.
    uint64_t announce();
    // Is something there? Of what was put up to that number; of all that was announced.
    bool waiting(uint64_t number) const;
    bool waiting() const;

    struct Taken {
        uint32_t items = 0;
        uint64_t lost = 0;  // accesses of nothing that is known
    };
    // Of items_max items at most, those from cell number `cursor` on, which is where the next call goes on.
    Taken take(uint32_t items_max, uint32_t& cursor, FunctionRef<void(const protocol::AccessRecord&)> visit);

    enum class Office : uint8_t {
        others,      // somebody else holds it
        held,        // as before
        elected,     // nobody held it
        taken_over,  // its holder was dead, or late
    };
    // Holds the office until until_ns, if it is free or one's own. alive: is that process attached?
    Office seek(BoardMember me, uint64_t now_ns, uint64_t until_ns, FunctionRef<bool(uint16_t)> alive);
    void resign(BoardMember me);

    static constexpr uint64_t office_ns_max = UINT64_C(600'000'000'000);  // longer ones are nonsense, and over

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

// All of a table.
class ReportBoards {
  public:
    static constexpr uint64_t idle_ns = UINT64_C(180'000'000'000);  // unused so long, another node may have it

    // memory: boards_bytes(entries) of it, that outlive this; zeros at first. seed: the table's.
    ReportBoards(void* memory, uint64_t entries, uint64_t seed);

    // The node's, made its own if it has none; not there if all are others'. For a turn: later it may be another's.
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
