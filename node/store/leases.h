// SPDX-License-Identifier: BSD-3-Clause
// Leases: which leases a partition grants, how long they run, and the slots that died under one.
//
// Owner: a Partition, under its lock. It neither moves nor removes items; Items and LeaseZone do, and report it here.
//
// L1  A lease belongs to a slot, and its end to the descriptor (S3). A grant or a renewal only moves the end further.
// L2  LeasedBytes counts each live item under a lease once, by its slot and its size as they are now. So a writer
//     into such a slot calls begin_write() before and end_write() after.
// L3  A slot whose item died under a lease is dead: counted in its page, and in no list of free slots. It is reserved for its
//     key until lease and grace have ended on a clock read later (S2; DeadSlots).
// L4  A lease is granted only where all leases together leave room for others (S8): in the lease zone, and while dead slots are
//     few (judge()).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/broken.h"
#include "base/function_ref.h"
#include "base/hash.h"
#include "base/mapping.h"
#include "node/items/stored_item.h"
#include "node/memory/arena.h"
#include "node/memory/descriptor.h"
#include "node/policy/item_list.h"
#include "node/policy/lease_terms.h"
#include "node/store/node.h"

namespace farcached::node {

// DeadSlots: the slots of one partition whose item died under a lease. Until lease and grace have ended, only a later item of
// the same key may be written there (S1).
//
// Owner: Leases, under the partition's lock. Adding a slot allocates nothing: the links are in the slots' descriptors.
//
// R1  A slot is here exactly while its state is `dead`. It is in two lists: that of the second in which its lease ends, linked
//     by Descriptor::prev and next, and that of its key's hash, linked by Descriptor::chain.
// R2  ended() returns a slot only when its lease end has passed (S2). A slot that its key revived earlier leaves no entry
//     behind that could free it later.
// R3  find() compares hash bits only; the caller compares the key's bytes. No peer learns the hash seed, so no peer can aim
//     many slots at one bucket.

// Lease ends are distinguished modulo this many seconds; lease and grace together are never longer.
constexpr uint32_t lease_seconds_max = 1024;

class DeadSlots {
  public:
    DeadSlots(Descriptors items, uint64_t pages_max);

    // The slot's lease_end is set and its state is `dead`.
    void add(Ref ref, uint64_t key_hash);
    void remove(Ref ref);
    // Visits the slots of that hash until `stop` returns true; returns that slot, or nil. `stop` changes nothing here.
    Ref find(uint64_t key_hash, FunctionRef<bool(Ref)> stop) const;
    // Removes all slots whose lease end is before `now`, and passes each to `freed`.
    void ended(NodeSeconds now, FunctionRef<void(Ref)> freed);

    uint64_t count() const { return count_; }

  private:
    static constexpr uint32_t buckets_per_page = 128;
    struct Stale {
        Ref ref;
        uint32_t lease_end;
    };

    Ref& bucket(uint32_t hash_bits) const {
        return reinterpret_cast<Ref*>(buckets_.data())[hash_bits & bucket_mask_];
    }
    void unlink_key(Ref ref);
    void end_second(uint32_t second, NodeSeconds now, FunctionRef<void(Ref)> freed);
    void end_stale(NodeSeconds now, FunctionRef<void(Ref)> freed);

    Descriptors items_;
    uint32_t bucket_mask_;
    Mapping buckets_;  // first slot of each hash + 1; 0: empty, so that unused memory stays untouched
    std::array<Ref, lease_seconds_max> by_second_;
    NodeSeconds ended_before_ = 0;
    uint64_t count_ = 0;
    std::vector<Stale> stale_;  // used only where rule S2_STALE is broken on purpose
};

// LeasedPages: the pages of a partition that leases may run in. LeasedBytes: the bytes under leases, by the second of their end.
//
// Owner: Leases, under the partition's lock.
//
// LP1 A page is listed while a lease in it runs, so that a flush finds every leased item (S11). A run of pages counts as one, at
//     its head. Page::listed is set for exactly the pages that were added and not removed.
// LP2 The list may also have pages that left the partition, or that have no lease any more; they go when the list has grown.
class LeasedPages {
  public:
    void attach(Arena& arena, uint16_t partition) {
        arena_ = &arena;
        partition_ = partition;
    }

    // Reserves an entry, before any change that leads to add(). False: no memory.
    bool can_add() noexcept;
    // After can_add(): a lease in the page ends then.
    void add(uint64_t page, uint32_t lease_end, NodeSeconds now);
    // The page left the partition, or its leased items are being removed.
    void remove(uint64_t page);
    bool leases_run_in(uint64_t page, NodeSeconds now) const {
        const uint32_t lease_end = arena_->page(page).lease_end;
        return lease_end != 0 && lease_end >= now;
    }
    // Empties the list. Its pages stay marked as listed, until remove().
    std::vector<uint32_t> take_all() { return std::exchange(pages_, {}); }
    const std::vector<uint32_t>& all() const { return pages_; }
    uint64_t listed(uint8_t size_class) const { return listed_[size_class]; }

  private:
    static constexpr size_t compact_at_min = 64;
    void compact(NodeSeconds now);

    Arena* arena_ = nullptr;
    uint16_t partition_ = 0;
    std::vector<uint32_t> pages_;
    size_t compact_at_ = compact_at_min;
    std::array<uint64_t, class_numbers> listed_{};
};

class LeasedBytes {
  public:
    void attach() { ending_.resize(lease_seconds_max); }

    // capacity: of the slot; filled: of the item.
    void add(uint32_t lease_end, uint64_t capacity, uint64_t filled);
    void remove(uint32_t lease_end, uint64_t capacity, uint64_t filled);
    uint64_t sum(NodeSeconds now) const;
    void add_stats(LeaseStats& stats, NodeSeconds now) const;

  private:
    // Bytes of the slots of live items whose leases end in a second, and of these items; past seconds are overwritten.
    struct Ending {
        uint32_t second = 0;
        uint64_t bytes = 0, filled = 0;
    };
    std::vector<Ending> ending_;  // by second, modulo lease_seconds_max
};

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
