// SPDX-License-Identifier: BSD-3-Clause
// Eviction policies: choose the next victim of a (partition, size class). A policy decides, Room acts.
// Owner: an EvictionOrder. All calls need the partition's lock; each is O(1). Policy is a variant of classes with these functions:
//
//   inserted   a new item; `hash` is its key's.
//   replaced   a new generation of an item; the older one is removed next. Its access_count and queue are already set:
//              those of the older one, with the touch if `touched`.
//   accessed   the item was read or changed, `times` times: more than one for one-sided reads counted later. access_count
//              is already raised.
//   removed    the item is gone. For evictions, policies with `remembers` get this call instead:
//   evicted    the item was evicted; `hash` is its key's.
//   victim     the next victim that may go; nil if none of those checked may. The policy asks for each checked
//              item whether it had uncounted one-sided reads. If so, they count as an access, and the item gets another chance.
//   next_to_go a guess at the next victim, for its age and its page; nil: the class has no item.
//   walk       visits some `depth` items that are next to go, until `stop` returns true. `stop` may remove the item
//              it gets. True: `stop` returned true.
//   kept       second chances given.
//   length     of a queue, 0 to 7; the queues together hold all items of the class.
//
// P1  Every item of a class is in exactly one list of its policy, linked by prev, next and queue of the descriptor. The policy
//     may also decrease access_count. No other code writes these while the item is in the list.
// P2  Decisions depend on `now` and on earlier calls only: the same calls yield the same victims.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/hash.h"
#include "base/mapping.h"
#include "base/policy_kind.h"
#include "node/policy/item_list.h"

namespace farcached::node {

// Ghosts: the hashes of recently evicted items, with their touch counts. No I/O, no clock; owned by a policy.
//
// G1  It holds the last `limit` items added, except those taken.
// G2  An item is identified by 32 bits of its key's hash. A collision only gives an item a wrong position in a list.
// G3  An entry takes 16 to 32 bytes. The table doubles up to the limit, with amortized O(1) growth, and never shrinks. If
//     memory to grow is unavailable, the oldest entries are dropped; no call throws.
// G4  Positions depend on a seed that no peer learns, so no peer can aim many items at one position. The amount of memory does
//     not depend on the seed.
class Ghosts {
  public:
    explicit Ghosts(uint64_t seed = 0) : seed_(seed) {}

    // touches: at least 1. limit: at least 1, and may change; entries above it are dropped, oldest first.
    void add(uint64_t hash, uint32_t touches, size_t limit) noexcept;
    // Removes the entry and returns its touch count; 0: unknown.
    uint32_t take(uint64_t hash) noexcept;
    size_t added() const { return size_; }  // entries in the ring, taken ones included

  private:
    struct Ghost {
        uint32_t tag = 0;
        uint32_t touches = 0;  // 0: taken
    };
    // Part of the key's hash; its top bits chose the partition.
    static uint32_t tag_of(uint64_t hash) { return uint32_t(hash); }
    size_t home(uint32_t tag) const { return hash_bytes(&tag, sizeof tag, seed_) >> shift_; }
    size_t find(uint32_t tag) const;
    void erase(size_t slot);
    void drop_oldest();
    bool grow() noexcept;

    std::vector<Ghost> ring_;  // size: a power of two
    size_t first_ = 0, size_ = 0;
    std::vector<uint32_t> slots_;  // twice the ring: 1 + position in the ring, by linear probing; 0: empty
    uint32_t shift_ = 0;
    uint64_t seed_;
};

// RecentlyEvicted: hashes of recently evicted items, each with the queue that it left. No I/O, no clock; owned by a policy.
//
// E1  It knows an item until a bucket of three has had three later ones. On average, `limit` later evictions do that.
// E2  An item is identified by its bucket and nine bits, both from the key's hash. A new item in 170 passes for one of these. That
//     only gives it a wrong position in a list, and so does a peer that aims keys at one bucket. Each call takes a few operations
//     on one word.
// E3  4 bytes for three items of the limit. If the limit outgrows the table by an eighth, or falls below a quarter of it, an empty
//     one of that size replaces it. No call copies or clears a table: the kernel makes zero pages as they are used.
// E4  Without memory for another table it keeps the old one, and tries again after `pause` evictions; no call throws.
class RecentlyEvicted {
  public:
    enum class From : uint8_t { small, main, unknown };

