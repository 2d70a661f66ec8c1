// SPDX-License-Identifier: BSD-3-Clause
// Node: the cache itself. Owns the memory, executes the operations of protocol/op.h, and lets its items be
// read without a lock (fabric/local_read.h) by this process and, over a fabric, by others.
//
// Every call is safe from any thread. Mutations run in the calling thread, under the lock of the key's
// partition; nothing here blocks on I/O and nobody waits for readers (ARCHITECTURE.md: safety rules S1-S13 are
// cited where they are kept).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/node_clock.h"
#include "base/policy_kind.h"
#include "fabric/region_view.h"
#include "node/lease_terms.h"
#include "node/numa.h"
#include "protocol/op.h"

namespace farcached::node {

struct Config {
    bool grows = true;  // cache_memlimit may raise the limit later: address space for that is reserved
    uint64_t memory_bytes = UINT64_C(64) << 20;  // -m: limit on the arena, whole pages
    uint64_t item_bytes_max = 1 << 20;           // -I: header, key and value together
    double growth_factor = 1.25;                 // -f: from one size class to the next
    uint32_t chunk_bytes_min = 48;               // -n: key and value of the smallest class
    bool evict = true;                           // false: -M, a full cache answers no_memory
    bool cas = true;                             // false: -C, every cas reads 0
    uint64_t cas_above = 0;                      // every cas is larger
    bool huge_pages = false;                     // -L: try for huge pages
    bool offered = true;                         // other processes may map its memory
    uint32_t partitions = 0;                     // power of two; 0: chosen from workers and memory
    uint32_t workers = 4;                        // threads that will call
    PolicyKind policy = PolicyKind::clock;       // node/policy.h; without leases if it goes with none
    LeaseConfig lease;
    uint64_t seed = 0;  // not 0: nothing is drawn at random, which only measurements and tests may want
    std::vector<uint32_t> numa_nodes;  // that memory is divided among; fewer than two: it is left to the kernel
    MemoryBinder* binder = nullptr;    // borrowed; nullptr: the kernel's
    bool count_reads = false;                    // there are counters for those who read one-sided (ReadCounters)
};

// Told of what a node does by itself. Called under a partition's lock: copy and return, never call back.
class Observer {
  public:
    virtual ~Observer() = default;
    // A live item is removed to make room.
    virtual void evicted(std::string_view key, const protocol::ItemMeta& meta, NodeSeconds now) = 0;
};

struct LeaseStats {
    uint64_t granted = 0, renewed = 0;
    uint64_t denied_young = 0;      // touched too seldom
    uint64_t denied_wasted = 0;     // replaces one that died under its lease
    uint64_t denied_no_room = 0;    // outside the lease zone, and the zone had no slot
    uint64_t denied_short = 0;      // expires too soon
    uint64_t denied_draining = 0;   // in a page whose leases are let run out
    uint64_t denied_stopped = 0;    // there are none at all for now (LeaseStop)
    uint64_t draining = 0;          // such pages; a run of pages is one
    uint64_t drained = 0;           // of them, those that became free
    uint64_t stops = 0;             // times that leases stopped
    uint64_t stopped = 0;           // 1: they are
    uint64_t moved = 0;             // into the lease zone
    uint64_t bytes = 0;             // of items whose lease runs
    uint64_t pending_bytes = 0;     // of items that died under a lease that runs
    uint64_t pending_slots = 0;
    uint32_t alpha_ms = 0;          // the least of any partition's, when it was last worked out (LeaseTerms)
};

// One size class, summed over partitions. `stats items` and `stats slabs` are printed from it.
struct ClassStats {
    uint32_t slot_bytes = 0;   // 0 for the class of large items
    uint64_t pages = 0;
    uint64_t slots_used = 0;
    uint64_t slots_total = 0;
    uint64_t bytes_requested = 0;   // header, key and value of live items
    uint64_t age_oldest_s = 0;      // since last access of the item next to go
    uint64_t evicted = 0, evicted_nonzero = 0, evicted_unfetched = 0, evicted_active = 0;
    uint64_t evicted_age_s = 0;     // since last access, of the newest eviction
    uint64_t out_of_memory = 0;
    uint64_t reclaimed = 0;         // expired or flushed items whose memory a store reused
    uint64_t expired_unfetched = 0;
    uint64_t crawler_reclaimed = 0;
    uint64_t crawler_checked = 0;
    uint64_t kept = 0;              // second chances given at eviction
};

struct Stats {
    uint64_t items = 0, items_total = 0;
    uint64_t bytes = 0;             // of live items: header, key and value
    uint64_t memory_limit_bytes = 0;
    uint64_t pages_used = 0, pages_limit = 0;
    uint64_t pages_refused = 0;     // times that the system had no memory for a page
    uint64_t pages_moved = 0;       // taken from one class for another, or for a large item
    uint64_t index_buckets = 0;
    uint64_t index_bytes = 0;
    uint64_t flushes = 0;
    uint64_t prefix_deletes = 0;
    uint64_t prefixes_pending = 0;  // of them, those not swept yet; the same prefix counts once
    uint64_t prefix_items = 0;      // that went by them
    uint64_t overflow_evictions = 0;  // items that went because their bucket chain was full
    uint64_t reads_counted = 0;       // one-sided reads that were seen by the items' counters
    uint64_t numa_nodes = 1;          // that memory is divided among
    uint64_t numa_refused = 0;        // parts of it that the kernel did not bind
    LeaseStats leases;
    std::array<uint64_t, popularity_queues> queues{};  // items in each queue of the policy, over all classes
    std::vector<ClassStats> classes;  // index 0 is unused: classes are 1-based
};

// What a walk shows of one item. Valid during the visit only.
struct ItemView {
    std::string_view key;
    protocol::ItemMeta meta;
};

// That an item was read, and how often.
struct Access {
    uint64_t slot_word;   // layout::Slot: where
    uint64_t guard_word;  // layout::Guard: which generation
    uint64_t hash;
    uint32_t times;
};

// What came of one record of a report.
struct Renewal {
    enum class Outcome : uint8_t {
        stranger,  // there is no such item: nothing was done
        seen,      // it was an access, and the policy grants no lease, or none where the item lies
        over,      // likewise, and a lease would have cost more than there was
        renewed,   // and there is a lease now
    } outcome = Outcome::stranger;
    uint32_t term_ms = 0;  // of the lease, if renewed
    uint64_t byte_s = 0;   // by how much longer it keeps memory now: the item's bytes times seconds
};

class Node {
  public:
    // Maps the region. Throws std::system_error when the memory cannot be had.
    explicit Node(const Config& config);
    ~Node();
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;

