// SPDX-License-Identifier: BSD-3-Clause
#include "proxy/access_notes.h"

#include <algorithm>

#include "base/check.h"
#include "protocol/frame_writer.h"
#include "proxy/unseen.h"

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

AccessNotes::AccessNotes(LinkCounters& counters, const Config& config)
    : counters_(counters),
      interval_ns_(config.interval_ns),
      table_(config.table),
      first_ns_(config.interval_ns - config.seed % (config.interval_ns / 2 + 1)) {
    if (interval_ns_ == 0) return;
    kept_.emplace<Arc>(config.items);
    if (config.share && table_ != nullptr) host_.emplace(*table_, counters, interval_ns_);
}

void AccessNotes::greeted(uint64_t now_ns, uint64_t incarnation, uint32_t frame_bytes_max, bool takes) {
    if (host_.has_value()) host_->greeted(incarnation);
    incarnation_ = incarnation;
    frame_bytes_max_ = frame_bytes_max;
    takes_ = takes;
    time_left_ = false;
    next_ns_ = now_ns + first_ns_;
}

bool AccessNotes::classify(const protocol::ItemAccess& item) {
    Arc& arc = std::get<Arc>(kept_);
    const bool first = due_ns() == UINT64_MAX && !unanswered();
    drop(arc.access(item));
    return first;
}

void AccessNotes::forget(uint64_t key_hash) {
    if (auto* arc = std::get_if<Arc>(&kept_)) drop(arc->forget(key_hash));
}

void AccessNotes::shown(uint64_t key_hash) {
    auto* arc = std::get_if<Arc>(&kept_);
    if (arc == nullptr) return;
    if (const std::optional<protocol::ItemAccess> item = arc->tell(key_hash)) shown_.push_back(*item);
}

void AccessNotes::before_requests(OutBuffer& out) {
    if (auto* unseen = std::get_if<UnseenAccesses>(&kept_)) {
        counters_.accesses_sent.add(unseen->send(out, frame_bytes_max_));
    } else if (!shown_.empty()) {
        AccessFrames frames(out, frame_bytes_max_);
        for (const protocol::ItemAccess& item : shown_) frames.add(item);
        frames.end();
        counters_.accesses_sent.add(frames.accesses());
        shown_.clear();
    }
}

uint64_t AccessNotes::due_ns() const {
    const auto* arc = std::get_if<Arc>(&kept_);
    if (arc == nullptr || unanswered() || !takes_) return UINT64_MAX;
    const bool wanted = arc->untold() != 0 || (host_.has_value() && host_->turn_wanted());
    return wanted ? next_ns_ : UINT64_MAX;
}

void AccessNotes::report(OutBuffer& out, uint64_t now_ns, bool room) {
    CHECK(now_ns >= due_ns());
    next_ns_ = now_ns + interval_ns_;
    in_interval_ = 0;
    const auto urgent = [&](const protocol::ItemAccess& item) { return lease_ends_soon(item, now_ns); };
    if (host_.has_value()) drop(host_->take_turn(std::get<Arc>(kept_), now_ns, room, urgent));
    if (for_host() && !host_->reports()) return show(std::get<Arc>(kept_));
    if (room) tell(out, now_ns, /* again= */ false);
}

// A lease that ends this soon cannot wait for a later report.
bool AccessNotes::lease_ends_soon(const protocol::ItemAccess& item, uint64_t now_ns) const {
    if (table_ == nullptr) return false;
    const uint64_t end_ns = table_->valid_until_ns(item.hash, {incarnation_, item.offset, item.region});
    return end_ns != 0 && end_ns <= now_ns + urgent_intervals * interval_ns_;
}

// Picks the items of the next report: the host's, or the link's own.
uint32_t AccessNotes::pick(uint32_t items_max, uint64_t now_ns, bool again,
                           FunctionRef<void(const protocol::ItemAccess&)> visit) {
    Arc& arc = std::get<Arc>(kept_);
    const auto urgent = [&](const protocol::ItemAccess& item) { return lease_ends_soon(item, now_ns); };
    uint64_t dropped = 0;
    const uint32_t items = for_host() ? host_->take(items_max, visit, dropped) : arc.pick(items_max, visit, again, urgent);
    drop(dropped);
    show(arc);
    return items;
}