    // from: not unknown. limit: at least 1, and may change.
    void add(uint64_t hash, From from, size_t limit) noexcept {
        CHECK(from != From::unknown);
        CHECK(limit > 0);
        if (limit - limit_min_ > limit_span_ && !fit(limit)) return;
        const Place place = place_of(hash, buckets_.size());
        Bucket& bucket = buckets_[place.bucket];
        if (const uint32_t oldest = entry(bucket, ways - 1); oldest != 0) counts_[oldest & 1]--;
        counts_[size_t(from)]++;
        bucket = Bucket(bucket << entry_bits | place.tag << 1 | unsigned(from)) & bucket_mask;
    }
    // Forgets the item.
    From take(uint64_t hash) noexcept {
        if (buckets_.empty()) return From::unknown;
        const Place place = place_of(hash, buckets_.size());
        Bucket& bucket = buckets_[place.bucket];
        for (uint32_t at = 0; at < ways; at++)
            if (entry(bucket, at) >> 1 == place.tag) return take(bucket, at);
        return From::unknown;
    }
    // Items of that queue in the table.
    uint64_t count(From from) const { return counts_[size_t(from)]; }

    using Bucket = uint32_t;  // entries of tag << 1 | from, the newest in the lowest bits; 0: none
    static constexpr uint32_t ways = 3, entry_bits = 10;
    static constexpr uint32_t pause = 4096;
    struct Place {
        size_t bucket;
        uint32_t tag;  // not 0
    };
    static Place place_of(uint64_t hash, size_t buckets) {
        const uint32_t tag = uint32_t(hash >> 32) & (entry_mask >> 1);
        return {size_t(uint64_t(uint32_t(hash)) * buckets >> 32), tag == 0 ? 1 : tag};
    }

  private:
    static constexpr Bucket entry_mask = (1u << entry_bits) - 1, bucket_mask = Bucket((UINT64_C(1) << ways * entry_bits) - 1);

    static uint32_t entry(Bucket bucket, uint32_t at) { return bucket >> at * entry_bits & entry_mask; }
    From take(Bucket& bucket, uint32_t at) noexcept;
    bool fit(size_t limit) noexcept;

    std::unique_ptr<Mapping> memory_;
    std::span<Bucket> buckets_;              // in it
    size_t limit_min_ = 0, limit_span_ = 0;  // the table serves limits from limit_min_ to limit_min_ + limit_span_
    uint32_t pause_ = 0;                     // evictions until the next attempt to map a table
    uint64_t counts_[2] = {};
};

// Policies that keep the items of a class in one list. The opening comment describes the functions, the owner and the threads.

// The shared part of the two policies below.
class OneList {
  public:
    static constexpr bool remembers = false;  // no history of evicted items

    void inserted(const Moment& at, uint8_t size_class, Ref ref, uint64_t) {
        lists_[size_class].push_head(at.items, ref);
    }
    void replaced(const Moment& at, uint8_t size_class, Ref ref, bool) {
        lists_[size_class].push_head(at.items, ref);
    }
    void removed(const Moment& at, uint8_t size_class, Ref ref) { lists_[size_class].unlink(at.items, ref); }
    Ref next_to_go(uint8_t size_class) const { return lists_[size_class].tail; }
    bool walk(const Moment& at, uint8_t size_class, uint32_t depth, FunctionRef<bool(Ref)> stop) {
        return lists_[size_class].walk(at.items, depth, stop);
    }
    uint64_t kept(uint8_t size_class) const { return lists_[size_class].kept; }
    uint64_t length(uint8_t size_class, uint32_t queue) const {
        return queue == 0 ? lists_[size_class].count : 0;
    }

