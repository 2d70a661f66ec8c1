// SPDX-License-Identifier: BSD-3-Clause
// EvictionOrder: a partition's eviction policy with what it learns from: the accesses of its items.
//
// Owner: a Partition, under its lock. It only orders the items; Room removes them.
//
// O1  Every live item of the partition is in the policy, in its size class. No other item is.
// O2  Reads by one-sided readers count when the item is looked at (see_reads()), at the latest before it is evicted.
#pragma once

#include <cstdint>

#include "base/counters.h"
#include "base/function_ref.h"
#include "node/items/stored_item.h"
#include "node/memory/arena.h"
#include "node/policy/policy.h"
#include "node/store/node.h"

namespace farcached::node {

class EvictionOrder {
  public:
    EvictionOrder() = default;
    EvictionOrder(const EvictionOrder&) = delete;
    EvictionOrder& operator=(const EvictionOrder&) = delete;
    // private_seed: see Ghosts.
    void attach(Arena& arena, PolicyKind kind, uint64_t private_seed);

    void add(Ref ref, uint64_t key_hash, NodeSeconds now);
    // `ref` replaces `before`, whose history it continues. same_item: otherwise `before` counts as touched.
    void replace(Ref ref, const Descriptor& before, bool same_item, NodeSeconds now);
    void remove(Ref ref, NodeSeconds now);
    // The same for an eviction. key_hash: of the item's key.
    void evict(Ref ref, uint64_t key_hash, NodeSeconds now);
    // A new item in the order is an earlier one, which had that history.
    struct History {
        NodeSeconds last_access;
        uint16_t access_count;
        uint8_t flags;  // DescriptorFlag
    };
    void recall(Ref ref, const History& history, NodeSeconds now);

    void access(Ref ref, NodeSeconds now, uint32_t times = 1);  // the item was read
    void bump(Ref ref, NodeSeconds now, uint32_t times = 1);    // a mutation met the item, which is not a read
    // A read of an earlier generation: it counts for the policy, but does not show in `mg` of this one.
    void access_earlier(Ref ref, NodeSeconds now, uint32_t times);
    // Records reads from the item's counter since the last call as accesses at `now`. False: none.
    bool see_reads(Ref ref, NodeSeconds now) { return arena_->read_counters() != nullptr && count_reads(ref, now); }

    // The functions of node/policy/policy.h.
    Ref next_to_go(uint8_t size_class) const;
    bool walk(uint8_t size_class, uint32_t depth, NodeSeconds now, FunctionRef<bool(Ref)> stop);
    Ref victim(uint8_t size_class, NodeSeconds now, FunctionRef<bool(Ref)> may_go);
    // Does an eviction pass over it, because of an access since it was passed over before? False if the policy has only order.
    bool stays(Ref ref) const;

    void add_stats(Stats& sum, NodeSeconds now) const;
    // Of add_stats(). Any thread, without the lock.
    uint64_t reads_counted() const { return reads_counted_.get(); }

  private:
    bool count_reads(Ref ref, NodeSeconds now);
    void touch(Ref ref, NodeSeconds now, uint32_t times);
    Moment moment(NodeSeconds now) const { return {arena_->descriptors(), now}; }

    Arena* arena_ = nullptr;
    Policy policy_;
    Counter reads_counted_;
};

}  // namespace farcached::node
