// SPDX-License-Identifier: BSD-3-Clause
// ItemList: items in order of arrival, linked through their descriptors; QueueSet: several such lists by rank.
// Building blocks of the policies (node/policy/policy.h).
//
// Owner: a policy. All calls under the partition's lock.
#pragma once

#include <array>
#include <cstdint>

#include "base/function_ref.h"
#include "node/memory/descriptor.h"
#include "node/policy/lease_terms.h"

namespace farcached::node {

constexpr size_t class_numbers = 64;  // above every size class number
constexpr uint32_t chances_max = 64;  // second chances for items that were read; then one goes anyway: eviction is O(1)

// The context of every policy call.
struct Moment {
    Descriptors items;
    NodeSeconds now;
};

// `may_go` has no side effects; `was_read` reports any uncounted reads to the policy as an access.
struct Candidates {
    FunctionRef<bool(Ref)> may_go, was_read;
};

// Newest at the head; least recently used at the tail.
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
    // Visits at most `depth` items from the tail on, until `stop` returns true. `stop` may remove the item it gets. True:
    // `stop` returned true.
    bool walk(Descriptors items, uint32_t depth, FunctionRef<bool(Ref)> stop) const;
    // The item nearest to the tail that may go; nil: none of the last few may.
    Ref last_that_may(Descriptors items, const Candidates& candidates) const;
};

// Lists by rank, 0 the lowest. Descriptor::queue holds the list of an item; only QueueSet writes it.
struct QueueSet {
    std::array<ItemList, popularity_queues> lists;
    uint64_t kept = 0;

    void put(Descriptors items, Ref ref, uint32_t queue) {
        items[ref].queue = uint8_t(queue) & 15;
        lists[queue].push_head(items, ref);
    }
    void take(Descriptors items, Ref ref) { lists[items[ref].queue].unlink(items, ref); }
    uint64_t count() const;
    // The least recently used item of the lowest nonempty list; nil: all lists are empty.
    Ref lowest() const;
    // Visits a share of `depth` items of each list, at least one, the lowest list first; otherwise as ItemList::walk.
    bool walk(Descriptors items, uint32_t depth, FunctionRef<bool(Ref)> stop) const;
    // Searches the tails of each list, the lowest first, for an item that may go and was not read. If all were read: the first
    // that may go. nil: none may.
    Ref victim(Descriptors items, const Candidates& candidates);
};

}  // namespace farcached::node
