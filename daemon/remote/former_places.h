// SPDX-License-Identifier: BSD-3-Clause
// FormerPlaces: where keys were by earlier lists of nodes, for requests that wait until they have moved (Fences, F7).
//
// Owner: NodeSet. Once made it does not change: any thread.
// W1  It describes one list, or several that were joined. A listed node that had a key by one of them is a former node of the key.
//     Until all listed nodes have replied, each change of the list adds one FormerPlaces.
// W2  Joined lists with rings name for each key the listed nodes that had it, and no others. By other joined lists each key may
//     have been at any of their nodes.
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
    using Some = std::vector<const OneNode*>;  // of nodes_, ascending
    struct Arc {
        uint32_t last;
        const OneNode *first, *second;  // as in Was
        Some items, copies;             // the nodes that had an item there, or a copy
        bool is_like(const Arc& other) const {
            return first == other.first && second == other.second && items == other.items && copies == other.copies;
        }
    };

  public:
    // Of one key.
    struct Was {
        // Its node by each of the lists, and that of its copy. nullptr: not the same by each, or there was none.
        const OneNode *first = nullptr, *second = nullptr;
        const FormerPlaces* places;
        const Arc* arc = nullptr;  // of joined lists

        bool is_pair(const OneNode& one, const OneNode& copy) const { return first == &one && second == &copy; }
        // May the node have had the item by one of the lists? Or the copy?
        bool had_item(const OneNode& node) const;
        bool had_copy(const OneNode& node) const;
        bool had(const OneNode& node) const { return had_item(node) || had_copy(node); }
        bool may_have_copy() const { return arc != nullptr ? !arc->copies.empty() : second != nullptr; }
    };

    // By this list. Throws std::bad_alloc, as join().
    explicit FormerPlaces(const NodeSet& set);
    // By lists that this process does not know, before the first one or between two (F8).
    static FormerPlaces unknown(const NodeSet& first);
    // Of the nodes of `last` alone.
    static FormerPlaces join(const FormerPlaces& one, const FormerPlaces& other, const NodeSet& last);

    bool is_unknown() const { return unknown_; }
    Was of(std::string_view key) const;
    // Of one list each, whose keys have the same nodes?
    bool is_same(const FormerPlaces& other) const;

  private:
    static constexpr size_t arcs_max = size_t(1) << 18;  // of joined lists

    FormerPlaces() = default;
    bool is_anywhere() const { return placement_ == nullptr && arcs_ == nullptr; }
    bool has_arcs() const;
    Was at(uint32_t spot) const;
    void add_points(std::vector<uint32_t>& points) const;

    std::vector<std::shared_ptr<OneNode>> nodes_;
    std::shared_ptr<const proxy::Placement> placement_;  // of one list. Without it and arcs any node may have had any key
    bool copies_ = false;
    bool unknown_ = false;
    KeyPlace place_;                                // of the arcs
    std::shared_ptr<const std::vector<Arc>> arcs_;  // of joined lists, ascending: the whole ring; nullptr: none
};

// Of `next`, the set after `last`. moves: requests of keys that moved to `last` wait, so its own former places count, too; the
// oldest ones are joined. Throws std::bad_alloc.
std::vector<FormerPlaces> former_places(const NodeSet& last, const NodeSet& next, bool moves);

}  // namespace farcached::daemon
