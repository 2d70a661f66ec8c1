// SPDX-License-Identifier: BSD-3-Clause
#include "proxy/host_reports.h"

#include "base/check.h"

namespace farcached::proxy {

using protocol::ItemAccess;

HostReports::HostReports(PointerTable& table, LinkCounters& counters, uint64_t interval_ns)
    : table_(table), counters_(counters), interval_ns_(interval_ns), me_(table.new_member()) {
    CHECK(interval_ns != 0);
    CHECK(2 * interval_ns < ReportBoard::leader_term_ns_max);
}

void HostReports::greeted(uint64_t incarnation) {
    CHECK(!reports_);
    incarnation_ = incarnation;
}

void HostReports::ended() {
    if (reports_) resign();
    incarnation_ = 0;
    board_.reset();
    refused_.clear();
    announced_ = 0;  // the next connection may reach another run of the node, whose board starts at 0
    turn_wanted_ = false;
}

void HostReports::resign() {
    if (board_.has_value()) board_->resign(me_);
    reports_ = false;
    counters_.reporter.set(0);
}

uint64_t HostReports::take_turn(Arc& arc, uint64_t now_ns, bool can_report, Arc::Urgent urgent) {
    board_ = table_.boards().of(incarnation_, now_ns);
    if (!board_.has_value()) {
        reports_ = turn_wanted_ = false;
        counters_.reporter.set(0);
        return 0;
    }
    const uint64_t dropped = put_all(arc, urgent);
    if (can_report && board_->waiting())
        seek_leadership(now_ns);
    else if (reports_)
        resign();
    turn_wanted_ = reports_ || board_->waiting(announced_);
    return dropped;
}

uint64_t HostReports::put_all(Arc& arc, Arc::Urgent urgent) {
    uint32_t put = 0;
    const auto to_board = [&](const ItemAccess& item) {
        const ReportBoard::Put result = board_->put(item);
        if (result.accepted != 0) put++;
        if (result.merged) counters_.report_merged.add(1);
        counters_.accesses_shared.add(result.accepted);
        if (result.accepted == item.count) return;
        refused_.push_back(item);
        refused_.back().count -= result.accepted;
    };
    if (arc.untold() != 0) arc.pick(put_in_turn_max, to_board, /* again= */ false, urgent);
    uint64_t dropped = 0;
    for (const ItemAccess& item : refused_) dropped += arc.take_back(item);
    refused_.clear();
    if (put != 0) announced_ = board_->announce();
    return dropped;
}

void HostReports::seek_leadership(uint64_t now_ns) {
    const auto alive = [this](uint16_t filler) { return table_.attached(filler); };
    const ReportBoard::Leadership leadership = board_->seek(me_, now_ns, now_ns + 2 * interval_ns_, alive);
    if (leadership == ReportBoard::Leadership::elected) counters_.report_elected.add(1);
    if (leadership == ReportBoard::Leadership::taken_over) counters_.report_takeovers.add(1);
    reports_ = leadership != ReportBoard::Leadership::others;
    counters_.reporter.set(reports_);
}

uint32_t HostReports::take(uint32_t items_max, FunctionRef<void(const ItemAccess&)> visit, uint64_t& dropped) {
    CHECK(reports_);
    const auto told = [&](const ItemAccess& item) {
        counters_.accesses_taken.add(item.count);
        visit(item);
    };
    const ReportBoard::Taken taken = board_->take(items_max, cursor_, told);
    counters_.accesses_taken.add(taken.lost);
    dropped += taken.lost;
    return taken.items;
}

uint64_t HostReports::put_back(const ItemAccess& item) {
    if (!board_.has_value()) return item.count;
    const uint32_t accepted = board_->put(item).accepted;
    counters_.accesses_shared.add(accepted);
    if (accepted != 0) announced_ = board_->announce();
    return item.count - accepted;
}

}  // namespace farcached::proxy
