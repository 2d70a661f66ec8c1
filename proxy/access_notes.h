// SPDX-License-Identifier: BSD-3-Clause
// What this process notes of its accesses to a node's memory, and how the processes of a host report them together.
// Owner: a NodeLink, in the link's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "base/function_ref.h"
#include "base/limits.h"
#include "base/out_buffer.h"
#include "protocol/frame.h"
#include "protocol/frame_layout.h"
#include "proxy/arc.h"
#include "proxy/link_counters.h"
#include "proxy/pointer_table.h"
#include "proxy/unseen.h"

namespace farcached::proxy {

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

// AccessNotes: accesses to one node's items that the node did not see, because this process read its memory. The read
// went through a remote pointer, the index or mapped memory. Each access is kept until it is sent or dropped.
//
// N1  Without an interval, accesses travel with requests (proxy/unseen.h).
// N2  With an interval, accesses travel in reports, which need no requests. Each interval with accesses sends the items
//     that proxy/arc.h selects, in frames of at most report_bytes_max. A request whose reply shows a key's accesses
//     carries this link's accesses to that key (shown()). Accesses of other links may reach the node an interval later.
// N3  Each access is counted once, as sent or as dropped; N5 has the exception.
// N4  A node answers each report with the number of records that it processed and the leases that it renewed. The next
//     report waits for this answer. Unprocessed records are reported again. While the node has time left, a few more
//     reports follow at once in the same interval. An unanswered report is dropped when the connection ends.
// N5  With a shared pointer table, reports belong to the host, not to the link (HostReports). Each access is
//     counted once, as sent, dropped or shared; a shared access belongs to another link from then on. For a link that
//     shares nothing, N2 to N4 hold unchanged.
// N6  A node of an older version grants no pointers and gets no reports (S18). Accesses that fit no record are dropped.
class AccessNotes {
  public:
    static constexpr uint32_t report_bytes_max = protocol::report_bytes_max;
    static constexpr uint32_t reports_per_interval_max = 4;
    // A lease that ends within this many intervals is renewed now. The link polls again in one interval, the reporter
    // up to one interval later, and either may be late.
    static constexpr uint32_t urgent_intervals = 3;

    struct Config {
        uint64_t interval_ns = 0;  // 0: no reports
        uint32_t items = limits::report_items_default;  // classified keys, without ghosts
        uint64_t seed = 0;                // differs by link, to spread the reports
        PointerTable* table = nullptr;    // holds the pointers that reports renew; nullptr: none
        bool share = false;               // the table's boards collect this host's reports
    };
    // The counters and the table outlive this.
    AccessNotes(LinkCounters& counters, const Config& config);
    AccessNotes(const AccessNotes&) = delete;
    AccessNotes& operator=(const AccessNotes&) = delete;

    // A connection is up. takes: the node accepts access records (N6).
    void greeted(uint64_t now_ns, uint64_t incarnation, uint32_t frame_bytes_max, bool takes);
    // Records one access to the slot at that place. True: due_ns() changed from never to a time.
    bool note(uint64_t key_hash, uint64_t offset, uint32_t region, uint64_t generation) {
        const std::optional<protocol::ItemAccess> item = protocol::item_access(key_hash, offset, region, generation, 1);
        if (!takes_ || !item.has_value()) {
            drop(1);
            return false;
        }
        if (auto* unseen = std::get_if<UnseenAccesses>(&kept_)) {
            drop(unseen->note(*item));
            return false;
        }
        return classify(*item);
    }
    // The key's item changed or moved.
    void forget(uint64_t key_hash);
    // A request for the key shows its access count: before_requests() sends this link's accesses first.
    void shown(uint64_t key_hash);
    // Writes the accesses that the next requests show; the frames of requests follow directly.
    void before_requests(OutBuffer& out);
    // Time of the next report(); UINT64_MAX: never.
    uint64_t due_ns() const;
    // Called at due_ns(). room: false: the transport is full, and accesses wait for the next report.
    void report(OutBuffer& out, uint64_t now_ns, bool room);
    // A report is sent and not answered.
    bool unanswered() const { return !under_way_.empty(); }
    // Handles the answer. For each record that the node processed, calls `tell` with the new lease's term, which counts
    // from the sending of the report; 0: no lease. term_ms_max: from the welcome. On an error, `tell` was not called.
    struct Renewed {
        const protocol::ItemAccess& item;
        uint32_t term_ms;
        uint64_t sent_ns;
    };
    protocol::FrameError reported(const protocol::Frame& frame, uint32_t term_ms_max,
                                  FunctionRef<void(const Renewed&)> tell);
    // Called directly after reported(): sends more, if there is more and the node has time.
    void report_more(OutBuffer& out, uint64_t now_ns);
    // The connection ended; hashes and offsets lose their meaning.
    void drop_all();

  private:
    uint32_t pick(uint32_t items_max, uint64_t now_ns, bool again, FunctionRef<void(const protocol::ItemAccess&)> visit);
    bool lease_ends_soon(const protocol::ItemAccess& item, uint64_t now_ns) const;
    bool for_host() const { return host_.has_value() && !host_->alone(); }
    bool more_to_tell() const { return for_host() ? host_->anything_left() : std::get<Arc>(kept_).untold() != 0; }
    void drop(uint64_t accesses) {
        if (accesses != 0) counters_.accesses_dropped.add(accesses);
    }
    bool classify(const protocol::ItemAccess& item);
    void show(const Arc& arc);
    void tell(OutBuffer& out, uint64_t now_ns, bool again);

    LinkCounters& counters_;
    uint64_t interval_ns_;
    PointerTable* table_;
    uint64_t incarnation_ = 0;  // the node's
    uint64_t first_ns_;  // delay of the first report after the greeting
    uint64_t next_ns_ = 0;
    uint32_t frame_bytes_max_ = 0;
    bool takes_ = false;
    uint64_t number_ = 0;   // of the last report
    uint64_t sent_ns_ = 0;  // taken before the first byte could leave
    uint32_t in_interval_ = 0;
    bool time_left_ = false;                        // from the last answer
    std::vector<protocol::ItemAccess> under_way_;  // records of the unanswered report
    std::variant<UnseenAccesses, Arc> kept_;
    std::vector<protocol::ItemAccess> shown_;  // with an Arc: keys whose accesses the next requests show
    std::optional<HostReports> host_;  // with an Arc and a shared table
};

}  // namespace farcached::proxy
