// SPDX-License-Identifier: BSD-3-Clause
// Policies that keep the items of a class in eight lists, by the logarithm of their touches: queue q holds items with 2^q to
// 2^(q+1) - 1 touches; the last queue has no upper bound. node/policy.h describes the functions, the owner and the threads.
#pragma once

#include <array>
#include <vector>

#include "node/ghosts.h"
#include "node/item_list.h"

namespace farcached::node {

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
// (node/lease_terms.h).
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

}  // namespace farcached::node
