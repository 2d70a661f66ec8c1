// SPDX-License-Identifier: BSD-3-Clause
// Node: the cache itself. Owns the memory and executes the operations of protocol/op.h. This process, and others over a fabric,
// read its items without a lock (fabric/local_read.h). Its parts execute what concerns values in tiers, keys that other nodes
// share, deletes by prefix, and walks over all pages.
//
// Owner: main. Threads: every call is safe from any thread. Mutations run in the calling thread, under the lock of the key's
// partition. No call blocks on I/O or waits for readers. Comments cite the safety rules S1, S2 ... of ARCHITECTURE.md where the
// code keeps them.
//
// Without memory for bookkeeping a node returns no_memory, or skips the bookkeeping: an operation is executed or leaves its
// item unchanged. Only stats(), PrefixDeletes::go_on() and callers' functions throw std::bad_alloc.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/borrowed_bytes.h"
#include "base/counters.h"
#include "base/function_ref.h"
#include "base/node_clock.h"
#include "base/policy_kind.h"
#include "fabric/access.h"
#include "fabric/region.h"
#include "node/memory/numa.h"
#include "node/policy/lease_terms.h"
#include "protocol/op.h"

namespace farcached::node {

class AwayItems;      // node/store/away_items.h
class DiskStore;      // node/disk/disk_store.h
class MemoryFile;     // node/memory/memory_file.h
class Pages;          // node/store/pages.h
class PeerStore;      // node/peer/peer_store.h
class PrefixDeletes;  // node/store/prefix_deletes.h
class SharedKeys;     // node/store/shared_keys.h
struct Place;

// Which values of evicted items move to a tier (node/store/spill.h), when they return, and how many of other nodes are taken.
// Any thread may change them.
struct SpillRules {
    Adjustable<uint32_t> value_bytes_min = 512;
    Adjustable<uint32_t> recache_rate = 2000;  // one read in so many returns the item to memory; 0: none
    Adjustable<bool> drop_unread = true;       // an item that was never read is evicted, unless its key returned (X6 of Spill)
    Adjustable<uint32_t> idle_s = UINT32_MAX;  // a sweep moves values that nobody read for so long; UINT32_MAX: none
    Adjustable<double> foreign_share = 0.25;   // of memory, for items that other nodes spill here
};

struct Config {
    bool grows = true;  // reserves address space, so that cache_memlimit may raise the limit later
    uint64_t memory_bytes = UINT64_C(64) << 20;  // -m: limit on the arena, whole pages
    uint64_t item_bytes_max = 1 << 20;           // -I: header, key and value together
    double growth_factor = 1.25;                 // -f: from one size class to the next
    uint32_t chunk_bytes_min = 48;               // -n: key and value of the smallest class
    bool evict = true;                           // false: -M, a full cache answers no_memory
    bool cas = true;                             // false: -C, every cas reads 0
    uint64_t cas_above = 0;                      // every cas is above this
    bool cas_by_clock = false;                   // and above the time of day in microseconds (CasUniques::next())
    bool huge_pages = false;                     // -L: try for huge pages
    bool offered = true;                         // other processes may map the memory
    uint32_t partitions = 0;                     // power of two; 0: chosen from workers and memory
    uint32_t workers = 4;                        // threads that will call
    PolicyKind policy = PolicyKind::clock;       // node/policy/policy.h; lru and mq exclude leases
    LeaseConfig lease;
    uint64_t seed = 0;  // nonzero: replaces all randomness; for measurements and tests only
    std::vector<uint32_t> numa_nodes;  // memory is divided among these; fewer than two: the kernel decides
    MemoryBinder* binder = nullptr;    // borrowed; nullptr: the kernel's
    MemoryFile* file = nullptr;        // borrowed; the memory is there, to outlive the process; nullptr: nowhere
    bool count_reads = false;                    // counters for one-sided reads exist (ReadCounters)
    PeerStore* peer = nullptr;                   // borrowed; nullptr: no value goes to another node
    DiskStore* disk = nullptr;                   // borrowed; nullptr: no value goes to a disk
    SpillRules spill;                            // if there is one of these
    bool has_tiers() const { return peer != nullptr || disk != nullptr; }
};

// Callbacks for actions that the node starts itself. Called under a partition's lock, while the item is removed: copy and
// return, never call the node, never throw.
class Observer {
  public:
    virtual ~Observer() = default;
    // A live item is evicted.
    virtual void evicted(std::string_view key, const protocol::ItemMeta& meta, NodeSeconds now) noexcept = 0;
};

struct LeaseStats {
    uint64_t granted = 0, renewed = 0;
    std::array<uint64_t, size_t(protocol::LeaseDenial::count)> denied{};  // by reason
    uint64_t draining = 0;          // pages whose leases run out; a run of pages counts as one
    uint64_t drained = 0;           // of these, pages that became free
    uint64_t stops = 0;             // times that leases stopped
    uint64_t stopped = 0;           // 1: leases are stopped
    uint64_t moved = 0;             // into the lease zone
    uint64_t bytes = 0;             // of slots whose lease runs and that hold a live item
    uint64_t slack_bytes = 0;       // of these, bytes that items do not fill
    uint64_t dead_bytes = 0;        // of slots that died under a lease that still runs
    uint64_t dead_slots = 0;
    uint64_t revived = 0;           // dead slots that their key took back
    uint64_t in_place = 0;          // writes into a slot under a running lease
    uint32_t alpha_ms = 0;          // smallest of all partitions, when last computed (LeaseTerms)
};

// Of items whose values are in a tier.
struct TierStats {
    uint64_t recached = 0;       // items whose value returned from a tier to memory
    uint64_t foreign_bytes = 0;  // of slots with values that other nodes spilled here
    uint64_t subleases = 0;      // permits to READ a value on another node
    uint64_t lost_away = 0;      // items whose value a read did not find in its tier
};

// One size class, summed over partitions; source of `stats items` and `stats slabs`.
struct ClassStats {
    uint64_t slot_bytes = 0;   // 0 for the class of large items
    uint64_t pages = 0;
    uint64_t slots_used = 0;
    uint64_t slots_total = 0;
    uint64_t bytes_requested = 0;   // header, key and value of live items
    uint64_t age_oldest_s = 0;      // since last access of the next item to go
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
    uint64_t pages_refused = 0;     // pages that the system did not back with memory
    uint64_t pages_moved = 0;       // taken from one class for another, or for a large item
    uint64_t index_buckets = 0;
    uint64_t index_bytes = 0;
    uint64_t flushes = 0;
    uint64_t prefix_deletes = 0;
    uint64_t prefixes_pending = 0;  // of these, not swept yet; equal prefixes count once
    uint64_t prefix_items = 0;      // removed by them
    uint64_t overflow_evictions = 0;  // items evicted because their bucket chain was full
    uint64_t bytes_lent = 0;          // of pages that replies are sent from
    uint64_t bytes_arriving = 0;      // of pages for values that are being received
    uint64_t reads_counted = 0;       // one-sided reads found in the items' counters
    uint64_t numa_nodes = 1;          // that memory is divided among
    uint64_t numa_refused = 0;        // parts of memory that the kernel did not bind
    TierStats tiers;
    LeaseStats leases;
    std::array<uint64_t, popularity_queues> queues{};  // items in each queue of the policy, over all classes
    std::vector<ClassStats> classes;  // index 0 is unused: classes are 1-based
};

// One item during a walk. Valid during the visit only.
struct ItemView {
    std::string_view key;
    protocol::ItemMeta meta;
};

// A sweep of one page.
struct SweptPage {
    uint64_t checked = 0, removed = 0;  // items
};

using fabric::Access;

// The result of one record of a report.
struct Renewal {
    enum class Outcome : uint8_t {
        stranger,  // no such item: no effect
        seen,      // counted as an access; the policy grants no lease, or none in that page
        over,      // counted as an access; a lease would exceed the byte-seconds left
        renewed,   // counted as an access, and leased
    } outcome = Outcome::stranger;
    uint32_t term_ms = 0;  // of the lease, if renewed
    uint64_t byte_s = 0;   // by how much longer memory is kept now: the item's bytes times seconds
};

struct NewItem;

constexpr uint64_t lent_bytes_min = 16 << 10;

// A value that is received into an unpublished slot. Made by Node::begin_upload(), and destroyed before the node.
class Upload {
  public:
    ~Upload();  // returns the slot, unless the item was published there
    Upload(const Upload&) = delete;
    Upload& operator=(const Upload&) = delete;

