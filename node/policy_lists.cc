// SPDX-License-Identifier: BSD-3-Clause
#include "node/policy_lists.h"

namespace farcached::node {

Ref ClockLru::victim(const Moment& at, uint8_t size_class, const Candidates& candidates) {
    ItemList& list = lists_[size_class];
    for (uint32_t chance = 0; chance < chances_max; chance++) {
        Ref ref = list.tail;
        if (ref == nil) return nil;
        Descriptor& item = at.items[ref];
        (void)candidates.was_read(ref);  // marks it if it was read
        if ((item.flags & item_referenced) == 0)
            if (candidates.may_go(ref)) return ref;
        if (list.count == 1) return candidates.may_go(ref) ? ref : nil;
        item.flags &= uint8_t(~item_referenced);
        list.unlink(at.items, ref);
        list.push_head(at.items, ref);
        list.kept++;
    }
    return list.last_that_may(at.items, candidates);
}

Ref StrictLru::victim(const Moment& at, uint8_t size_class, const Candidates& candidates) {
    ItemList& list = lists_[size_class];
    for (uint32_t chance = 0; chance < chances_max && list.tail != nil; chance++) {
        const Ref ref = list.tail;
        if (!candidates.may_go(ref)) {
            list.unlink(at.items, ref);
            list.push_head(at.items, ref);
            continue;
        }
        if (!candidates.was_read(ref)) return ref;
        list.kept++;  // was_read() moved it to the head
    }
    return list.last_that_may(at.items, candidates);
}

}  // namespace farcached::node
