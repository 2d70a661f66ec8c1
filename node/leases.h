// SPDX-License-Identifier: BSD-3-Clause
// Leases: which leases a partition grants, how long they run, and the slots that died under one.
//
// Owner: a Partition, under its lock. It neither moves nor removes items; Items and LeaseZone do, and report it here.
//
// L1  A lease belongs to a slot, and its end to the descriptor (S3). A grant or a renewal only moves the end further.
// L2  LeasedBytes counts each live item under a lease once, by its slot and its size as they are now. So a writer
//     into such a slot calls begin_write() before and end_write() after.
// L3  A slot whose item died under a lease is dead: counted in its page, and in no list of free slots. It is reserved for its
//     key until lease and grace have ended on a clock read later (S2; node/dead_slots.h).
// L4  A lease is granted only where all leases together leave room for others (S8): in the lease zone, and while dead slots are
//     few (judge()).
#pragma once

#include <cstdint>
#include <memory>

#include "base/function_ref.h"
#include "base/hash.h"
#include "node/arena.h"
#include "node/dead_slots.h"
#include "node/lease_terms.h"
#include "node/leased_pages.h"
#include "node/node.h"
#include "node/stored_item.h"

namespace farcached::node {

// The cost limit of a report's lease, and its cost.
struct LeaseCost {
    uint64_t byte_s_max;
    uint64_t byte_s = 0;  // of the granted lease
    bool over = false;    // denied only for its cost
};

// Input of the terms: the partition's items now, and its evictions so far.
struct Turnover {
    uint64_t items = 0, evictions = 0;
};

class Leases {
  public:
    // private_seed: of hashes whose collisions no peer can aim.
    void attach(Arena& arena, const Config& config, uint16_t number, uint32_t partition_count, uint64_t private_seed);
    // For leases granted from now on.
    void set_terms(const LeaseTerms& terms) {
        terms_ = terms;
        pressed_at_ = 0;
    }
    // A flush is scheduled for then.
    void end_before(NodeSeconds when) { before_ = when; }

    bool enabled() const { return config_.enabled; }
    bool runs(Ref ref, NodeSeconds now) const { return config_.enabled && lease_runs(arena_->descriptor(ref), now); }
    bool leasable(Ref ref) const { return arena_->leasable(ref) && !draining(ref); }
    LeasedPages& pages() { return pages_; }
    const LeasedPages& pages() const { return pages_; }

    // Whether the item earns a lease now; then term_ms is its term.
    protocol::LeaseDenial judge(Ref ref, NodeSeconds now, bool by_report, const Turnover& turnover, uint32_t& term_ms);
    // The item needs another slot for a lease.
    bool must_move(Ref ref, NodeSeconds now) const { return !leasable(ref) || (sparse(ref) && !runs(ref, now)); }
    // Until when a lease granted now keeps its memory.
    uint32_t end_of(uint32_t term_ms, NodeSeconds now) const { return now + lease_kept_s(term_ms, config_.grace_ms); }
    bool affords(LeaseCost& report, Ref ref, uint32_t lease_end, NodeSeconds now) const;
    // After judge() and LeasedPages::can_add(): a lease runs until then, or until its present end if that is later.
    void grant(Ref ref, uint32_t lease_end, NodeSeconds now);
    // The rest of the running lease that may still be announced, such that lease_kept_s() of it is no later than its end.
    uint32_t told_ms(Ref ref, NodeSeconds now) const;
    void count_denied(protocol::LeaseDenial why) { stats_.denied[size_t(why)]++; }
    void count_moved() { stats_.moved++; }

    // Before and after a write into the slot of a live item; the first returns whether a lease runs.
    bool begin_write(Ref ref, NodeSeconds now);
    void end_write(Ref ref, bool leased, NodeSeconds now);

    // The item died under its lease.
    void bury(Ref ref);
    // Passes the dead slots whose leases have ended to `freed`; returns their number.
    uint32_t reclaim(NodeSeconds now, FunctionRef<void(Ref)> freed) {
        return dead_ == nullptr ? 0 : reclaim_ended(now, freed);
    }
    // The smallest dead slot of the key that an item of that size does not leave almost empty; nil: none. revive() may list its
    // page.
    Ref find_dead(const protocol::Key& key, uint64_t bytes);
    // The dead slot stores its key again: the item is written, then described.
    void forget_dead(Ref ref);
    void revive(Ref ref, NodeSeconds now);

    void add_stats(LeaseStats& sum, NodeSeconds now) const;

  private:
    bool draining(Ref ref) const { return arena_->page(page_of(ref)).draining != 0; }
    uint64_t private_hash(std::string_view key) const { return hash_key(key, private_seed_); }
    bool left_dead_slot(Ref ref) const;
    bool sparse(Ref ref) const;
    uint32_t ms_left(Ref ref, NodeSeconds now) const;
    uint32_t flush_ms_left(NodeSeconds now) const;
    protocol::LeaseDenial judge_dead(Ref ref, NodeSeconds now) const;
    void press(NodeSeconds now, const Turnover& turnover);
    void count_bytes(Ref ref);
    void uncount_bytes(Ref ref);
    uint32_t reclaim_ended(NodeSeconds now, FunctionRef<void(Ref)> freed);
    void count_dead_gone(Ref ref);

    Arena* arena_ = nullptr;
    LeaseConfig config_;
    uint32_t partition_count_ = 1;
    uint64_t private_seed_ = 0;
    LeaseTerms terms_;
    Lifetime lifetime_;                // of items; input of the terms
    NodeSeconds pressed_at_ = 0;       // when the leased share in terms_ was computed
    uint32_t grants_since_press_ = 0;  // requested grants
    NodeSeconds before_ = 0;           // a scheduled flush
    LeasedPages pages_;
    LeasedBytes bytes_;
    std::unique_ptr<DeadSlots> dead_;  // with leases only
    LeaseStats stats_;                 // except those of LeasedBytes and Draining
};

}  // namespace farcached::node