  protected:
    std::array<ItemList, class_numbers> lists_;
};

// `clock`: a hit only marks the item; a marked item at the tail returns to the head. That is one store per hit instead of six
// for a linked-list move, and readers share no order. The hit ratio does not suffer: bench/hitratio/lru (16 MB, a million keys,
// values of 100 bytes):
//     trace               clock   lru      LRU of as many items   FIFO
//     Zipf 0.8            0.487    0.475    0.475                 0.437
//     Zipf 0.99           0.766    0.759    0.759                 0.727
//     Zipf 0.99, scans    0.700    0.683    0.684                 0.650
class ClockLru : public OneList {
  public:
    static bool stays(const Descriptor& item) { return (item.flags & item_referenced) != 0; }
    void accessed(const Moment& at, uint8_t, Ref ref, uint32_t) { at.items[ref].flags |= item_referenced; }
    Ref victim(const Moment& at, uint8_t size_class, const Candidates& candidates);
};

// `lru`, `approx_lru`, `fixed_lease`, `original`: every access known to the node moves the item to the head. A running lease
// moves an item found at the tail, too: otherwise leased items would gather there and hide the others.
class StrictLru : public OneList {
  public:
    void accessed(const Moment& at, uint8_t size_class, Ref ref, uint32_t) {
        lists_[size_class].unlink(at.items, ref);
        lists_[size_class].push_head(at.items, ref);
    }
    Ref victim(const Moment& at, uint8_t size_class, const Candidates& candidates);
};

// Policies that keep the items of a class in eight lists, by the logarithm of their touches: queue q holds items with 2^q to
// 2^(q+1) - 1 touches; the last queue has no upper bound. The opening comment describes the functions, the owner and the threads.

// The functions that need only the `queues` of a Class.
template <class Class>
class QueuePolicy {
  public:
    void removed(const Moment& at, uint8_t size_class, Ref ref) { classes_[size_class].queues.take(at.items, ref); }
    Ref victim(const Moment& at, uint8_t size_class, const Candidates& candidates) {
        return classes_[size_class].queues.victim(at.items, candidates);
    }
    Ref next_to_go(uint8_t size_class) const { return classes_[size_class].queues.lowest(); }
    bool walk(const Moment& at, uint8_t size_class, uint32_t depth, FunctionRef<bool(Ref)> stop) {
        return classes_[size_class].queues.walk(at.items, depth, stop);
    }
    uint64_t kept(uint8_t size_class) const { return classes_[size_class].queues.kept; }
    uint64_t length(uint8_t size_class, uint32_t queue) const {
        return classes_[size_class].queues.lists[queue].count;
    }

  protected:
    std::vector<Class> classes_ = std::vector<Class>(class_numbers);
};

struct PdlaClass {
    QueueSet queues;
    Ghosts ghosts;
    std::array<NodeSeconds, popularity_queues> looked{};  // D2
    NodeSeconds second = 0;  // the second that `updates` counts
    uint32_t updates = 0;
    double per_second = 0;  // before that, averaged over Pdla::smooth_s

    void count_update(NodeSeconds now);
    bool is_over(const Moment& at, const Descriptor& item) const;
};

struct PdlaPaperClass {
    QueueSet queues;
};

struct MqClass {
    QueueSet queues;
    uint32_t time = 0;  // wraps: lives are far shorter
    Ghosts ghosts;
};

// `pdla`: popularity-differentiated lease assignment, section 3.3 of the C-Hint paper.
//
// An access puts an item at the head of the queue for its touches. Each update checks the tail of every queue but the lowest.
// If its life has ended, it moves to the head of a lower queue. A life lasts `lives` times the class's number of items, counted
// in updates of the class since the last touch, as in mq; a running lease prolongs it. The paper demotes at the end of the
// lease. In a large cache that is too soon: all items reach the lowest queue long before one is a victim. Evicted items leave a
// ghost with their count, half as many ghosts as items; a returning item continues from that count.
//
// Longer lives are better where popularity is stable, shorter ones where it shifts. Demotion by three queues helps where it
// shifts, at no cost where it is stable: an item untouched for a life is not popular.
// Total hit ratios of farbench hitratio; the mean is that of its 54 points:
//     lives, queues down       mean     zipf-95:5, 20/80   shifting, 10/80
//     10, 1                    0.6549   0.8547             0.6757
//     6, 1                     0.6523   0.8542             0.6875
//     10, 3                    0.6531   0.8539             0.6949
//     9, 3, and life_s_min     0.6535   0.8534             0.6987
//
// D1  An item is always in queue min(log2(touches), 7). A demoted item keeps an eighth of its touches, and at most the maximum
//     of its new queue. So one more touch does not restore a queue that took 64 touches, and an item with a huge count leaves
//     the top queue, too.
// D2  A tail whose life had not ended is not checked again within the same second, the resolution of the node's clock.
// D3  An item whose lease runs is not demoted. At the end of its life it moves to the head of its own queue, so that it does
//     not hide other items.
// D4  Updates are counted per second; the expected rate is their mean over about half a minute. Reports arrive in bursts, every
//     ten seconds: the rate of the last second alone would end lives too soon.
// D5  No life is shorter than the time between two reports: until then, one-sided reads may be uncounted.
class Pdla : public QueuePolicy<PdlaClass> {
  public:
    static constexpr bool remembers = true;
    static constexpr uint64_t lives = 9;
    static constexpr double life_s_min = 21, smooth_s = 32, per_second_min = 1;
    static constexpr uint32_t queues_down = 3;
    static constexpr size_t items_per_ghost = 2, ghosts_min = 64;

