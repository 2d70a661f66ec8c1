// SPDX-License-Identifier: BSD-3-Clause
// Placement's pairs: the nodes of a key's item and of its copy (replicas).
#include <memory>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "proxy/placement.h"
#include "t/lib/tap.h"

using namespace farcached;
using namespace farcached::proxy;

namespace {

using Snapshot = std::shared_ptr<const Placement>;
using Nodes = std::vector<PlacementNode>;

constexpr Distribution rings[] = {Distribution::ketama, Distribution::ketama_weighted};

Snapshot made(const Nodes& nodes, Distribution distribution) {
    return std::get<Snapshot>(Placement::make(nodes, {distribution, KeyHash::automatic, ""}));
}

Nodes some(size_t count, bool weights) {
    Nodes nodes;
    for (size_t i = 0; i < count; i++) nodes.push_back({"node-" + std::to_string(i), "", weights ? uint32_t(1 + i % 3) : 1});
    return nodes;
}

std::string key_of(int number) { return "key-" + std::to_string(number); }

void of_keys() {
    uint64_t wrong = 0;
    for (const Distribution distribution : rings)
        for (const size_t count : {2, 3, 20}) {
            const Snapshot ring = made(some(count, true), distribution);
            for (int i = 0; i < 1000; i++) {
                const NodePair pair = ring->pair_of(key_of(i));
                const uint32_t spot = ring->place().of(key_of(i));
                wrong += pair.first == pair.second || pair.first != ring->node_at(spot) || pair != ring->pair_at(spot);
            }
        }
    tap::is(wrong, 0u, "a key's first node is its home, and the second one is another");
}

void between_points() {
    std::mt19937 random(16);
    uint64_t wrong = 0;
    for (const Distribution distribution : rings)
        for (const size_t count : {2, 3, 20}) {
            const Snapshot ring = made(some(count, true), distribution);
            std::vector<uint32_t> ends = ring->points();
            for (size_t i = 1; i < ends.size(); i++) wrong += ends[i - 1] >= ends[i];
            if (ends.back() != UINT32_MAX) ends.push_back(UINT32_MAX);
            uint64_t first = 0;
            for (const uint32_t end : ends) {
                const uint32_t inside = uint32_t(first + random() % (end - first + 1));
                wrong += ring->pair_at(uint32_t(first)) != ring->pair_at(end) || ring->pair_at(inside) != ring->pair_at(end);
                first = uint64_t(end) + 1;
            }
        }
    tap::is(wrong, 0u, "points() ascend, and between two of them all keys have one pair");
    tap::ok(made(some(5, false), Distribution::modula)->points().empty(), "modula has none");
}

// By weights a node's points depend on the others.
void after_a_loss() {
    uint64_t wrong = 0;
    for (const size_t count : {3, 4, 10}) {
        const Nodes nodes = some(count, false);
        const Snapshot ring = made(nodes, Distribution::ketama);
        for (size_t lost = 0; lost < count; lost++) {
            Nodes rest = nodes;
            rest.erase(rest.begin() + int64_t(lost));
            const Snapshot without = made(rest, Distribution::ketama);
            for (int i = 0; i < 1000; i++) {
                const NodePair pair = ring->pair_of(key_of(i));
                const uint32_t heir = pair.first == lost ? pair.second : pair.first;
                wrong += rest[without->pair_of(key_of(i)).first].name != nodes[heir].name;
            }
        }
    }
    tap::is(wrong, 0u, "if the first node is lost, the second one is the first");
}

}  // namespace

int main() {
    of_keys();
    between_points();
    after_a_loss();
    return tap::done();
}