    // As it was made; of the terms of leases lease_config() has those of the moment.
    const Config& config() const;
    // Any thread.
    LeaseConfig lease_config() const;
    // By a reload, from any thread: the terms of leases that are granted from now on, in milliseconds, as LeaseConfig has
    // them. Leases that run are as long as they were granted.
    void set_lease_terms(uint32_t term_ms, uint32_t term_ms_min, uint32_t term_ms_max);
    // What lock-free readers need; valid as long as the node.
    const fabric::RegionView& view() const;
    // Of the check in each item; for those who are welcomed, and nobody else.
    uint64_t check_secret() const;
    protocol::Key key(std::string_view bytes) const;

    // Set before the first operation from another thread; nullptr turns it off. Borrowed.
    void observe(Observer* observer);

    // The locked path. `value` is called on a hit, under the lock, with the item's meta; it returns where to
    // copy the value (meta.value_len bytes), or nullptr for no value. It must not call back into the node.
    using ValueSink = FunctionRef<char*(const protocol::ItemMeta&)>;
    protocol::GetReply get(const protocol::GetOp& op, NodeSeconds now, ValueSink value);

    protocol::StoreReply store(const protocol::StoreOp& op, NodeSeconds now);
    protocol::DeleteReply remove(const protocol::DeleteOp& op, NodeSeconds now);
    protocol::ArithReply arith(const protocol::ArithOp& op, NodeSeconds now);