    uint64_t missing() const { return value_bytes_ - filled_; }
    // At most missing() bytes. Takes no lock.
    void append(std::string_view bytes);
    // Alternative to append(): a buffer for a system call, then the number of bytes it wrote. Empty: unavailable.
    std::span<char> room();
    void advance(uint64_t bytes);
    // Once missing() is 0; valid until the end of the upload or of Node::store().
    std::string_view value() const;

  private:
    friend class Node;
    struct Place;
    Upload(std::unique_ptr<Place> place, uint64_t value_bytes);
    bool holds(const NewItem& item) const;
    void publish();  // under the partition's lock

    const std::unique_ptr<Place> place_;
    const uint64_t value_bytes_;
    uint64_t filled_ = 0;
};

class Node {
  public:
    // Maps the region. Throws std::system_error without memory.
    explicit Node(const Config& config);
    ~Node();

    // As constructed; lease_config() has the current lease terms.
    const Config& config() const;
    // Any thread.
    LeaseConfig lease_config() const;
    // On a reload, from any thread: terms of leases granted from now on, in milliseconds, as in LeaseConfig. Running leases
    // keep their term.
    void set_lease_terms(uint32_t term_ms, uint32_t term_ms_min, uint32_t term_ms_max);
    // The data that one-sided readers need; valid as long as the node.
    const fabric::RegionView& view() const;
    // Secret of the check in each item, for welcomed proxies only.
    uint64_t check_secret() const;
    // The seed for proxies that may not read this node's memory. Clients cannot aim collisions at such a proxy, and the proxy
    // does not learn the seed of the index.
    uint64_t seed_of_peers() const;
    protocol::Key key(std::string_view bytes) const;

