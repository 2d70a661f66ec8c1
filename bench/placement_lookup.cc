// SPDX-License-Identifier: BSD-3-Clause
// Measures key lookup: time per lookup of proxy::Placement and of libmemcached's memcached_generate_hash() for the same
// nodes, and the spread of keys. It supports the choice of our own ring with an index by the top bits
// (proxy/placement.h).
//
//     placement_lookup
//
// One thread, 65536 keys of 16 bytes; rounds alternate between the two, and the best of each is printed.
#include <libmemcached/memcached.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/check.h"
#include "proxy/placement.h"

namespace farcached::bench {

namespace {

using proxy::Placement;
using proxy::PlacementNode;

constexpr int rounds = 9;
constexpr uint32_t keys_count = 65536;

struct Case {
    Distribution distribution;
    KeyHash hash;
    memcached_hash_t their_hash;
    uint32_t nodes;
};

constexpr Case cases[] = {
    {Distribution::ketama, KeyHash::one_at_a_time, MEMCACHED_HASH_DEFAULT, 3},
    {Distribution::ketama, KeyHash::one_at_a_time, MEMCACHED_HASH_DEFAULT, 20},
    {Distribution::ketama_weighted, KeyHash::md5, MEMCACHED_HASH_MD5, 3},
    {Distribution::ketama_weighted, KeyHash::md5, MEMCACHED_HASH_MD5, 20},
    {Distribution::ketama_weighted, KeyHash::murmur3, MEMCACHED_HASH_MURMUR3, 20},
    {Distribution::ketama_weighted, KeyHash::fnv1a_64, MEMCACHED_HASH_FNV1A_64, 20},
    {Distribution::modula, KeyHash::one_at_a_time, MEMCACHED_HASH_DEFAULT, 20},
};

std::vector<std::string> make_keys() {
    std::vector<std::string> keys;
    for (uint32_t i = 0; i < keys_count; i++) {
        char text[32];
        std::snprintf(text, sizeof text, "user:%011u", i * 7919);
        keys.emplace_back(text);
    }
    return keys;
}

template <class Lookup>
double ns_per_key(const std::vector<std::string>& keys, Lookup lookup, uint64_t& sum) {
    auto begin = std::chrono::steady_clock::now();
    for (const std::string& key : keys) sum += lookup(key);
    auto took = std::chrono::steady_clock::now() - begin;
    return std::chrono::duration<double, std::nano>(took).count() / double(keys.size());
}

void run(const Case& one, const std::vector<std::string>& keys) {
    memcached_st* client = memcached_create(nullptr);
    CHECK(client != nullptr);
    if (one.distribution == Distribution::ketama)
        memcached_behavior_set(client, MEMCACHED_BEHAVIOR_KETAMA, 1);
    if (one.distribution == Distribution::ketama_weighted) {
        memcached_behavior_set(client, MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED, 1);
    }
    memcached_behavior_set(client, MEMCACHED_BEHAVIOR_HASH, one.their_hash);
    std::vector<PlacementNode> nodes;
    for (uint32_t i = 0; i < one.nodes; i++) {
        std::string host = "10.0.0." + std::to_string(i + 1);
        nodes.push_back({host, host + ":11300", 1});
        memcached_server_add(client, host.c_str(), 11300);
    }
    auto placement = std::get<std::shared_ptr<const Placement>>(
        Placement::make(nodes, {one.distribution, one.hash, ""}));

    double ours = 1e9, theirs = 1e9;
    uint64_t our_sum = 0, their_sum = 0;
    for (int round = 0; round < rounds; round++) {
        ours = std::min(
            ours,
            ns_per_key(
                keys, [&](const std::string& key) { return placement->node_of(key, 0); }, our_sum));
        theirs =
            std::min(theirs, ns_per_key(
                                 keys,
                                 [&](const std::string& key) {
                                     return memcached_generate_hash(client, key.data(), key.size());
                                 },
                                 their_sum));
    }
    CHECK(our_sum == their_sum);
    memcached_free(client);

    std::vector<uint64_t> shares(one.nodes);
    for (const std::string& key : keys) shares[placement->node_of(key, 0)]++;
    auto [least, most] = std::minmax_element(shares.begin(), shares.end());
    double mean = double(keys.size()) / one.nodes;
    std::printf("%-16s %-14s %5u %8.0f %13.0f      %.2f to %.2f\n",
                name_of(one.distribution).data(), name_of(one.hash).data(), one.nodes, ours, theirs,
                double(*least) / mean, double(*most) / mean);
}

}  // namespace

}  // namespace farcached::bench

int main() {
    std::printf("%-16s %-14s %5s %8s %13s      %s\n", "distribution", "hash", "nodes", "ours ns",
                "libmemcached ns", "a node's keys, of the mean");
    const std::vector<std::string> keys = farcached::bench::make_keys();
    for (const farcached::bench::Case& one : farcached::bench::cases)
        farcached::bench::run(one, keys);
    return 0;
}
