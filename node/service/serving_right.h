// SPDX-License-Identifier: BSD-3-Clause
// ServingRight: until when proxies may read this node's memory one-sided (S17). It is given by the membership of a fleet
// (daemon/discovery/etcd_registration.h). Without membership it has no end.
//
// Owner: the ServiceShared of all connections. Threads: any may read; limit() comes before any connection, and one thread calls
// serve_until().
//
// V1  Leases (terms in replies, and renewals) end with the right at the latest. Mapped memory and the index have no lease, so
//     each reply tells proxies the rest of the right.
// V2  A proxy counts from before the request left that the reply answers, so its view of the right ends first.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>

#include "protocol/frame.h"

namespace farcached::node {

class ServingRight {
  public:
    // From now on there is a right only until the time of the last serve_until().
    void limit() { until_ns_.store(0, std::memory_order_relaxed); }
    // On CLOCK_BOOTTIME; 0: it is over.
    void serve_until(uint64_t ns) { until_ns_.store(ns, std::memory_order_relaxed); }

    bool is_limited() const { return until_ns_.load(std::memory_order_relaxed) != UINT64_MAX; }
    // Nothing: it has no end.
    std::optional<uint32_t> left_ms(uint64_t now_ns) const {
        const uint64_t until_ns = until_ns_.load(std::memory_order_relaxed);
        if (until_ns == UINT64_MAX) return std::nullopt;
        const uint64_t left_ms = until_ns > now_ns ? (until_ns - now_ns) / 1'000'000 : 0;
        return uint32_t(std::min<uint64_t>(left_ms, protocol::right_ms_highest));
    }

  private:
    std::atomic<uint64_t> until_ns_{UINT64_MAX};
};

}  // namespace farcached::node
