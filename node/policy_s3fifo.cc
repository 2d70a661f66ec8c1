// SPDX-License-Identifier: BSD-3-Clause
#include "node/policy_s3fifo.h"

#include <algorithm>

namespace farcached::node {

S3Fifo::List S3Fifo::Class::next() const {
    const uint64_t small = lists[in_small].count, main = lists[in_main].count;
    if (small == 0) return in_main;
    return main == 0 || small * small_share > small + main ? in_small : in_main;
}

void S3Fifo::put(const Moment& at, Class& of, Ref ref, List list, uint32_t frequency) {
    at.items[ref].queue = uint8_t(frequency << 1 | list) & 15;
    of.lists[list].push_head(at.items, ref);
}

void S3Fifo::take(const Moment& at, Class& of, Ref ref) {
    of.lists[list_of(at.items[ref])].unlink(at.items, ref);
}

void S3Fifo::inserted(const Moment& at, uint8_t size_class, Ref ref, uint64_t hash) {
    Class& of = classes_[size_class];
    put(at, of, ref, of.ghosts.take(hash) != 0 ? in_main : in_small, 0);
}

void S3Fifo::replaced(const Moment& at, uint8_t size_class, Ref ref, bool touched) {
    const Descriptor& item = at.items[ref];
    put(at, classes_[size_class], ref, list_of(item), frequency(item));
    if (touched) accessed(at, size_class, ref, 1);
}

void S3Fifo::accessed(const Moment& at, uint8_t, Ref ref, uint32_t times) {
    Descriptor& item = at.items[ref];
    const uint32_t raised = frequency(item) + std::min(times, frequency_max);
    item.queue = uint8_t(std::min(raised, frequency_max) << 1 | list_of(item)) & 15;
}

void S3Fifo::removed(const Moment& at, uint8_t size_class, Ref ref) { take(at, classes_[size_class], ref); }

void S3Fifo::evicted(const Moment& at, uint8_t size_class, Ref ref, uint64_t hash) {
    Class& of = classes_[size_class];
    if (list_of(at.items[ref]) == in_small) {
        const size_t items = of.lists[in_small].count + of.lists[in_main].count;
        of.ghosts.add(hash, 1, std::max(ghosts_min, items - items / small_share));
    }
    take(at, of, ref);
}

Ref S3Fifo::victim(const Moment& at, uint8_t size_class, const Candidates& candidates) {
    Class& of = classes_[size_class];
    for (uint32_t chance = 0; chance < chances_max; chance++) {
        const List list = of.next();
        const Ref ref = of.lists[list].tail;
        if (ref == nil) return nil;
        (void)candidates.was_read(ref);  // raises its frequency if it was read
        Descriptor& item = at.items[ref];
        const uint32_t has = frequency(item);
        const bool stays = has > (list == in_small ? 1 : 0);
        if (!stays && candidates.may_go(ref)) return ref;
        take(at, of, ref);
        put(at, of, ref, in_main, list == in_small || has == 0 ? 0 : has - 1);
        of.kept++;
    }
    const List first = of.next(), second = first == in_small ? in_main : in_small;
    const Ref ref = of.lists[first].last_that_may(at.items, candidates);
    return ref != nil ? ref : of.lists[second].last_that_may(at.items, candidates);
}

Ref S3Fifo::next_to_go(uint8_t size_class) const {
    const Class& of = classes_[size_class];
    return of.lists[of.next()].tail;
}

bool S3Fifo::walk(const Moment& at, uint8_t size_class, uint32_t depth, FunctionRef<bool(Ref)> stop) {
    const Class& of = classes_[size_class];
    const List first = of.next(), second = first == in_small ? in_main : in_small;
    const uint32_t half = std::max<uint32_t>(1, depth / 2);
    return of.lists[first].walk(at.items, half, stop) || of.lists[second].walk(at.items, half, stop);
}

}  // namespace farcached::node
