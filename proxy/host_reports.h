// SPDX-License-Identifier: BSD-3-Clause
// HostReports: a link's part in what the links of all processes of this host report to one node together, by the board
// that they share (report_board.h): it puts what it would have reported there, and, as long as it is the host's reporter,
// tells the node what is there, whoever put it.
//
// Owner: an AccessNotes.
// H1  Every interval a link has its turn if it has accesses to tell, reports for the host, or put something that was not
//     taken yet; else never: a host that reads nothing sleeps. For two intervals after its last turn nobody takes the office
//     from the reporter, unless its process is dead; who finds nothing to do in its turn resigns.
// H2  An access that was put is counted as shared by who put it; what is taken from the board is counted as taken, and then
//     as sent or dropped, by who took it. So it is told once at most. Those that the reporter took and had no answer to when
//     it ended die with it, uncounted; those on the board wait for the next one, or for the end of the table.
// H3  What finds no room on the board stays with the link that has it, and is put in a later turn.
// H4  Who finds no board for its node, because there are more nodes than boards, reports for itself.
#pragma once

#include <cstdint>
#include <vector>

#include "base/function_ref.h"
#include "protocol/frame.h"
#include "protocol/frame_layout.h"
#include "proxy/arc.h"
#include "proxy/link_counters.h"
#include "proxy/pointer_table.h"

namespace farcached::proxy {

class HostReports {
  public:
    static constexpr uint32_t put_in_turn_max = 4 * protocol::report_records_max;
    // Of a reporter, as long as the node has time: the largest board, once.
    static constexpr uint32_t reports_per_interval_max = board_cells_max / protocol::report_records_max + 1;

    // All outlive this.
    HostReports(PointerTable& table, LinkCounters& counters, uint64_t interval_ns);
    HostReports(const HostReports&) = delete;
    HostReports& operator=(const HostReports&) = delete;

    void greeted(uint64_t incarnation);
    // The connection is over. No longer the reporter.
    void ended();

    // The link's turn; returns how many accesses are dropped in it. can_report: the link could send a report now.
    uint64_t take_turn(Arc& arc, uint64_t now_ns, bool can_report);
    // What came of that turn: no board (H4); tells the node.
    bool alone() const { return !board_.has_value(); }
    bool reports() const { return reports_; }
    // It wants another turn, even if the link reads nothing.
    bool turn_wanted() const { return turn_wanted_; }

    // While it reports: of at most items_max items, from the board.
    uint32_t take(uint32_t items_max, FunctionRef<void(const protocol::AccessRecord&)> visit, uint64_t& dropped);
    // One that was taken and that the node did not look at. Returns how many accesses are dropped.
    uint64_t put_back(const protocol::AccessRecord& item);
    bool anything_left() const { return board_.has_value() && board_->waiting(); }

  private:
    uint64_t put_all(Arc& arc);
    void seek_office(uint64_t now_ns);
    void resign();

    PointerTable& table_;
    LinkCounters& counters_;
    uint64_t interval_ns_;
    BoardMember me_;
    uint64_t incarnation_ = 0;  // 0: there is no connection
    std::optional<ReportBoard> board_;  // of the last turn
    uint64_t announced_ = 0;            // what was put last
    uint32_t cursor_ = 0;
    bool reports_ = false;
    bool turn_wanted_ = false;
    std::vector<protocol::AccessRecord> refused_;  // empty between calls
};

}  // namespace farcached::proxy