    // Would an item of this size be refused as too large?
    bool too_large(size_t key_bytes, uint64_t value_bytes) const;
    // The class that such an item would be of, as in stats slabs.
    uint8_t size_class(size_t key_bytes, uint64_t value_bytes) const;
    // For a set whose value is refused before it was read: the old item must not survive it.
    void forget(const protocol::Key& key, NodeSeconds now);

    // Leases granted from now on end before this moment, a scheduled flush; 0: none is scheduled.
    void end_leases_before(NodeSeconds when);
    // Everything stored before this call is gone for every reader when it returns (S11).
    void flush_all(NodeSeconds now);

    // Every item whose key begins with `prefix` (1 to key_bytes_max bytes) and that was stored before this call is gone for
    // every reader when it returns (S11). That takes as long as a look at all items under leases; the memory of the others
    // comes back by a sweep, and until that is over, reads of what is older than this call go by the locked path.
    // False: HiddenPrefixes::prefixes_max wait to be swept, or there is no memory; what matches may be gone.
    bool delete_prefix(std::string_view prefix, NodeSeconds now);
    // The same in parts: what was stored before the first is gone when the last has said so. nullopt: as false above.
    struct PrefixDelete {
        std::string prefix;
        std::vector<uint64_t> floors;  // by partition
        uint32_t partition = 0;        // where it is
        std::vector<uint32_t> pages;   // of it, that are to be looked at
    };
    std::optional<PrefixDelete> begin_delete_prefix(std::string_view prefix);
    // Looks at that many pages at most. True: it is done. Throws std::bad_alloc: try again.
    bool go_on(PrefixDelete& under_way, uint32_t pages_max, NodeSeconds now);
    // For who sweeps: the order that is to be swept, 0 if none is; and that every page was swept since prefix_order() said so.
    uint64_t prefix_order() const;
    void prefixes_swept(uint64_t order);
    // Called after each delete by prefix, under a lock: do not call the node. Empty: nobody is told.
    void when_prefix_deleted(std::function<void()> told);

    // Applies accesses seen by lock-free readers. Of every 256 a partition's lock is taken once.
    void record(std::span<const Access> accesses, NodeSeconds now);

    // An access of which a report tells. If the live item is the one that `seen` names, hash and all, its lease is renewed
    // under the rules for new ones, but that nothing is moved for it; for byte_s_max at most.
    Renewal renew(const Access& seen, NodeSeconds now, uint64_t byte_s_max);
    // Bytes of the pages that may hold leased items.
    uint64_t leasable_bytes() const;

    // Visits the live items of one page under its owner's lock. Pages are 0 .. page_count()-1; an empty page
    // visits nothing. A walk over all pages sees every item that stays put meanwhile.
    uint64_t page_count() const;
    // Those that there can be, now or after set_memory_limit(); above page_count() pages are empty, or about to be.
    uint64_t most_pages() const;
    void visit_page(uint64_t page, NodeSeconds now, FunctionRef<void(const ItemView&)> visit);
    // Removes expired and flushed items of one page; returns {checked, removed}.
    struct Swept {
        uint64_t checked, removed;
    };
    Swept sweep_page(uint64_t page, NodeSeconds now);

    // cache_memlimit. False when it cannot be set (below what is needed or above what was reserved).
    bool set_memory_limit(uint64_t bytes, NodeSeconds now);

    Stats stats(NodeSeconds now) const;

    struct Impl;  // node/impl.h
    Impl& impl() { return *impl_; }

  private:
    std::unique_ptr<Impl> impl_;
};

}  // namespace farcached::node
