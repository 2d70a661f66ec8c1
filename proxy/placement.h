// SPDX-License-Identifier: BSD-3-Clause
// Placement: which node a key belongs to. For the same list of nodes it says what libmemcached
// says, so that keys stay where its clients put them.
//
// Owner: whoever holds the shared_ptr; all workers share one. A new list of nodes is a new
// Placement.
// P1  Nothing changes after make(): any thread may ask at any time, without a lock.
// P2  Nodes are numbered as they were given.
// P3  Every node of a ring has a point there, so a walk meets them all.
//
//     ketama           100 points a node, each the key's hash of "host:port-n". If a node's
//                      weight is over 1, the ring is that of ketama_weighted (the key's hash
//                      stays): libmemcached, told the distribution before the servers, does so too
//     ketama_weighted  160 points a node on average by weight, always by md5; four to a digest.
//                      The same as nutcracker's `ketama` by its `hash`, which is fnv1a_64 unless set
//     modula           hash % nodes; weights and hash_as mean nothing
//     random           any node; what was set is not found again unless all nodes hold the same
//
// Settled by measurement: the ring is our own. libmemcached's memcached_generate_hash() reads only,
// so threads could share it, but it cannot say what comes next on the ring, which fail-over needs,
// and seeds the process's random(). ns per lookup of ours and of memcached_generate_hash(), one
// thread, 65536 keys of 16 bytes, 20 nodes (bench/placement_lookup): ketama 76 and 150,
// ketama_weighted 253 and 338 (237 of them md5), ketama_weighted by fnv1a_64 72 and 151, modula 49
// and 76.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/placement_words.h"

namespace farcached::proxy {

struct PlacementNode {
    std::string name;
    // What is hashed instead of the name: "host:port" as a client of libmemcached or nutcracker has
    // it. Brackets around the host go, and so does port 11211, as in both. A Unix socket of
    // libmemcached is "path:0".
    std::string hash_as;
    uint32_t weight = 1;        // 1 to limits::node_weight_max
};

struct PlacementOptions {
    Distribution distribution = Distribution::ketama;
    KeyHash hash = KeyHash::automatic;
    // Two characters, say "{}": of a key that has both, only what is between the first opening one
    // and the next closing one is hashed, unless that is empty. Empty: keys are hashed whole.
    std::string hash_tag;
};

class Placement {
  public:
    using Errors = std::vector<std::string>;  // sentences, never none
    using Result = std::variant<std::shared_ptr<const Placement>, Errors>;

    // All that is wrong with the list is told together.
    static Result make(std::span<const PlacementNode> nodes, const PlacementOptions& options);

    Placement(const Placement&) = delete;
    Placement& operator=(const Placement&) = delete;

    uint32_t size() const { return nodes_; }

    // A key's place, from which node_at and walk go on. `chance` is drawn anew by the caller for
    // each request: it is the place under `random`, and not looked at otherwise.
    uint32_t spot_of(std::string_view key, uint32_t chance) const;
    uint32_t node_at(uint32_t spot) const;
    // The i-th different node from there, i below size(); the 0th is node_at(spot). Under ketama a
    // key whose node is taken out of the list goes to the 1st, and so on.
    uint32_t walk(uint32_t spot, uint32_t i) const;

    uint32_t node_of(std::string_view key, uint32_t chance) const {
        return node_at(spot_of(key, chance));
    }

    // ---- for who explains where a key goes ---------------------------------------------------------
    const PlacementOptions& options() const { return options_; }
    // What of the key is hashed: all of it, or what a hash tag encloses.
    std::string_view hashed_part(std::string_view key) const;
    // The point of the ring that a spot belongs to: where its node has one, at the spot or next
    // after it. None if there is no ring, or one node only.
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
    char tag_open_ = 0, tag_close_ = 0;   // both 0: no tag
    uint32_t hash_ = 0;                   // a hashkit_hash_algorithm_t
    std::vector<Point> ring_;             // sorted; empty under modula and random
    std::vector<uint32_t> starts_;        // into ring_, by the top bits of a spot; and its end
    int part_shift_ = 0;                  // the bits below those
};

}  // namespace farcached::proxy