    // Called before the first operation of another thread; nullptr disables it. Borrowed.
    void observe(Observer* observer);

    // The locked path. On a hit, `value` is called under the lock with the item's meta. It returns the destination of
    // meta.value_len bytes, or nullptr for no value. It must not call the node. If it throws, the get's changes to the item (a
    // touch, a win token, the vivified item) may have happened.
    // If lent is not null, it receives a value of at least lent_bytes_min bytes instead of `value`. The bytes do not change
    // while it lives; it must end before the node. Replies may hold half of the memory limit in this way; above that the node
    // copies.
    // Of an item whose value is in a tier, `away` receives the place, and `value` is not called. Without `away` it is called for
    // the meta; if it wants the value, the reply is a miss.
    using ValueSink = FunctionRef<char*(const protocol::ItemMeta&)>;
    protocol::GetReply get(const protocol::GetOp& op, NodeSeconds now, ValueSink value, BorrowedBytes* lent = nullptr,
                           Place* away = nullptr);
    // Whether a value of that size can be lent once `freed` bytes are returned. Takes no lock.
    bool may_lend(uint64_t value_bytes, uint64_t freed = 0) const;
    uint64_t bytes_lent() const;  // of pages, as in Stats

    // If upload is not null, op.value is upload->value(), and the item is published where that value lies, if the operation
    // permits.
    protocol::StoreReply store(const protocol::StoreOp& op, NodeSeconds now, Upload* upload = nullptr);
    // Memory for a value to be received (S1), inside the memory limit. nullptr: uploads hold a quarter of the limit, or memory
    // is short.
    std::unique_ptr<Upload> begin_upload(const protocol::Key& key, uint64_t value_bytes, NodeSeconds now);
    protocol::DeleteReply remove(const protocol::DeleteOp& op, NodeSeconds now);
    protocol::ArithReply arith(const protocol::ArithOp& op, NodeSeconds now);

    // Whether an item of this size is refused as too large.
    bool too_large(size_t key_bytes, uint64_t value_bytes) const;
    // The size class of such an item, as in stats slabs.
    uint8_t size_class(size_t key_bytes, uint64_t value_bytes) const;
    // For a set that was refused before its value was read: removes the old item.
    void forget(const protocol::Key& key, NodeSeconds now);

    // A flush is scheduled for then: leases granted from now on end before it, and a restart knows of it. flush_all() ends
    // that, and so does a later call.
    void announce_flush(NodeSeconds when);
    // When it returns, no reader finds an item stored before the call (S11).
    void flush_all(NodeSeconds now);

    // Applies accesses of one-sided readers. Takes each partition's lock once per 256 accesses.
    void record(std::span<const Access> accesses, NodeSeconds now);

    // Applies one access from a report. If a live item of that key, in any generation, lies there, its lease is renewed. The
    // rules for new leases apply, and the cost is at most byte_s_max. No item is moved for it.
    Renewal renew(const Access& seen, NodeSeconds now, uint64_t byte_s_max);
    // Bytes of the lease zone.
    uint64_t leasable_bytes() const;

    // cache_memlimit. False: below the minimum or above the reserved memory.
    bool set_memory_limit(uint64_t bytes, NodeSeconds now);

    Stats stats(NodeSeconds now) const;
    // As in Stats; these take no lock.
    uint64_t flushes() const;
    uint64_t reads_counted() const;

    // Each part has its own header. They live as long as the node.
    AwayItems& away() { return away_; }
    SharedKeys& shared_keys() { return shared_keys_; }
    PrefixDeletes& prefixes() { return prefixes_; }
    Pages& pages() { return pages_; }

    struct Impl;  // node/store/impl.h
    Impl& impl() { return *impl_; }

  private:
    const std::unique_ptr<Impl> impl_;
    AwayItems& away_;
    SharedKeys& shared_keys_;
    PrefixDeletes& prefixes_;
    Pages& pages_;
};

// The size class of a page's items; 0: the page is unused. Without a lock, so it may be outdated.
uint32_t size_class_of(const Node& node, uint64_t page);

}  // namespace farcached::node
