// SPDX-License-Identifier: BSD-3-Clause
// FlushSchedule: flushes of a node on behalf of all its connections, at once or at a later moment.
//
// F1  At most one flush is scheduled; a later order, an immediate flush included, takes its place, as in memcached.
// F2  From schedule() on no lease is granted that outlives the moment (S3).
// F3  Whoever serves a request calls due() with the clock it serves it by, before it does: no request is answered
//     with what was to be gone by then. Those who read without asking depend on how often somebody calls.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>

#include "base/node_clock.h"

namespace farcached::node {

class Node;

class FlushSchedule {
  public:
    // `node` outlives this. `changed` is called after each schedule(), in the thread that called it.
    explicit FlushSchedule(Node& node, std::function<void()> changed = {});

    void flush(NodeSeconds now);
    // A moment that has come is an immediate flush.
    void schedule(NodeSeconds when, NodeSeconds now);
    void due(NodeSeconds now) {
        const NodeSeconds when = when_.load(std::memory_order_acquire);
        if (when != 0 && when <= now) [[unlikely]] carry_out(now);
    }
    // 0: nothing is scheduled.
    NodeSeconds scheduled() const { return when_.load(std::memory_order_acquire); }

  private:
    void carry_out(NodeSeconds now);

    Node& node_;
    const std::function<void()> changed_;
    std::mutex lock_;
    std::atomic<NodeSeconds> when_{0};  // written under lock_
};

}  // namespace farcached::node