    explicit Pdla(uint64_t private_seed) {
        for (auto& each : classes_) each.ghosts = Ghosts(private_seed);
    }

    void inserted(const Moment& at, uint8_t size_class, Ref ref, uint64_t hash);
    void replaced(const Moment& at, uint8_t size_class, Ref ref, bool);
    void accessed(const Moment& at, uint8_t size_class, Ref ref, uint32_t);
    void evicted(const Moment& at, uint8_t size_class, Ref ref, uint64_t hash);

  private:
    void put(const Moment& at, PdlaClass& of, Ref ref);
    void demote_tails(const Moment& at, PdlaClass& of);
};

// `pdla_paper`: that section exactly. A hit moves an item to the head of its queue, or of the next higher one if log2(touches)
// is above its own. Then the tail of each queue but the lowest moves to the head of the queue below. Exceptions: a lease on it
// runs, or it is the item of the hit, whose lease the hit extends. Counts do not change, and there are no ghosts.
// Victims are searched at the tail of each queue and three items behind it. An item's queue decides its term
// (node/policy/lease_terms.h).
//
// If all of these are leased, the paper does not store the new item. Here leases never refuse a set (S8): the search continues.
class PdlaPaper : public QueuePolicy<PdlaPaperClass> {
  public:
    static constexpr bool remembers = false;

    void inserted(const Moment& at, uint8_t size_class, Ref ref, uint64_t);
    void replaced(const Moment& at, uint8_t size_class, Ref ref, bool touched);
    void accessed(const Moment& at, uint8_t size_class, Ref ref, uint32_t);
    Ref victim(const Moment& at, uint8_t size_class, const Candidates& candidates);

  private:
    void hit(const Moment& at, QueueSet& queues, Ref ref);
};

// `mq`: Multi-Queue (Zhou, Philbin and Li, USENIX 2001), which must see every access.
//
// Time is accesses of the class. The best life depends on the trace: longer lives suit stable hot keys, shorter ones changing
// hot keys. Of 1, 3, 8 and 20 times the items, 8 is the best for changing and near the best for stable hot keys.
//
// An item lives in its queue for `lives` times the items of the class, counted from its last access or demotion. Each access
// checks the tail of each queue but the lowest, and demotes it by one queue when its life has ended. The item keeps its count,
// so its next access restores its queue. Evicted items leave a ghost with their count, four ghosts per item; a returning item
// continues from that count.
//
// M1  Descriptor::lease_end holds the end of an item's life in its queue: mq has no leases.
class Mq : public QueuePolicy<MqClass> {
  public:
    static constexpr bool remembers = true;
    static constexpr uint64_t lives = 8, life_min = 64;
    static constexpr size_t ghosts_per_item = 4, ghosts_min = 64;

    explicit Mq(uint64_t private_seed) {
        for (auto& each : classes_) each.ghosts = Ghosts(private_seed);
    }

    void inserted(const Moment& at, uint8_t size_class, Ref ref, uint64_t hash);
    void replaced(const Moment& at, uint8_t size_class, Ref ref, bool touched);
    void accessed(const Moment& at, uint8_t size_class, Ref ref, uint32_t);
    void evicted(const Moment& at, uint8_t size_class, Ref ref, uint64_t hash);

  private:
    void put(const Moment& at, MqClass& of, Ref ref, uint32_t queue);
    void demote_tails(const Moment& at, MqClass& of);
};

// `s3fifo`: S3-FIFO (Yang and others, SOSP 2023) whose small queue adapts as in ARC and CAR (Megiddo and Modha, FAST 2003; Bansal
// and Modha, FAST 2004), with leases by popularity as in pdla. The opening comment describes the functions, the owner and the
// threads.
//
// A new item enters the small queue; an item evicted recently enters the main queue. An access raises the item's frequency, up to
// three. At the tail of the small queue, items with a frequency move to the main queue; others are evicted. At the tail of the main
// queue, an item with a frequency returns to the head and loses one of it. As many evicted items are remembered as there are items.
//
// Differences from S3-FIFO. Plain models gave the hit ratios, without and with each of them, and of an LRU. The models had room
// for 56,000 items. There were 600,000 requests for 400,000 keys by Zipf 0.99.
//   * One access takes an item out of the small queue, in the paper two. Without 0.785, with 0.794, LRU 0.784.
//   * The small queue's share adapts; in the paper it is a tenth. If an item of the small queue returns, its share grows; if one of
//     the main queue returns, it shrinks. The change is `step` items times the ratio of remembered items, as in ARC. The paper
//     remembers no items of the main queue. With popular keys that change every 100,000 requests: without 0.679, with 0.696,
//     LRU 0.698.
//   * The newest items, a hundredth of all, are marked at the head of the small queue. An item that loses the mark loses one of its
//     frequency, because the first access often follows the set at once. That is the reason for the paper's second access. If 30 %
//     of the requests are for keys that are read twice: without 0.655, with 0.680, LRU 0.665 (with a fiftieth).
//
// F1  An item whose lease runs is in use. From the tail of the small queue it moves to the main queue; from there to the head.
// F2  Descriptor::queue is frequency << 2 | list. The newest items and the others of the small queue count as two lists, but are
//     linked as one. Newest items lose their mark in the order of their arrival.
// F3  A value that replaces one of the small queue is among the newest items again. Neither this set nor an access at once after
//     the older set counts, such as that of an `mg` with N.
class S3Fifo {
  public:
    static constexpr bool remembers = true;
    static constexpr uint64_t newest_share = 100;  // 1 / newest_share of the items are the newest
    static constexpr double share_at_first = 0.5, share_min = 0.01, share_max = 0.99;  // of the small queue, with the newest
    static constexpr double step = 4;  // ARC: 1. A short run adapts sooner, a long one the same
    static constexpr uint32_t frequency_max = 3;
    static constexpr size_t remembered_min = 64;

