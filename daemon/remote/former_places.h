// SPDX-License-Identifier: BSD-3-Clause
// FormerPlaces: where keys were by earlier lists of nodes, for requests that wait until they have moved (Fences, F7).
//
// Owner: NodeSet. Once made it does not change: any thread.
// W1  Of one list, or of several that were joined. A node that had a key by any of them is among the key's former nodes. As long as
//     one node of the fleet does not reply, each change of the list adds one.
// W2  Joined lists with rings name for each key the nodes that had it, and no others. Other lists do not: each key may have been at
//     any of their nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/key_place.h"
#include "proxy/placement.h"

namespace farcached::daemon {

struct NodeSet;
struct OneNode;

class FormerPlaces {
    struct Arc {
        uint32_t last;
        const OneNode *first, *second;     // as in Was
        std::vector<const OneNode*> had;   // of nodes_
        bool holds_as(const Arc& other) const { return first == other.first && second == other.second && had == other.had; }
    };

  public:
    // Of one key.
    struct Was {
        // Its node and that of its copy by each of the lists. nullptr: not the same by each, or there was none.
        const OneNode *first = nullptr, *second = nullptr;
        const FormerPlaces* places;
        const Arc* arc = nullptr;  // of joined lists

        bool is_pair(const OneNode& one, const OneNode& copy) const { return first == &one && second == &copy; }
        // May the node have had the key, or its copy, by one of the lists?
        bool had(const OneNode& node) const;
    };

    // By this list. Throws std::bad_alloc, as join().
    explicit FormerPlaces(const NodeSet& set);
    // By lists that this process does not know, before the first one (F8).
    static FormerPlaces unknown(const NodeSet& first);
    static FormerPlaces join(const FormerPlaces& one, const FormerPlaces& other);

    bool is_unknown() const { return unknown_; }
    Was of(std::string_view key) const;
    // Of one list each, whose keys have the same nodes?
    bool is_same(const FormerPlaces& other) const;

  private:
    static constexpr size_t arcs_max = size_t(1) << 18;  // of joined lists

    FormerPlaces() = default;
    bool is_anywhere() const { return placement_ == nullptr && arcs_.empty(); }
    bool has_arcs() const;
    Was at(uint32_t spot) const;
    void add_points(std::vector<uint32_t>& points) const;

    std::vector<std::shared_ptr<OneNode>> nodes_;
    std::shared_ptr<const proxy::Placement> placement_;  // of one list; nullptr: any node may have had any key, unless there are arcs
    bool copies_ = false;
    bool unknown_ = false;
    KeyPlace place_;         // of the arcs
    std::vector<Arc> arcs_;  // of joined lists, ascending: the whole ring
};

// Of the set after `last`. moves: requests of keys that moved to `last` wait, so its own former places count, too; the oldest ones
// are joined. Throws std::bad_alloc.
std::vector<FormerPlaces> former_places(const NodeSet& last, bool moves);

}  // namespace farcached::daemon
