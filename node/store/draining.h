// SPDX-License-Identifier: BSD-3-Clause
// Draining: pages of a partition whose leases run out, because other items need the room (S8).
//
// Owner: a Partition, under its lock. It touches no page of another partition; only LeaseStop is shared.
//
// D1  A page starts to drain if a set found every page of its class pinned. It also does if a lease found no room in the zone
//     while another class holds more pages there. The emptiest of several is chosen. While it drains, no lease in it is granted
//     or renewed, and none of its slots is taken.
// D2  When its last lease and grace have ended, the page is emptied and returns to the pool. That happens when the class it
//     drains for needs it, or after claim_s when any class does. Otherwise the first class to ask would get it.
// D3  The cost of a denied lease to others is bounded: one search per second for each class, over a bounded number of pages,
//     and few pages drain at a time.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/function_ref.h"
#include "node/memory/arena.h"
#include "node/policy/item_list.h"
#include "node/store/leases.h"
#include "node/store/node.h"
#include "node/store/slots.h"

namespace farcached::node {

class Draining {
  public:
    // `slots` and `leases` are the partition's, and outlive this.
    void attach(Arena& arena, const Config& config, uint32_t partition_count, Slots& slots, const Leases& leases);

    bool drains(Ref ref) const { return arena_->page(page_of(ref)).draining != 0; }
    // The page cannot be emptied: a lease runs in it, or a slot is held.
    bool pinned(uint64_t page, NodeSeconds now) const {
        return arena_->page(page).held != 0 || leases_->pages().leases_run_in(page, now);
    }
    // For a set that found every page of the class pinned: one of them starts to drain, if leases pin all.
    void drain_own(uint8_t size_class, NodeSeconds now);
    // For a lease that found no room: a page of a class with more pages than `to` starts to drain.
    void drain_larger(uint8_t to, NodeSeconds now);
    // Passes the drained pages that the class may have now to `empty`, but not that of the slot `keep`.
    void visit_drained(uint8_t size_class, NodeSeconds now, Ref keep, FunctionRef<void(uint64_t)> empty);
    // The page is about to leave the partition.
    void forget(uint64_t page);

    bool none() const { return pages_.empty(); }
    void add_stats(LeaseStats& sum) const;

  private:
    static constexpr uint64_t pages_max = 16;  // of a partition at once

    uint64_t bytes_pinned_in(uint64_t page, NodeSeconds now) const;
    uint64_t pages_to_lease(uint8_t size_class) const;
    void drain_emptiest(uint8_t wanted_by, NodeSeconds now, FunctionRef<bool(uint8_t)> of_class);

    Arena* arena_ = nullptr;
    Slots* slots_ = nullptr;
    const Leases* leases_ = nullptr;
    bool evict_ = true;
    uint32_t partition_count_ = 1;
    std::vector<uint32_t> pages_;
    size_t cursor_ = 0;                                    // in the leased pages
    std::array<NodeSeconds, class_numbers> own_sought_{};  // last search for a page to drain
    uint64_t drained_ = 0;
};

}  // namespace farcached::node
