// SPDX-License-Identifier: BSD-3-Clause
#include "node/policy_lists.h"

#include "base/check.h"

namespace farcached::node {

Ref ClockLru::victim(const Moment& at, uint8_t size_class, const Candidates& candidates) {
    ItemList& list = lists_[size_class];
    for (uint32_t chance = 0; chance < chances_max; chance++) {
        Ref ref = list.tail;
        if (ref == nil) return nil;
        Descriptor& item = at.items[ref];
        (void)candidates.was_read(ref);  // which marks it
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
        list.kept++;  // it is at the head now
    }
    return list.last_that_may(at.items, candidates);
}

void RandomPick::inserted(const Moment& at, uint8_t size_class, Ref ref, uint64_t) {
    std::vector<Ref>& members = members_[size_class];
    at.items[ref].prev = Ref(members.size());
    members.push_back(ref);
}

void RandomPick::removed(const Moment& at, uint8_t size_class, Ref ref) {
    std::vector<Ref>& members = members_[size_class];
    const uint32_t place = at.items[ref].prev;
    CHECK(place < members.size());
    CHECK(members[place] == ref);
    members[place] = members.back();
    at.items[members[place]].prev = place;
    members.pop_back();
}

Ref RandomPick::victim(const Moment&, uint8_t size_class, const Candidates& candidates) {
    if (members_[size_class].empty()) return nil;
    for (uint32_t i = 0; i < 2 * chances_max; i++) {
        const Ref ref = any_of(size_class);
        if (!candidates.may_go(ref)) continue;
        if (i >= chances_max || !candidates.was_read(ref)) return ref;
        kept_[size_class]++;
    }
    return nil;
}

bool RandomPick::walk(const Moment&, uint8_t size_class, uint32_t depth, FunctionRef<bool(Ref)> stop) {
    if (members_[size_class].empty()) return false;
    for (uint32_t i = 0; i < depth; i++)
        if (stop(any_of(size_class))) return true;
    return false;
}

}  // namespace farcached::node
