// SPDX-License-Identifier: BSD-3-Clause
#include "node/flush_schedule.h"

#include "node/node.h"

namespace farcached::node {

FlushSchedule::FlushSchedule(Node& node, std::function<void()> changed)
    : node_(node), changed_(std::move(changed)) {}

void FlushSchedule::flush(NodeSeconds now) {
    std::lock_guard hold(lock_);
    node_.flush_all(now);
    when_.store(0, std::memory_order_release);
}

void FlushSchedule::schedule(NodeSeconds when, NodeSeconds now) {
    if (when <= now) return flush(now);
    {
        std::lock_guard hold(lock_);
        node_.end_leases_before(when);
        when_.store(when, std::memory_order_release);
    }
    if (changed_) changed_();
}

void FlushSchedule::carry_out(NodeSeconds now) {
    std::lock_guard hold(lock_);
    const NodeSeconds when = when_.load(std::memory_order_relaxed);
    if (when == 0 || when > now) return;  // another thread flushed first
    node_.flush_all(now);
    // Cleared last: a thread that sees no schedule must find no old item.
    when_.store(0, std::memory_order_release);
}

}  // namespace farcached::node
