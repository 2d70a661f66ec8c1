// SPDX-License-Identifier: BSD-3-Clause
// Policies that keep the items of a class in one list. node/policy.h describes the functions, the owner and the threads.
#pragma once

#include <array>

#include "node/item_list.h"

namespace farcached::node {

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

}  // namespace farcached::node
