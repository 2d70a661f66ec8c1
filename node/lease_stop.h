// SPDX-License-Identifier: BSD-3-Clause
// LeaseStop: whether a node grants leases at all. It stops when a store found no memory anywhere, which the lease zone
// keeps from happening (S8) but where the limit on memory was lowered below what was leased. Everything else goes on.
//
// L1  After a shortage there is no grant and no renewal until a store has found memory and then `calm_s` have passed without
//     another shortage; or until nothing can be leased any more. So the answer does not change with every store.
// L2  Any thread may call. Two that call at once may count one stop twice, or resume after `calm_s` where one more shortage
//     was just seen: the next one stops again.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/node_clock.h"

namespace farcached::node {

class LeaseStop {
  public:
    static constexpr uint32_t calm_s = 10;

    // A store found none. What is leased now is over in so many seconds.
    void shortage(NodeSeconds now, uint32_t longest_s) {
        if (!stopped(now)) times_.fetch_add(1, std::memory_order_relaxed);
        resume_at_.store(now + longest_s + 1, std::memory_order_relaxed);
    }
    // One found some.
    void found(NodeSeconds now) {
        const NodeSeconds at = resume_at_.load(std::memory_order_relaxed);
        if (now < at) resume_at_.store(std::min(at, now + calm_s), std::memory_order_relaxed);
    }
    bool stopped(NodeSeconds now) const { return now < resume_at_.load(std::memory_order_relaxed); }
    uint64_t times() const { return times_.load(std::memory_order_relaxed); }

  private:
    std::atomic<NodeSeconds> resume_at_{0};
    std::atomic<uint64_t> times_{0};
};

}  // namespace farcached::node
