// SPDX-License-Identifier: BSD-3-Clause
// Policies that keep the items of a class in eight lists, by the logarithm of how often each was touched: queue q holds
// what was touched 2^q times or more, but not 2^(q+1) times; the last one what was touched still more often.
// What their functions are for: node/policy.h.
#pragma once

#include <array>
#include <vector>

#include "node/ghosts.h"
#include "node/item_list.h"

namespace farcached::node {

// What both know of a class is a Class, with its `queues`; what goes by these alone.
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
    NodeSeconds second = 0;  // of which `updates` are
    uint32_t updates = 0;
    uint32_t per_second = 0;  // before that; 0: less than one, or not known

    void count_update(NodeSeconds now);
    bool is_over(const Moment& at, const Descriptor& item) const;
};

struct MqClass {
    QueueSet queues;
    uint32_t time = 0;  // wraps: lives are far shorter
    Ghosts ghosts;
};

// `pdla`: popularity-differentiated lease assignment, section 3.3 of the C-Hint paper.
//
// An access puts an item at the head of the queue that its touches say. After each update the tail of every queue but
// the lowest is looked at: when its time is over it goes to the head of the queue below. Its time is over when no lease on
// it runs and the class has been updated `lives` times as often as it has items since it was touched, as in mq. The end of
// the lease alone, as in the paper, comes too soon where a cache is large: all have gone down to the lowest queue long before
// one is a victim. What is evicted is remembered with its count, half as many as there are items, and goes on from there
// when it comes back.
//
// Of lives of 8, 10, 12 and 16 the longer are better where popularity is flatter, and the shorter where a tenth are sets.
// Hit ratios of farbench hitratio, zipf-90:10, 80,000 keys, lives of 8:
//     memory / data                             1/80    20/80   50/80
//     as above                                  0.556   0.825   0.915
//     nothing is remembered                     0.546   0.820   0.914
//     and it is over with the lease, if sooner  0.546   0.806   0.908
//     lru                                       0.472   0.796   0.909
//
// D1  An item is in queue min(log2(touches), 7), always: who is demoted keeps half of its touches, and not more than the
//     queue below is for. So one more touch does not bring back what took 64 to reach; and a count that has no bound goes
//     down from the top queue, too.
// D2  A tail whose time was not over is not looked at again within the same second, which is all the node's clock tells.
// D3  Whose lease runs is not demoted: when its time is over it goes to the head of its own queue, else it would hide the
//     others.
// D4  Updates are counted by the second: how many there will be in a second is how many there were in the one before.
class Pdla : public QueuePolicy<PdlaClass> {
  public:
    static constexpr bool remembers = true;
    static constexpr uint64_t lives = 10;
    static constexpr size_t items_per_ghost = 2, ghosts_min = 64;

    void inserted(const Moment& at, uint8_t size_class, Ref ref, uint64_t hash);
    void replaced(const Moment& at, uint8_t size_class, Ref ref, bool);
    void accessed(const Moment& at, uint8_t size_class, Ref ref, uint32_t);
    void evicted(const Moment& at, uint8_t size_class, Ref ref, uint64_t hash);

  private:
    void put(const Moment& at, PdlaClass& of, Ref ref);
    void demote_tails(const Moment& at, PdlaClass& of);
};

// `mq`: Multi-Queue (Zhou, Philbin and Li, USENIX 2001), which has to see every access.
//
// Time is accesses of the class. How long a life is is a matter of the trace: of 1, 3, 8 and 20 times the items, the longer
// ones are better where the hot keys stay the same and the shorter ones where they change. On the traces above, with room
// for a hundredth of the data, 8 is the best where they change, and within 0.003 of it where they stay.
//
// An item lives in its queue for `lives` times the items of the class, counted from its last access or demotion; the tail
// of each queue but the lowest is looked at after each access, and goes one down when its life is over. It keeps its count,
// by which its next access brings it back. What is evicted is remembered with its count, four times as many as there are
// items, and goes on from there when it comes back.
//
// M1  Descriptor::lease_end is when an item's life in its queue ends: there are no leases.
class Mq : public QueuePolicy<MqClass> {
  public:
    static constexpr bool remembers = true;
    static constexpr uint64_t lives = 8, life_min = 64;
    static constexpr size_t ghosts_per_item = 4, ghosts_min = 64;

    void inserted(const Moment& at, uint8_t size_class, Ref ref, uint64_t hash);
    void replaced(const Moment& at, uint8_t size_class, Ref ref, bool touched);
    void accessed(const Moment& at, uint8_t size_class, Ref ref, uint32_t);
    void evicted(const Moment& at, uint8_t size_class, Ref ref, uint64_t hash);

  private:
    void put(const Moment& at, MqClass& of, Ref ref, uint32_t queue);
    void demote_tails(const Moment& at, MqClass& of);
};

}  // namespace farcached::node
