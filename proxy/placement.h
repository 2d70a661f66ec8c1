// SPDX-License-Identifier: BSD-3-Clause
// Placement: maps a key to its node. For the same list of nodes it agrees with libmemcached, so that keys stay where
// its clients put them.
//
// Owner: the holders of the shared_ptr; all workers share one. A new list of nodes is a new Placement.
// P1  A Placement never changes after make(): any thread may call it at any time, without a lock.
// P2  Nodes are numbered in the order of the list.
// P3  Every node of a ring has a point there, so a walk reaches all nodes.
//
//      ketama           100 points a node, each the key's hash of "host:port-n". If a node's weight is over 1,
//                       the ring is that of ketama_weighted with the same key hash, as in libmemcached
//                       if the distribution is set before the servers
//      ketama_weighted  160 points a node on average by weight, always by md5; four to a digest.
//                       The same as nutcracker's `ketama` with its `hash`, which is fnv1a_64 by default. Rounding
//                       changes the points of all nodes with their number: a join moves some keys between others
//      modula           hash % nodes; weights and hash_as have no effect
//      random           any node; a stored key is found again only if all nodes hold the same
//
// The ring is our own code, for three reasons. libmemcached's memcached_generate_hash() takes twice the time
// (bench/placement_lookup) and seeds the process's random(). It cannot return the next node on the ring, which
// fail-over needs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/key_place.h"
#include "base/placement_words.h"
#include "protocol/owned_keys.h"

namespace farcached::proxy {

struct PlacementNode {
    std::string name;
    // Hashed instead of the name: "host:port" as in a libmemcached or nutcracker client. Brackets around the host and
    // port 11211 are left out, as in both. A Unix socket of libmemcached is "path:0".
    std::string hash_as;
    uint32_t weight = 1;        // 1 to limits::node_weight_max
};

struct PlacementOptions {
    Distribution distribution = Distribution::ketama;
    KeyHash hash = KeyHash::automatic;
    // Two characters, such as "{}". If a key has both, only the part between the first opening one and the next closing
    // one is hashed, unless that part is empty. Empty: whole keys are hashed.
    std::string hash_tag;
};

// The nodes of a key's item and of its copy: the first two of the walk.
struct NodePair {
    uint32_t first, second;
    bool operator==(const NodePair&) const = default;
};

class Placement {
  public:
    using Errors = std::vector<std::string>;  // sentences, at least one
    using Result = std::variant<std::shared_ptr<const Placement>, Errors>;

    // On failure, returns all errors of the list together.
    static Result make(std::span<const PlacementNode> nodes, const PlacementOptions& options);

    Placement(const Placement&) = delete;
    Placement& operator=(const Placement&) = delete;

    uint32_t size() const { return nodes_; }

    // A key's place, the input of node_at and walk. The caller draws a new `chance` per request: it is the place under
    // `random`, and unused otherwise.
    uint32_t spot_of(std::string_view key, uint32_t chance) const;
    uint32_t node_at(uint32_t spot) const;
    // The i-th distinct node from that place, i below size(); the 0th is node_at(spot). Under ketama, removing a node
    // from the list moves its keys to their 1st, and so on.
    uint32_t walk(uint32_t spot, uint32_t i) const;

    uint32_t node_of(std::string_view key, uint32_t chance) const {
        return node_at(spot_of(key, chance));
    }

    // Only with a ring of at least two nodes.
    NodePair pair_of(std::string_view key) const { return pair_at(place_.of(key)); }
    NodePair pair_at(uint32_t spot) const { return {node_at(spot), walk(spot, 1)}; }
    // The ring's points, ascending: the keys up to one have the same walk. Empty: there is no ring.
    std::vector<uint32_t> points() const;
    const KeyPlace& place() const { return place_; }

    // Of each node, the keys whose place leads to it. Empty: under `random` that is any key.
    std::vector<protocol::OwnedKeys> owned() const;
    // Has each request any node, instead of each key one?
    bool is_by_chance() const { return by_chance_ && nodes_ > 1; }

    // ---- to explain where a key goes ----------------------------------------------------------------------
    const PlacementOptions& options() const { return options_; }
    // The hashed part of the key: all of it, or the inside of a hash tag.
    std::string_view hashed_part(std::string_view key) const { return place_.hashed_part(key); }
    // The ring's point that a spot maps to: at the spot or the next after it. None without a ring or with one node
    // only.
    std::optional<uint32_t> point_of(uint32_t spot) const;

  private:
    Placement() = default;
    struct Point {
        uint32_t value;
        uint32_t node;
        auto operator<=>(const Point&) const = default;
    };
    struct Draft;

    bool has_ring() const { return !ring_.empty(); }
    void index_ring();
    size_t first_point(uint32_t spot) const;

    PlacementOptions options_;
    uint32_t nodes_ = 0;
    bool by_chance_ = false;
    KeyPlace place_;
    std::vector<Point> ring_;             // sorted; empty under modula and random
    std::vector<uint32_t> starts_;        // into ring_, by the top bits of a spot; plus the end
    int part_shift_ = 0;                  // number of the bits below those
};

// Visits the whole ring of these points, or of none, as visit(first, last): all keys there have the same walk, by each of the rings
// whose points these are.
template <class Visit>
void each_arc(std::vector<uint32_t> points, Visit&& visit) {
    points.push_back(UINT32_MAX);
    std::ranges::sort(points);
    points.erase(std::unique(points.begin(), points.end()), points.end());
    uint32_t first = 0;
    for (const uint32_t last : points) {
        visit(first, last);
        first = last + 1;
    }
}

}  // namespace farcached::proxy
