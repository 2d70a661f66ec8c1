// SPDX-License-Identifier: BSD-3-Clause
// LeaseTerms: for how long an item is leased. Pure; owned by a partition, under its lock.
//
// One term for all, or terms by popularity (PDLA of the C-Hint paper): an item in queue q = min(log2(touches), 7) earns
//
//     term = q * alpha           alpha = from + (to - from) * pressure       pressure = (memory use + leased share) / 2
//
// and none in queue 0: who was touched once may never be again. The ends of alpha's line: without any pressure the top
// queue earns exactly the longest term (from = term_ms_max / 7), under full pressure queue 1 earns exactly the shortest
// (to = term_ms_min); so all terms are within the two. Memory use is the pages that are taken, of the limit: while there is
// room, nobody needs what a lease holds. But a cache is full for most of its life, so this is only half of it. The other
// half is the share of the lease zone that is leased: what is pinned there keeps others from leases. alpha does not fall to
// nothing: that no set waits for a lease is the zone's doing (S8), not the terms'.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/check.h"
#include "base/policy_kind.h"

namespace farcached::node {

constexpr uint32_t popularity_queues = 8;

// Of an item that was touched so often, the set that stored it included.
constexpr uint32_t popularity_queue(uint32_t touches) {
    if (touches == 0) return 0;
    return std::min<uint32_t>(uint32_t(std::bit_width(touches)) - 1, popularity_queues - 1);
}

constexpr uint32_t lease_term_ms_min = 200;        // a shorter lease would be over before its pointer is used
constexpr uint32_t lease_term_ms_longest = 256'000;

// For how many seconds on the node's clock, which knows no parts of one, memory is kept for a lease that is granted now: the
// term, the grace behind it, and the rest of the second that has begun.
constexpr uint32_t lease_kept_s(uint32_t term_ms, uint32_t grace_ms) { return (term_ms + grace_ms + 999) / 1000 + 1; }

// Leases on items that others read one-sided.
struct LeaseConfig {
    bool enabled = false;
    uint32_t term_ms = 4000;         // 1 to 256'000: of all, where there is one term for all
    uint32_t term_ms_min = 4000;     // 1 to 256'000: the shortest and the longest of those by popularity;
    uint32_t term_ms_max = 256'000;  // not below term_ms_min. Equal: one for all from queue 1 up
    uint32_t grace_ms = 600;         // 1 to 60'000: memory is kept so much longer than the lease (S2)
    double share = 0.5;              // 0 to 0.9 of all pages may hold leased items (S8)
    double dead_share = 0;           // 0 to 1: see Partition::term_wasted
    uint32_t from_touches = 2;       // counting the set that stored the item
};

class LeaseTerms {
  public:
    LeaseTerms() = default;
    LeaseTerms(PolicyKind kind, const LeaseConfig& config)
        : by_popularity_(kind == PolicyKind::pdla || kind == PolicyKind::s3fifo),
          shortens_(by_popularity_ || kind == PolicyKind::clock),
          one_ms_(kind == PolicyKind::original ? config.term_ms_max : config.term_ms),
          min_ms_(config.term_ms_min),
          max_ms_(config.term_ms_max) {
        CHECK(min_ms_ <= max_ms_);
        CHECK(longest_ms() <= lease_term_ms_longest);
        alpha_ms_ = from_ms();
    }

    bool by_popularity() const { return by_popularity_; }
    uint32_t shortest_ms() const { return by_popularity_ ? min_ms_ : one_ms_; }
    uint32_t longest_ms() const { return by_popularity_ ? max_ms_ : one_ms_; }

    // Both 0 to 1; what is above counts as 1. Until this is called there is no pressure.
    void press(double memory_use, double leased_share) {
        const double pressure = (std::clamp(memory_use, 0.0, 1.0) + std::clamp(leased_share, 0.0, 1.0)) / 2;
        alpha_ms_ = uint32_t(double(from_ms()) - double(from_ms() - min_ms_) * pressure + 0.5);
    }
    uint32_t alpha_ms() const { return by_popularity_ ? alpha_ms_ : 0; }  // 0: one term for all

    // 0: it earns none yet. halvings: fixed_lease, approx_lru and original have terms that nothing changes.
    uint32_t term_ms(uint32_t touches, uint32_t halvings) const {
        const uint32_t whole_ms = queue_term_ms(popularity_queue(touches));
        if (!shortens_) return whole_ms;
        return std::min(whole_ms, std::max(whole_ms >> halvings, lease_term_ms_min));
    }
    uint32_t queue_term_ms(uint32_t queue) const {
        if (!by_popularity_) return one_ms_;
        return std::min(queue * alpha_ms_, max_ms_);
    }

  private:
    // Where the two ends are close together, no queue's term is below the shortest.
    uint32_t from_ms() const { return std::max(max_ms_ / (popularity_queues - 1), min_ms_); }

    bool by_popularity_ = false, shortens_ = false;
    uint32_t one_ms_ = 0, min_ms_ = 0, max_ms_ = 0;
    uint32_t alpha_ms_ = 0;
};

}  // namespace farcached::node
