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

// `pdla`: popularity-differentiated lease assignment, section 3.3 of the C-Hint paper.
//
// An access puts an item at the head of the queue that its touches say. After each update the tail of every queue but
// the lowest is looked at: when its time is over it goes to the head of the queue below. Its time is that of a lease of
// its queue's term, counted from its last access, and of the lease it has; so those whom nobody gave a lease, because they
// are not read one-sided or there was no room, age as those who have one.
//
// D1  An item is in queue min(log2(touches), 7), always: who is demoted keeps half of its touches, and not more than the
//     queue below is for. So one more touch does not bring back what took 64 to reach; and a count that has no bound goes
//     down from the top queue, too.
// D2  A tail whose time was not over is not looked at again within the same second, which is all the node's clock tells.
class Pdla {
  public:
    static constexpr bool remembers = false;
    static constexpr bool uses_terms = true;

    void inserted(const Moment& at, uint8_t size_class, Ref ref, uint64_t);
    void replaced(const Moment& at, uint8_t size_class, Ref ref, bool) { inserted(at, size_class, ref, 0); }
    void accessed(const Moment& at, uint8_t size_class, Ref ref, uint32_t);
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

  private:
    struct Class {
        QueueSet queues;
        std::array<NodeSeconds, popularity_queues> looked{};  // D2
    };
    void demote_tails(const Moment& at, Class& of);

    std::vector<Class> classes_ = std::vector<Class>(class_numbers);
};

// `mq`: Multi-Queue (Zhou, Philbin and Li, USENIX 2001), which has to see every access.
//
// Time is accesses of the class. An item lives in its queue for as many as `lives` times the items of the class, counted
// from its last access or demotion; the tail of each queue but the lowest is looked at after each access, and goes one
// down when its life is over. It keeps its count, by which its next access brings it back. What is evicted is remembered
// with its count, four times as many as there are items, and goes on from there when it comes back.
//
// M1  Descriptor::lease_end is when an item's life in its queue ends: there are no leases.
class Mq {
  public:
    static constexpr bool remembers = true;
    static constexpr bool uses_terms = false;
    static constexpr uint64_t lives = 8, life_min = 64;
    static constexpr size_t ghosts_per_item = 4, ghosts_min = 64;

    void inserted(const Moment& at, uint8_t size_class, Ref ref, uint64_t hash);
    void replaced(const Moment& at, uint8_t size_class, Ref ref, bool touched);
    void accessed(const Moment& at, uint8_t size_class, Ref ref, uint32_t);
    void removed(const Moment& at, uint8_t size_class, Ref ref) { classes_[size_class].queues.take(at.items, ref); }
    void evicted(const Moment& at, uint8_t size_class, Ref ref, uint64_t hash);
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

  private:
    struct Class {
        QueueSet queues;
        uint32_t time = 0;  // wraps: lives are far shorter
        Ghosts ghosts;
    };
    void put(const Moment& at, Class& of, Ref ref, uint32_t queue);
    void demote_tails(const Moment& at, Class& of);

    std::vector<Class> classes_ = std::vector<Class>(class_numbers);
};

}  // namespace farcached::node
