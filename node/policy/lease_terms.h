// SPDX-License-Identifier: BSD-3-Clause
// LeaseTerms: the length of leases. No I/O, no clock; owned by Leases, under the partition's lock.
//
// One term for all, or terms by popularity (PDLA of the C-Hint paper): an item in queue q = min(log2(touches), 7) earns
//
//     term = q * alpha           alpha = from + (to - from) * pressure       pressure = (memory use + leased share) / 2
//
// and no lease in queue 0: an item touched once may never be read again. Without pressure, the top queue earns exactly the
// longest term (from = term_ms_max / 7). Under full pressure, queue 1 earns exactly the shortest (to = term_ms_min). So all
// terms are within the two. Memory use is taken pages / limit: while pages are free, leased memory costs nothing. But a cache
// is full for most of its life, so memory use is only half of the pressure. The other half is the leased share of the lease
// zone: memory pinned there denies leases to other items. Alpha never reaches 0: the zone (S8), not the terms, ensures that no
// set waits for a lease.
//
// While the zone has room, the term also follows the lifetime of items: a lease of seconds ends before the next GET of items
// that stay for minutes. So alpha is at least 0.45 * lifetime * (1 - leased^32), up to terms of two lifetimes. Pointer hit
// ratio of zipf-95:5, 20/80 (farbench hitratio): 0.75, against 0.69 without this. A whole lifetime pins too much where
// popularity moves or is flat.
//
// `pdla_paper` follows the paper exactly: q is the item's queue, and pressure is memory use.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/check.h"
#include "base/counters.h"
#include "base/node_clock.h"
#include "base/policy_kind.h"

namespace farcached::node {

constexpr uint32_t popularity_queues = 8;

// The queue of an item with that many touches, the set that stored it included.
constexpr uint32_t popularity_queue(uint32_t touches) {
    if (touches == 0) return 0;
    return std::min<uint32_t>(uint32_t(std::bit_width(touches)) - 1, popularity_queues - 1);
}

constexpr uint32_t lease_term_ms_min = 200;        // a shorter lease ends before its pointer is used
constexpr uint32_t lease_term_ms_longest = 256'000;
constexpr uint64_t leased_item_bytes_max = UINT64_C(4) << 20;  // larger items are not leased: proxies have no buffers to READ them

// How long a lease granted now keeps memory, in s: term, grace, and the rest of the current second, as the clock counts
// seconds.
constexpr uint32_t lease_kept_s(uint32_t term_ms, uint32_t grace_ms) { return (term_ms + grace_ms + 999) / 1000 + 1; }

// Leases on items that proxies read one-sided.
struct LeaseConfig {
    bool enabled = false;
    uint32_t term_ms = 4000;         // 1 to 256'000: where one term is for all
    uint32_t term_ms_min = 4000;     // 1 to 256'000: shortest and longest term by popularity;
    uint32_t term_ms_max = 256'000;  // not below term_ms_min. Equal: one term from queue 1 up
    uint32_t grace_ms = 600;         // 1 to 60'000: memory is kept this long after the lease (S2)
    double share = 0.5;              // 0 to 0.9: share of all pages that may hold leased items (S8)
    double dead_share = 1.0 / 16;    // above 0, to 1, of the memory limit: with more in dead slots, leases are denied (S8)
    uint32_t from_touches = 2;       // counting the set that stored the item
};

// Mean time until an item is evicted: items / evictions per second, over smooth_s seconds.
class Lifetime {
  public:
    void look(NodeSeconds now, uint64_t items, uint64_t evictions) {
        if (now <= looked_) return;
        per_second_ = moving_rate(per_second_, double(evictions - evictions_), double(now - looked_), smooth_s);
        items_ = items;
        evictions_ = evictions;
        looked_ = now;
    }
    // 0: no evictions.
    double seconds() const { return per_second_ < per_second_min ? 0 : double(items_) / per_second_; }

  private:
    static constexpr double smooth_s = 16, per_second_min = 1e-3;
    NodeSeconds looked_ = 0;
    uint64_t items_ = 0, evictions_ = 0;
    double per_second_ = 0;
};

class LeaseTerms {
  public:
    LeaseTerms() = default;
    LeaseTerms(PolicyKind kind, const LeaseConfig& config)
        : by_popularity_(kind == PolicyKind::pdla || kind == PolicyKind::s3fifo || kind == PolicyKind::pdla_paper),
          as_paper_(kind == PolicyKind::pdla_paper),
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

    // Both 0 to 1; larger values count as 1. No pressure before the first call. lifetime_s: from Lifetime.
    void press(double memory_use, double leased_share, double lifetime_s) {
        const double use = std::clamp(memory_use, 0.0, 1.0), leased = std::clamp(leased_share, 0.0, 1.0);
        const double pressure = as_paper_ ? use : (use + leased) / 2;
        alpha_ms_ = uint32_t(double(from_ms()) - double(from_ms() - min_ms_) * pressure + 0.5);
        if (as_paper_) return;
        constexpr double alpha_lifetimes = 0.45, lifetimes_max = 2;
        double full = leased;  // to the 32nd power: near 0 until little room is left
        for (int i = 0; i < 5; i++) full *= full;
        const double lifetime_ms = lifetime_s * 1000, longest = double(max_ms_);
        stay_ms_ = uint32_t(std::min(alpha_lifetimes * lifetime_ms * (1 - full), longest));
        stay_ms_max_ = uint32_t(std::min(lifetime_ms * lifetimes_max, longest));
    }
    uint32_t alpha_ms() const { return by_popularity_ ? alpha_ms_ : 0; }  // 0: one term for all

    // 0: no lease yet. queue: the item's queue in the policy.
    uint32_t term_ms(uint32_t touches, uint32_t queue) const {
        return queue_term_ms(as_paper_ ? queue : popularity_queue(touches));
    }
    uint32_t queue_term_ms(uint32_t queue) const {
        if (!by_popularity_) return one_ms_;
        return std::min(std::max(queue * alpha_ms_, std::min(queue * stay_ms_, stay_ms_max_)), max_ms_);
    }

  private:
    // If the two ends are close, no queue's term is below the shortest.
    uint32_t from_ms() const { return std::max(max_ms_ / (popularity_queues - 1), min_ms_); }

    bool by_popularity_ = false;
    bool as_paper_ = false;
    uint32_t one_ms_ = 0, min_ms_ = 0, max_ms_ = 0;
    uint32_t alpha_ms_ = 0;
    uint32_t stay_ms_ = 0, stay_ms_max_ = 0;  // as alpha, and the longest term, by lifetime
};

}  // namespace farcached::node
