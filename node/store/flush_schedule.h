// SPDX-License-Identifier: BSD-3-Clause
// FlushSchedule: immediate and delayed flushes of a node, for all its connections.
//
// Owner: the FarnodeServer. Threads: any.
//
// F1  At most one flush is scheduled; a later order, an immediate flush included, replaces it, as in memcached.
// F2  After schedule(), no lease is granted that outlives the flush (S3).
// F3  Each worker calls due() before it executes a request, with the clock reading it uses for that request. So no request
//     returns an item flushed by then. One-sided readers depend on how often due() is called.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <utility>

#include "base/node_clock.h"
#include "node/store/node.h"
#include "node/store/shared_keys.h"

namespace farcached::node {

class FlushSchedule {
  public:
    // `node` outlives this. `changed` is called after each schedule(), in the calling thread.
    explicit FlushSchedule(Node& node, std::function<void()> changed = {}) : node_(node), changed_(std::move(changed)) {}

    void flush(NodeSeconds now) {
        std::lock_guard hold(lock_);
        node_.flush_all(now);
        when_.store(0, std::memory_order_release);
    }
    // The same, but a scheduled flush stays.
    void flush_early(NodeSeconds now) {
        std::lock_guard hold(lock_);
        node_.flush_all(now);
        if (const NodeSeconds when = when_.load(std::memory_order_relaxed)) node_.announce_flush(when);
    }
    // A time that has passed means an immediate flush.
    void schedule(NodeSeconds when, NodeSeconds now) {
        if (when <= now) {
            node_.shared_keys().close_copies(now, others_due_s, ends_itself);
            return flush(now);
        }
        {
            std::lock_guard hold(lock_);
            node_.announce_flush(when);
            when_.store(when, std::memory_order_release);
        }
        if (changed_) changed_();
    }
    void due(NodeSeconds now) {
        const NodeSeconds when = when_.load(std::memory_order_acquire);
        if (when != 0 && when <= now) [[unlikely]] carry_out(now);
    }
    // 0: no flush is scheduled.
    NodeSeconds scheduled() const { return when_.load(std::memory_order_acquire); }

  private:
    // Other nodes' clocks show that moment up to so much later. Items that they still have do not come here.
    static constexpr uint32_t others_due_s = 3;
    static constexpr uint64_t ends_itself = UINT64_MAX;  // no proxy's close has this name

    void carry_out(NodeSeconds now) {
        std::lock_guard hold(lock_);
        const NodeSeconds when = when_.load(std::memory_order_relaxed);
        if (when == 0 || when > now) return;  // another thread flushed first
        node_.shared_keys().close_copies(now, others_due_s, ends_itself);
        node_.flush_all(now);
        // Cleared last: a thread that sees no schedule must find no old item.
        when_.store(0, std::memory_order_release);
    }

    Node& node_;
    const std::function<void()> changed_;
    std::mutex lock_;
    std::atomic<NodeSeconds> when_{0};  // written under lock_
};

}  // namespace farcached::node
