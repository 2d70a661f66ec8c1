// SPDX-License-Identifier: BSD-3-Clause
// AccessNotes: accesses to one node's items that the node did not see, because this process read its memory: by a
// remote pointer, by the index, or where it is mapped; until the node is told, or can no longer be.
//
// Owner: a NodeLink.
// N1  Without an interval they travel with requests (proxy/unseen.h).
// N2  With one, they are told in reports, which need no requests: every interval, if there are any, the node hears of
//     the items worth its time (proxy/arc.h), in frames of at most report_bytes_max. Requests go without them, so what a
//     node says of an item's accesses may be as old as the interval.
// N3  Each access is counted once, as sent or as dropped; but see N5.
// N4  A node that knows reports answers each: it says how many records it looked at, and what leases it renewed. No
//     second report is sent before; what it did not look at is told again; while it has time left, more is told at once,
//     in a few reports an interval. A report that was not answered when the connection ended is dropped.
// N5  Where the pointer table is shared, reports are the host's, not the link's (proxy/host_reports.h): each access is counted
//     once, as sent, dropped, or shared, by which it becomes another link's. Of a link that shares nothing the rest is true.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "base/function_ref.h"
#include "base/out_buffer.h"
#include "protocol/frame.h"
#include "protocol/frame_layout.h"
#include "proxy/arc.h"
#include "proxy/host_reports.h"
#include "proxy/link_counters.h"
#include "proxy/unseen.h"

namespace farcached::proxy {

class AccessNotes {
  public:
    static constexpr uint32_t report_bytes_max = protocol::report_bytes_max;
    static constexpr uint32_t reports_per_interval_max = 4;
    // Keys that are classified, ghosts apart: 16 reports full. All of it takes 480 KiB for a link.
    static constexpr uint32_t classified_max = 4096;

    // counters: outlives this. interval_ns: 0: no reports. seed: a link's own, so that not all report at once.
    // shared: where this host's reports are put together; nullptr: nowhere. Outlives this.
    AccessNotes(LinkCounters& counters, uint64_t interval_ns, uint64_t seed, PointerTable* shared);
    AccessNotes(const AccessNotes&) = delete;
    AccessNotes& operator=(const AccessNotes&) = delete;

    // There is a connection, and such frames may be sent. answers: the node knows reports.
    void greeted(uint64_t now_ns, uint64_t incarnation, uint32_t frame_bytes_max, bool answers);
    // True: due_ns() was never, and is not any more.
    bool note(const protocol::AccessRecord& item) {
        if (auto* unseen = std::get_if<UnseenAccesses>(&kept_)) {
            drop(unseen->note(item));
            return false;
        }
        return classify(item);
    }
    // The key's item is not what it was, or where.
    void forget(uint64_t key_hash);
    // Frames of requests come right behind.
    void before_requests(OutBuffer& out);
    // When report() wants to be called; UINT64_MAX: never.
    uint64_t due_ns() const;
    // due_ns() has come. room: false: the transport takes nothing, and what there is waits for the next report.
    void report(OutBuffer& out, uint64_t now_ns, bool room);
    // A report is under way: the node owes an answer.
    bool unanswered() const { return !under_way_.empty(); }
    uint64_t number() const { return number_; }  // of the last report
    // That answer: tells, of each record that the node looked at, the term of the new lease, which counts from when the
    // report was sent; 0: there is none. term_ms_max: of the welcome. An error: nothing was told.
    struct Renewed {
        const protocol::AccessRecord& item;
        uint32_t term_ms;
        uint64_t sent_ns;
    };
    protocol::FrameError reported(const protocol::Frame& frame, uint32_t term_ms_max,
                                  FunctionRef<void(const Renewed&)> tell);
    // Right after that: more, if there is any and the node has time.
    void report_more(OutBuffer& out, uint64_t now_ns);
    // The connection is over, and with it what hashes and offsets meant.
    void drop_all();

  private:
    uint32_t pick(uint32_t items_max, bool again, FunctionRef<void(const protocol::AccessRecord&)> visit);
    bool for_host() const { return host_.has_value() && !host_->alone(); }
    bool more_to_tell() const { return for_host() ? host_->anything_left() : std::get<Arc>(kept_).untold() != 0; }
    void drop(uint64_t accesses) {
        if (accesses != 0) counters_.accesses_dropped.add(accesses);
    }
    bool classify(const protocol::AccessRecord& item);
    void show(const Arc& arc);
    void tell_unanswered(OutBuffer& out);
    void tell(OutBuffer& out, uint64_t now_ns, bool again);
    void count_report(uint32_t items, size_t bytes);

    LinkCounters& counters_;
    uint64_t interval_ns_;
    uint64_t first_ns_;  // of the first report, from the greeting on
    uint64_t next_ns_ = 0;
    uint32_t frame_bytes_max_ = 0;
    bool answers_ = false;
    uint64_t number_ = 0;   // of the last report
    uint64_t sent_ns_ = 0;  // before it could leave
    uint32_t in_interval_ = 0;
    bool time_left_ = false;                        // said its answer
    std::vector<protocol::AccessRecord> under_way_;  // its records, until it is answered
    std::variant<UnseenAccesses, Arc> kept_;
    std::optional<HostReports> host_;  // of an Arc, where it is shared
};

}  // namespace farcached::proxy
