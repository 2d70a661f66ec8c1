// SPDX-License-Identifier: BSD-3-Clause
// LeaseStop: whether a node grants leases at all. Granting stops when a store found no memory anywhere. The lease zone prevents
// that (S8), unless the memory limit was lowered below the leased bytes. All other work continues. Owner: an Arena.
//
// L1  After a shortage, no lease is granted or renewed until a store has found memory and then `calm_s` pass without another
//     shortage, or until all leases have ended. So the state does not flip with every store.
// L2  Any thread may call. Two concurrent calls may count one stop twice, or resume after `calm_s` despite one more shortage:
//     the next shortage stops leases again.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/node_clock.h"

namespace farcached::node {

class LeaseStop {
  public:
    static constexpr uint32_t calm_s = 10;

    // A store found no memory. All current leases end within longest_s seconds.
    void shortage(NodeSeconds now, uint32_t longest_s) {
        if (!stopped(now)) times_.fetch_add(1, std::memory_order_relaxed);
        resume_at_.store(now + longest_s + 1, std::memory_order_relaxed);
    }
    // A store found memory.
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
