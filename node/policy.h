// SPDX-License-Identifier: BSD-3-Clause
// Eviction policies: which item of a (partition, size class) goes next. A policy decides, the partition acts.
// All calls under the partition's lock. Each policy has the same four functions; the choice is a variant.
// victim: the next to go of those that may; nil when none of the last few may. It asks of each that it looks at whether
// it was read unseen since it was asked last: if so, that has been an access, and it gets another chance.
#pragma once

#include <variant>

#include "base/function_ref.h"

#include "node/arena.h"

namespace farcached::node {

// Items of one class in one partition, newest at the head.
struct ItemList {
    Ref head = nil, tail = nil;
    uint64_t count = 0;
    uint64_t kept = 0;  // second chances given

    void push_head(Arena& arena, Ref ref);
    void unlink(Arena& arena, Ref ref);
};

// `may_go` changes nothing; `was_read` tells the policy of an access, if there was one.
struct Candidates {
    FunctionRef<bool(Ref)> may_go, was_read;
};

// `lru`, clock-like: a hit only marks the item; an item found marked at the tail goes round once more. One
// store per hit instead of the six of a linked-list move, and no order to keep among readers. Nor does it find
// less: hit ratios by bench/hitratio_lru (16 MB, a million keys, values of 100 bytes):
//     trace               clock   strict   LRU of as many items   FIFO
//     Zipf 0.8            0.487    0.475    0.475                 0.437
//     Zipf 0.99           0.766    0.759    0.759                 0.727
//     Zipf 0.99, scans    0.700    0.683    0.684                 0.650
struct ClockLru {
    static constexpr uint32_t chances_max = 64;  // then the tail goes whatever its mark: O(1)

    void inserted(Arena& arena, ItemList& list, Ref ref) const { list.push_head(arena, ref); }
    void accessed(Arena& arena, ItemList&, Ref ref) const {
        arena.descriptor(ref).flags |= item_referenced;
    }
    void removed(Arena& arena, ItemList& list, Ref ref) const { list.unlink(arena, ref); }
    Ref victim(Arena& arena, ItemList& list, const Candidates& candidates) const;
};

// `strict_lru`: every hit moves the item to the head.
struct StrictLru {
    void inserted(Arena& arena, ItemList& list, Ref ref) const { list.push_head(arena, ref); }
    void accessed(Arena& arena, ItemList& list, Ref ref) const {
        list.unlink(arena, ref);
        list.push_head(arena, ref);
    }
    void removed(Arena& arena, ItemList& list, Ref ref) const { list.unlink(arena, ref); }
    Ref victim(Arena& arena, ItemList& list, const Candidates& candidates) const;
};

using Policy = std::variant<ClockLru, StrictLru>;

}  // namespace farcached::node
