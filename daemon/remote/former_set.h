// SPDX-License-Identifier: BSD-3-Clause
// FormerSet: where keys were by the list of nodes before the present one, for as long as their former owners hand items over
// (daemon/engine/former_owner.h).
//
// Owner: a NodeSet. Never changes; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "proxy/placement.h"

namespace farcached::daemon {

struct NodeSet;
struct OneNode;

struct FormerSet {
    std::shared_ptr<const proxy::Placement> placement;
    std::vector<std::shared_ptr<OneNode>> nodes;  // by its numbers
    uint64_t change = 0;                          // the same in every process that goes from the same list to the same list
    uint64_t since_ns = 0, until_ns = 0;          // boottime_ns()
};

// For `next`, which follows `last`, if there is one. nullptr: no item is handed over. Throws std::bad_alloc.
std::shared_ptr<const FormerSet> former_set(const NodeSet* last, const NodeSet& next, uint32_t warm_up_s, uint64_t now_ns);

}  // namespace farcached::daemon