    static bool stays(const Descriptor& item) { return frequency(item) > (list_of(item) == in_newest ? 1 : 0); }
    void inserted(const Moment& at, uint8_t size_class, Ref ref, uint64_t hash);
    void replaced(const Moment& at, uint8_t size_class, Ref ref, bool touched);
    void accessed(const Moment& at, uint8_t size_class, Ref ref, uint32_t times);
    void removed(const Moment& at, uint8_t size_class, Ref ref);
    void evicted(const Moment& at, uint8_t size_class, Ref ref, uint64_t hash);
    Ref victim(const Moment& at, uint8_t size_class, const Candidates& candidates);
    Ref next_to_go(uint8_t size_class) const;
    bool walk(const Moment& at, uint8_t size_class, uint32_t depth, FunctionRef<bool(Ref)> stop);
    uint64_t kept(uint8_t size_class) const { return classes_[size_class].kept; }
    uint64_t length(uint8_t size_class, uint32_t queue) const;

  private:
    enum List : uint8_t { in_newest, in_small, in_main };
    static constexpr uint32_t parts = 1 << 16;
    struct Class {
        ItemList small, main;    // the newest items are at the head of `small`
        Ref last_newest = nil;   // the one nearest to the tail
        uint64_t newest = 0;
        uint64_t kept = 0;
        double share = share_at_first;  // of the items that the small queue may have
        uint64_t share_parts = uint64_t(share_at_first * parts);  // the same in parts, for a cheaper comparison
        RecentlyEvicted evicted;

        uint64_t items() const { return small.count + main.count; }
        bool main_is_next() const;  // the queue whose tail is checked
        const ItemList& next() const { return main_is_next() ? main : small; }
        void adapt(RecentlyEvicted::From returned);
    };
    static uint32_t frequency(const Descriptor& item) { return item.queue >> 2; }
    static List list_of(const Descriptor& item) { return List(item.queue & 3); }
    static void mark(Descriptor& item, List list, uint32_t frequency) { item.queue = uint8_t(frequency << 2 | list) & 15; }
    static void put_newest(const Moment& at, Class& of, Ref ref, uint32_t frequency);
    static void put_main(const Moment& at, Class& of, Ref ref, uint32_t frequency);
    static void take(const Moment& at, Class& of, Ref ref);

    std::vector<Class> classes_ = std::vector<Class>(class_numbers);
};

using Policy = std::variant<ClockLru, StrictLru, Pdla, PdlaPaper, Mq, S3Fifo>;

// private_seed: see Ghosts.
inline void choose_policy(Policy& policy, PolicyKind kind, uint64_t private_seed) {
    switch (kind) {
        case PolicyKind::clock: policy.emplace<ClockLru>(); return;
        case PolicyKind::lru:
        case PolicyKind::approx_lru:
        case PolicyKind::fixed_lease:
        case PolicyKind::original: policy.emplace<StrictLru>(); return;
        case PolicyKind::pdla: policy.emplace<Pdla>(private_seed); return;
        case PolicyKind::pdla_paper: policy.emplace<PdlaPaper>(); return;
        case PolicyKind::mq: policy.emplace<Mq>(private_seed); return;
        case PolicyKind::s3fifo: policy.emplace<S3Fifo>(); return;
    }
}

}  // namespace farcached::node
