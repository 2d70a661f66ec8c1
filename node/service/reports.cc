// SPDX-License-Identifier: BSD-3-Clause
#include "node/service/reports.h"

#include <algorithm>
#include <array>

#include "node/store/pages.h"
#include "protocol/layout.h"

namespace farcached::node {

using protocol::Frame;
using protocol::FrameError;

// Computes where the record's item would be. Only the partition can confirm it, under its lock, from these values.
bool Reports::possible(const protocol::ItemAccess& record, Access& access) const {
    const fabric::RegionView& view = connection_.shared.node.view();
    const uint64_t arena = view.header->arena_offset;
    if (record.region != 0) return false;
    if (record.offset < arena) return false;
    const uint64_t offset = record.offset - arena;
    if (offset / layout::page_bytes >= connection_.shared.node.pages().most()) return false;
    const uint32_t size_class =
        __atomic_load_n(&view.pages[offset / layout::page_bytes].size_class, __ATOMIC_RELAXED);
    if (size_class == 0 || size_class > layout::large_class) return false;
    const uint64_t in_page = offset % layout::page_bytes;
    if (size_class == layout::large_class) {
        if (in_page != 0) return false;
    } else {
        const uint32_t slot_bytes = view.header->class_bytes[size_class];
        if (slot_bytes == 0) return false;
        if (in_page % slot_bytes != 0) return false;
        if (slot_bytes > layout::page_bytes - in_page) return false;
    }
    access.slot_word =
        layout::Slot::make(layout::tag_of(record.hash), uint8_t(size_class), offset).word;
    access.guard_word = 0;  // a record contains only the tag
    access.hash = record.hash;
    access.times = record.count;
    access.generation_tag = record.generation_tag;
    return true;
}

FrameError Reports::accesses(const Frame& frame) {
    constexpr size_t batch_max = 256;
    Access batch[batch_max];
    size_t filled = 0;
    const NodeSeconds now = connection_.shared.clock().seconds;
    for (uint32_t i = 0; i < frame.count; i++) {
        protocol::ItemAccess record;
        const FrameError error = protocol::access_at(frame, i, record);
        if (error != FrameError::none) return error;
        connection_.counters.accesses.add(1);
        if (!possible(record, batch[filled])) {
            connection_.counters.accesses_invalid.add(1);
            continue;
        }
        if (++filled < batch_max) continue;
        connection_.shared.node.record({batch, filled}, now);
        filled = 0;
    }
    if (filled != 0) connection_.shared.node.record({batch, filled}, now);
    return FrameError::none;
}

// ---- reports ------------------------------------------------------------------------------------------

// Processes the first record regardless of the time, so that every report makes progress.
FrameError Reports::report(const Frame& frame, bool written) {
    const uint64_t began_ns = connection_.shared.steady_ns();
    const NodeSeconds now = connection_.shared.clock().seconds;
    connection_.shared.flushes.due(now);
    std::array<uint32_t, protocol::report_records_max> terms_ms;
    uint64_t spent_us = 0;
    uint32_t looked_at = 0;
    do {
        protocol::ItemAccess record;
        const FrameError error = protocol::access_at(frame, looked_at, record);
        if (error != FrameError::none) return error;
        terms_ms[looked_at++] = renew(record, now);
        spent_us = (connection_.shared.steady_ns() - began_ns) / 1000;
    } while (looked_at < frame.count && spent_us < report_us_max);
    connection_.counters.reports.add(1);
    connection_.counters.report_records.add(looked_at);
    connection_.counters.accesses.add(looked_at);
    connection_.counters.report_us.add(spent_us);
    if (looked_at < frame.count) connection_.counters.report_cut_short.add(1);
    const uint32_t left_us = report_us_max - uint32_t(std::min<uint64_t>(spent_us, report_us_max));
    protocol::append_reported(answer_, frame.sequence, left_us, {terms_ms.data(), looked_at});
    // A proxy reports again only after it has the last reply, so its container is free. A proxy that reports earlier harms only
    // itself.
    const std::string_view answer(answer_.data(), answer_.size());
    if (written && connection_.channel->post_report(answer)) {
        connection_.counters.report_answers_written.add(1);
    } else {
        connection_.channel->out().append(answer);
        connection_.channel->send_at_once();  // the proxy READs no slot for it
    }
    answer_.clear(protocol::report_bytes_max);
    return FrameError::none;
}

// The proxy may change the container at any time, so the node works on a copy (C2).
FrameError Reports::written(size_t bytes) {
    static_assert(protocol::report_bytes_max <= fabric::container_bytes);
    std::array<char, fabric::container_bytes> copy;
    connection_.channel->copy_container(copy.data(), bytes);
    Frame frame;
    const FrameError error = protocol::parse_written({copy.data(), bytes}, connection_.limits, frame);
    if (error != FrameError::none) return error;
    connection_.counters.reports_written.add(1);
    return report(frame, /* written= */ true);
}

// The term of the new lease; 0: none.
uint32_t Reports::renew(const protocol::ItemAccess& record, NodeSeconds now) {
    Access seen;
    if (!possible(record, seen)) {
        connection_.counters.accesses_invalid.add(1);
        connection_.counters.report_unknown_items.add(1);
        return 0;
    }
    const Renewal renewal = connection_.shared.node.renew(seen, now, connection_.reads_one_sided() ? quota_->left(now) : 0);
    switch (renewal.outcome) {
        case Renewal::Outcome::stranger: connection_.counters.report_unknown_items.add(1); break;
        case Renewal::Outcome::over: connection_.counters.report_refused_quota.add(1); break;
        case Renewal::Outcome::seen: break;
        case Renewal::Outcome::renewed:
            connection_.counters.report_renewed.add(1);
            quota_->spend(renewal.byte_s);
            break;
    }
    return std::min(renewal.term_ms, term_ms_max_);
}

}  // namespace farcached::node
