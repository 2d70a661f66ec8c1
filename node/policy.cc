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

Ref ClockLru::victim(Arena& arena, ItemList& list, Ref pinned) const {
    for (uint32_t chance = 0; chance < chances_max; chance++) {
        Ref ref = list.tail;
        if (ref == nil) return nil;
        Descriptor& item = arena.descriptor(ref);
        if ((item.flags & item_referenced) == 0)
            if (ref != pinned) return ref;
        if (list.count == 1) return ref == pinned ? nil : ref;
        item.flags &= uint8_t(~item_referenced);
        list.unlink(arena, ref);
        list.push_head(arena, ref);
        list.kept++;
    }
    return list.tail == pinned ? arena.descriptor(list.tail).prev : list.tail;
}

Ref StrictLru::victim(Arena& arena, ItemList& list, Ref pinned) const {
    if (list.tail == nil) return nil;
    return list.tail == pinned ? arena.descriptor(list.tail).prev : list.tail;
}

}  // namespace farcached::node
