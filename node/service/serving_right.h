// SPDX-License-Identifier: BSD-3-Clause
// ServingRight: until when proxies may read this node's memory one-sided, and until when it executes requests (S17). It is given by
// the membership of a fleet (daemon/discovery/registration_right.h). Without membership it has no end.
//
// Owner: the ServiceShared of all connections. Threads: any may read; limit() comes before any connection, and one thread calls
// set() and set_silent().
//
// V1  Each reply and pong has the rest of the right to be read. Proxies read by pointers, by the index and in mapped memory only
//     while it runs. So leases may be longer than the right, and one reply renews all of a connection. A sublease of a value on
//     another node ends with the right.
// V2  A proxy counts from before the request left that the reply answers, so its view of the right ends first.
// V3  A node that may not serve executes no request for a key, and no flush.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>

#include "base/stat_row.h"
#include "protocol/frame.h"

namespace farcached::node {

class alignas(64) ServingRight {
  public:
    // From now on there is a right only until the times of the last set().
    void limit() { set(0, 0); }
    // On CLOCK_BOOTTIME; 0: it has ended.
    void set(uint64_t reads_until_ns, uint64_t serves_until_ns) {
        until_ns_.store(reads_until_ns, std::memory_order_release);
        serves_until_ns_.store(serves_until_ns, std::memory_order_release);
    }

    // etcd does not answer: why the right ends. Else it has no record of the node, or refuses it.
    void set_silent(bool is_silent) { is_silent_.store(is_silent, std::memory_order_relaxed); }
    bool is_silent() const { return is_silent_.load(std::memory_order_relaxed); }

    bool is_limited() const { return until_ns_.load(std::memory_order_acquire) != UINT64_MAX; }
    // Are requests executed?
    bool serves(uint64_t now_ns) const { return now_ns < serves_until_ns_.load(std::memory_order_acquire); }
    // Of one-sided reads. Nothing: it has no end.
    std::optional<uint32_t> left_ms(uint64_t now_ns) const {
        const uint64_t until_ns = until_ns_.load(std::memory_order_acquire);
        if (until_ns == UINT64_MAX) return std::nullopt;
        const uint64_t left_ms = until_ns > now_ns ? (until_ns - now_ns) / 1'000'000 : 0;
        return uint32_t(std::min<uint64_t>(left_ms, protocol::right_ms_highest));
    }

  private:
    std::atomic<uint64_t> until_ns_{UINT64_MAX};  // of one-sided reads
    std::atomic<uint64_t> serves_until_ns_{UINT64_MAX};
    std::atomic<bool> is_silent_{false};
};

// At a time on CLOCK_BOOTTIME; shown while is_limited(). epoch: ListEpoch::newest().
struct ServingRightNow {
    const ServingRight& right;
    uint64_t now_ns;
    uint64_t epoch;
};
using ServingRightRow = StatRow<uint64_t (*)(const ServingRightNow&)>;
inline constexpr ServingRightRow serving_right_rows[] = {
    {"serving", "1: the node executes requests; 0: it refuses them, as it is not registered in etcd, or etcd does not answer it",
     [](const ServingRightNow& at) { return uint64_t(at.right.serves(at.now_ns)); }, StatKind::gauge},
    {"etcd_silent", "1: etcd does not answer the node",
     [](const ServingRightNow& at) { return uint64_t(at.right.is_silent()); }, StatKind::gauge},
    {"right_left_ms", "milliseconds left of the right to read the node's memory one-sided",
     [](const ServingRightNow& at) { return uint64_t(at.right.left_ms(at.now_ns).value_or(0)); }, StatKind::gauge},
    {"list_epoch", "newest epoch of a list of nodes that the node knows of: a revision of etcd",
     [](const ServingRightNow& at) { return at.epoch; }, StatKind::gauge},
};

}  // namespace farcached::node
