// SPDX-License-Identifier: BSD-3-Clause
#include "node/policy.h"

#include "base/check.h"

namespace farcached::node {

void ItemList::push_head(Arena& arena, Ref ref) {
    Descriptor& item = arena.descriptor(ref);
    item.prev = nil;
    item.next = head;
    if (head != nil) arena.descriptor(head).prev = ref;
    head = ref;
    if (tail == nil) tail = ref;
    count++;
}

void ItemList::unlink(Arena& arena, Ref ref) {
    Descriptor& item = arena.descriptor(ref);
    if (item.prev != nil)
        arena.descriptor(item.prev).next = item.next;
    else
        head = item.next;
    if (item.next != nil)
        arena.descriptor(item.next).prev = item.prev;
    else
        tail = item.prev;
    CHECK(count > 0);
    count--;
}

namespace {

constexpr uint32_t depth_max = 64;  // how far from the tail a victim is looked for

// The one nearest to the tail that may go.
Ref last_that_may(Arena& arena, const ItemList& list, FunctionRef<bool(Ref)> may_go) {
    Ref ref = list.tail;
    for (uint32_t depth = 0; ref != nil && depth < depth_max; depth++) {
        if (may_go(ref)) return ref;
        ref = arena.descriptor(ref).prev;
    }
    return nil;
}

}  // namespace

Ref ClockLru::victim(Arena& arena, ItemList& list, const Candidates& candidates) const {
    for (uint32_t chance = 0; chance < chances_max; chance++) {
        Ref ref = list.tail;
        if (ref == nil) return nil;
        Descriptor& item = arena.descriptor(ref);
        (void)candidates.was_read(ref);  // which marks it
        if ((item.flags & item_referenced) == 0)
            if (candidates.may_go(ref)) return ref;
        if (list.count == 1) return candidates.may_go(ref) ? ref : nil;
        item.flags &= uint8_t(~item_referenced);
        list.unlink(arena, ref);
        list.push_head(arena, ref);
        list.kept++;
    }
    return last_that_may(arena, list, candidates.may_go);
}

Ref StrictLru::victim(Arena& arena, ItemList& list, const Candidates& candidates) const {
    Ref ref = list.tail;
    for (uint32_t depth = 0; ref != nil && depth < depth_max; depth++) {
        const Ref before = arena.descriptor(ref).prev;
        const bool may_go = candidates.may_go(ref);
        if (may_go && !candidates.was_read(ref)) return ref;
        if (may_go) list.kept++;  // it is at the head now
        ref = before;
    }
    return last_that_may(arena, list, candidates.may_go);
}

}  // namespace farcached::node
