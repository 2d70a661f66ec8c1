// SPDX-License-Identifier: BSD-3-Clause
#include "proxy/access_notes.h"

#include "base/check.h"
#include "proxy/access_frames.h"

namespace farcached::proxy {

AccessNotes::AccessNotes(LinkCounters& counters, uint64_t interval_ns, uint64_t seed)
    : counters_(counters), interval_ns_(interval_ns), first_ns_(interval_ns - seed % (interval_ns / 2 + 1)) {
    if (interval_ns != 0) kept_.emplace<Arc>(classified_max);
}

void AccessNotes::greeted(uint64_t now_ns, uint32_t frame_bytes_max) {
    frame_bytes_max_ = frame_bytes_max;
    next_ns_ = now_ns + first_ns_;
}

bool AccessNotes::classify(const protocol::AccessRecord& item) {
    Arc& arc = std::get<Arc>(kept_);
    const bool first = arc.untold() == 0;
    drop(arc.access(item));
    return first;
}

void AccessNotes::forget(uint64_t key_hash) {
    if (auto* arc = std::get_if<Arc>(&kept_)) drop(arc->forget(key_hash));
}

void AccessNotes::before_requests(OutBuffer& out) {
    auto* unseen = std::get_if<UnseenAccesses>(&kept_);
    if (unseen != nullptr) counters_.accesses_sent.add(unseen->send(out, frame_bytes_max_));
}

uint64_t AccessNotes::due_ns() const {
    const auto* arc = std::get_if<Arc>(&kept_);
    return arc != nullptr && arc->untold() != 0 ? next_ns_ : UINT64_MAX;
}

void AccessNotes::report(OutBuffer& out, uint64_t now_ns, bool room) {
    CHECK(now_ns >= due_ns());
    next_ns_ = now_ns + interval_ns_;
    if (!room) return;
    Arc& arc = std::get<Arc>(kept_);
    const size_t before = out.size();
    AccessFrames frames(out, frame_bytes_max_);
    const uint32_t items = arc.pick(AccessFrames::records_in(report_bytes_max, frame_bytes_max_),
                                    [&](const protocol::AccessRecord& item) { frames.add(item); });
    frames.end();
    show(arc);
    if (items == 0) return;  // all rest
    CHECK(out.size() - before <= report_bytes_max);
    counters_.reports_sent.add(1);
    counters_.report_items.add(items);
    counters_.report_bytes.add(out.size() - before);
    counters_.accesses_sent.add(frames.accesses());
}

void AccessNotes::drop_all() {
    if (auto* arc = std::get_if<Arc>(&kept_)) {
        drop(arc->drop_all());
        show(*arc);
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
