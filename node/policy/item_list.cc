// SPDX-License-Identifier: BSD-3-Clause
#include "node/policy/item_list.h"

#include <algorithm>

#include "base/check.h"

namespace farcached::node {

namespace {

constexpr uint32_t depth_max = 64;  // maximum search depth from the tail
constexpr uint32_t behind = 3;      // r in the C-Hint paper: items checked in each queue behind its tail

}  // namespace

void ItemList::unlink(Descriptors items, Ref ref) {
    Descriptor& item = items[ref];
    if (item.prev != nil)
        items[item.prev].next = item.next;
    else
        head = item.next;
    if (item.next != nil)
        items[item.next].prev = item.prev;
    else
        tail = item.prev;
    CHECK(count > 0);
    count--;
}

bool ItemList::walk(Descriptors items, uint32_t depth, FunctionRef<bool(Ref)> stop) const {
    Ref ref = tail;
    for (uint32_t i = 0; ref != nil && i < depth; i++) {
        const Ref before = items[ref].prev;
        if (stop(ref)) return true;
        ref = before;
    }
    return false;
}

Ref ItemList::last_that_may(Descriptors items, const Candidates& candidates) const {
    Ref found = nil;
    const auto may = [&](Ref ref) {
        found = ref;
        return candidates.may_go(ref);
    };
    return walk(items, depth_max, may) ? found : nil;
}

uint64_t QueueSet::count() const {
    uint64_t sum = 0;
    for (const ItemList& list : lists) sum += list.count;
    return sum;
}

Ref QueueSet::lowest() const {
    for (const ItemList& list : lists)
        if (list.tail != nil) return list.tail;
    return nil;
}

bool QueueSet::walk(Descriptors items, uint32_t depth, FunctionRef<bool(Ref)> stop) const {
    for (const ItemList& list : lists)
        if (list.walk(items, std::max<uint32_t>(1, depth / popularity_queues), stop)) return true;
    return false;
}

Ref QueueSet::victim(Descriptors items, const Candidates& candidates) {
    uint32_t chances = chances_max;
    for (const ItemList& list : lists) {
        uint32_t stay = 0;
        for (Ref ref = list.tail; ref != nil && stay <= behind;) {
            const Ref before = items[ref].prev;
            if (!candidates.may_go(ref)) {
                stay++;
            } else {
                if (chances == 0 || !candidates.was_read(ref)) return ref;
                chances--;  // was_read() moved it elsewhere
                kept++;
            }
            ref = before;
        }
    }
    Ref found = nil;
    const auto may = [&](Ref ref) {
        found = ref;
        return candidates.may_go(ref);
    };
    return walk(items, (1 + behind) * popularity_queues, may) ? found : nil;
}

}  // namespace farcached::node