void AccessNotes::tell(OutBuffer& out, uint64_t now_ns, bool again) {
    CHECK(!unanswered());
    under_way_.reserve(protocol::report_records_max);
    const uint32_t items_max = AccessFrames::records_in(std::min(report_bytes_max, frame_bytes_max_), frame_bytes_max_);
    pick(items_max, now_ns, again, [&](const protocol::ItemAccess& item) { under_way_.push_back(item); });
    if (!unanswered()) return;  // all items rest
    const size_t before = out.size();
    protocol::FrameWriter frame(out, frame_bytes_max_);
    frame.begin(protocol::FrameKind::report, ++number_);
    for (const protocol::ItemAccess& item : under_way_) {
        const bool added = frame.add(item);
        CHECK(added);
    }
    frame.end();
    sent_ns_ = now_ns;
    in_interval_++;
    CHECK(out.size() - before <= report_bytes_max);
    counters_.reports_sent.add(1);
    counters_.report_items.add(under_way_.size());
    counters_.report_bytes.add(out.size() - before);
}

protocol::FrameError AccessNotes::reported(const protocol::Frame& frame, uint32_t term_ms_max,
                                           FunctionRef<void(const Renewed&)> tell) {
    using protocol::FrameError;
    if (!unanswered() || frame.sequence != number_) return FrameError::reply_stranger;
    if (frame.count > under_way_.size()) return FrameError::report_invalid;
    uint32_t left_us = 0;
    if (FrameError error = protocol::parse_reported(frame, left_us); error != FrameError::none) return error;
    uint32_t term_ms = 0;
    for (uint32_t i = 0; i < frame.count; i++) {
        if (FrameError error = protocol::renewal_at(frame, i, term_ms); error != FrameError::none) return error;
        if (term_ms > term_ms_max) return FrameError::report_invalid;
    }
    Arc& arc = std::get<Arc>(kept_);
    for (uint32_t i = 0; i < under_way_.size(); i++) {
        const protocol::ItemAccess& item = under_way_[i];
        if (i >= frame.count) {
            drop(for_host() ? host_->put_back(item) : arc.take_back(item));
            continue;
        }
        counters_.accesses_sent.add(item.count);
        CHECK(protocol::renewal_at(frame, i, term_ms) == FrameError::none);
        tell({item, term_ms, sent_ns_});
    }
    under_way_.clear();
    time_left_ = left_us != 0;
    if (time_left_) counters_.report_time_left.add(1);
    return FrameError::none;
}

void AccessNotes::report_more(OutBuffer& out, uint64_t now_ns) {
    const uint32_t reports_max = for_host() ? HostReports::reports_per_interval_max : reports_per_interval_max;
    if (!time_left_ || in_interval_ >= reports_max) return;
    if (more_to_tell()) tell(out, now_ns, /* again= */ true);
}

void AccessNotes::drop_all() {
    if (auto* arc = std::get_if<Arc>(&kept_)) {
        for (const protocol::ItemAccess& item : under_way_) drop(item.count);
        for (const protocol::ItemAccess& item : shown_) drop(item.count);
        under_way_.clear();
        shown_.clear();
        drop(arc->drop_all());
        show(*arc);
        if (host_.has_value()) host_->ended();
    } else {
        drop(std::get<UnseenAccesses>(kept_).drop_all());
    }
}

void AccessNotes::show(const Arc& arc) {
    counters_.arc_t1.set(arc.size(Arc::List::t1));
    counters_.arc_t2.set(arc.size(Arc::List::t2));
    counters_.arc_b1.set(arc.size(Arc::List::b1));
    counters_.arc_b2.set(arc.size(Arc::List::b2));
    counters_.arc_target.set(arc.target());
}

}  // namespace farcached::proxy
