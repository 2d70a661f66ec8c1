// SPDX-License-Identifier: BSD-3-Clause
// Policies that keep the items of a class in one list. What their functions are for: node/policy.h.
#pragma once

#include <array>
#include <random>
#include <vector>

#include "node/item_list.h"

namespace farcached::node {

// What those two below have in common.
class OneList {
  public:
    static constexpr bool remembers = false;  // nothing of what was evicted

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

// `clock`: a hit only marks the item; an item found marked at the tail goes round once more. One
// store per hit instead of the six of a linked-list move, and no order to keep among readers. Nor does it find
// less: hit ratios by bench/hitratio_lru (16 MB, a million keys, values of 100 bytes):
//     trace               clock   lru      LRU of as many items   FIFO
//     Zipf 0.8            0.487    0.475    0.475                 0.437
//     Zipf 0.99           0.766    0.759    0.759                 0.727
//     Zipf 0.99, scans    0.700    0.683    0.684                 0.650
class ClockLru : public OneList {
  public:
    void accessed(const Moment& at, uint8_t, Ref ref, uint32_t) { at.items[ref].flags |= item_referenced; }
    Ref victim(const Moment& at, uint8_t size_class, const Candidates& candidates);
};

// `lru`, `approx_lru`, `fixed_lease`: every access that the node learns of moves the item to the head. So does what makes
// it stay when it is found at the tail, a lease that runs: else those leased would gather there and hide the others.
class StrictLru : public OneList {
  public:
    void accessed(const Moment& at, uint8_t size_class, Ref ref, uint32_t) {
        lists_[size_class].unlink(at.items, ref);
        lists_[size_class].push_head(at.items, ref);
    }
    Ref victim(const Moment& at, uint8_t size_class, const Candidates& candidates);
};

// `original`: any item goes, each as likely as every other. Descriptor::prev is an item's place in its class's vector.
class RandomPick {
  public:
    static constexpr bool remembers = false;

    explicit RandomPick(uint64_t seed) : random_(seed), members_(class_numbers), kept_(class_numbers) {}

    void inserted(const Moment& at, uint8_t size_class, Ref ref, uint64_t);
    void replaced(const Moment& at, uint8_t size_class, Ref ref, bool) { inserted(at, size_class, ref, 0); }
    void accessed(const Moment&, uint8_t, Ref, uint32_t) {}
    void removed(const Moment& at, uint8_t size_class, Ref ref);
    Ref victim(const Moment& at, uint8_t size_class, const Candidates& candidates);
    Ref next_to_go(uint8_t size_class) const {
        return members_[size_class].empty() ? nil : members_[size_class].front();
    }
    bool walk(const Moment& at, uint8_t size_class, uint32_t depth, FunctionRef<bool(Ref)> stop);
    uint64_t kept(uint8_t size_class) const { return kept_[size_class]; }
    uint64_t length(uint8_t size_class, uint32_t queue) const {
        return queue == 0 ? members_[size_class].size() : 0;
    }

  private:
    Ref any_of(uint8_t size_class) { return members_[size_class][random_() % members_[size_class].size()]; }

    std::minstd_rand random_;
    std::vector<std::vector<Ref>> members_;
    std::vector<uint64_t> kept_;
};

}  // namespace farcached::node
