// SPDX-License-Identifier: BSD-3-Clause
// ItemList: items in the order in which they came, through their descriptors; and QueueSet, several of them by rank.
// What policies are made of (node/policy.h). All calls under the partition's lock.
#pragma once

#include <array>
#include <cstdint>

#include "base/function_ref.h"
#include "node/descriptor.h"
#include "node/lease_terms.h"

namespace farcached::node {

constexpr size_t class_numbers = 64;  // size classes are numbered below it
constexpr uint32_t chances_max = 64;  // for items found to have been read; then one goes all the same: O(1)

// What a policy is told with every call.
struct Moment {
    Descriptors items;
    NodeSeconds now;
};

// `may_go` changes nothing; `was_read` tells the policy of an access, if there was one.
struct Candidates {
    FunctionRef<bool(Ref)> may_go, was_read;
};

// Newest at the head; the tail is the least recently used one.
struct ItemList {
    Ref head = nil, tail = nil;
    uint64_t count = 0;
    uint64_t kept = 0;  // second chances given

    void push_head(Descriptors items, Ref ref) {
        Descriptor& item = items[ref];
        item.prev = nil;
        item.next = head;
        if (head != nil) items[head].prev = ref;
        head = ref;
        if (tail == nil) tail = ref;
        count++;
    }
    void unlink(Descriptors items, Ref ref);
    // From the tail on, `depth` of them at most, until `stop` says so, which may remove the one that it is shown.
    // True: it did.
    bool walk(Descriptors items, uint32_t depth, FunctionRef<bool(Ref)> stop) const;
    // The one nearest to the tail that may go; nil: none of the last ones may.
    Ref last_that_may(Descriptors items, const Candidates& candidates) const;
};

// Lists by rank, 0 the lowest. Descriptor::queue says in which one an item is, and nobody else writes it.
struct QueueSet {
    std::array<ItemList, popularity_queues> lists;
    uint64_t kept = 0;

    void put(Descriptors items, Ref ref, uint32_t queue) {
        items[ref].queue = uint8_t(queue) & 15;
        lists[queue].push_head(items, ref);
    }
    void take(Descriptors items, Ref ref) { lists[items[ref].queue].unlink(items, ref); }
    uint64_t count() const;
    // The least recently used one of the lowest list that has one; nil: all are empty.
    Ref lowest() const;
    // Of each list, the lowest first, a share of `depth`, and one at least; else as ItemList::walk.
    bool walk(Descriptors items, uint32_t depth, FunctionRef<bool(Ref)> stop) const;
    // Of each list, the lowest first, the tail and those behind it: the first that may go and was not read. Where
    // all are found to have been read, the first that may go. nil: none may.
    Ref victim(Descriptors items, const Candidates& candidates);
};

}  // namespace farcached::node
