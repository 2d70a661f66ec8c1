// SPDX-License-Identifier: BSD-3-Clause
// HostReports: one link's part in the reports that all processes of this host send together to one node. Links put
// their accesses on a shared board (report_board.h). One link, the reporter, takes them from the board and sends them.
//
// Owner: an AccessNotes.
// H1  A link polls the board each interval if it has accesses to put, has some still on the board, or is the reporter.
//     Otherwise it never polls, so that a host without reads sleeps. A reporter stays in its role for two intervals
//     after its last poll, unless its process is dead. A reporter that finds an empty board resigns.
// H2  The link that puts an access counts it as shared. The link that takes it counts it as taken, then as sent or
//     dropped, so each access is sent at most once. If the reporter's process dies, its unanswered accesses are lost,
//     uncounted. Accesses on the board wait for the next reporter or for the end of the table.
// H3  Accesses that find no room on the board stay with their link for a later poll.
// H4  With more nodes than boards, a link without a board reports for itself.
#pragma once

#include <cstdint>
#include <vector>

#include "base/function_ref.h"
#include "protocol/access_record.h"
#include "protocol/frame.h"
#include "proxy/arc.h"
#include "proxy/link_counters.h"
#include "proxy/pointer_table.h"

namespace farcached::proxy {

class HostReports {
  public:
    static constexpr uint32_t put_in_turn_max = 4 * protocol::report_records_max;
    // For a reporter while the node has time: enough for the largest board once.
    static constexpr uint32_t reports_per_interval_max = board_cells_max / protocol::report_records_max + 1;

    // All arguments outlive this.
    HostReports(PointerTable& table, LinkCounters& counters, uint64_t interval_ns);
    HostReports(const HostReports&) = delete;
    HostReports& operator=(const HostReports&) = delete;

    void greeted(uint64_t incarnation);
    // The connection ended; this link is no longer the reporter.
    void ended();

    // Polls the board; returns the number of accesses dropped. can_report: the link could send a report now.
    uint64_t take_turn(Arc& arc, uint64_t now_ns, bool can_report, Arc::Urgent urgent);
    // Results of that poll: no board (H4); this link is the reporter.
    bool alone() const { return !board_.has_value(); }
    bool reports() const { return reports_; }
    // Poll again, even if the link reads nothing.
    bool turn_wanted() const { return turn_wanted_; }

    // Takes up to items_max items from the board; reporter only.
    uint32_t take(uint32_t items_max, FunctionRef<void(const protocol::ItemAccess&)> visit, uint64_t& dropped);
    // Returns to the board an item that the node did not process. Returns the number of accesses dropped.
    uint64_t put_back(const protocol::ItemAccess& item);
    bool anything_left() const { return board_.has_value() && board_->waiting(); }

  private:
    uint64_t put_all(Arc& arc, Arc::Urgent urgent);
    void seek_leadership(uint64_t now_ns);
    void resign();

    PointerTable& table_;
    LinkCounters& counters_;
    uint64_t interval_ns_;
    BoardMember me_;
    uint64_t incarnation_ = 0;  // 0: no connection
    std::optional<ReportBoard> board_;  // as of the last poll
    uint64_t announced_ = 0;            // number of the last announcement
    uint32_t cursor_ = 0;
    bool reports_ = false;
    bool turn_wanted_ = false;
    std::vector<protocol::ItemAccess> refused_;  // empty between calls
};

}  // namespace farcached::proxy
