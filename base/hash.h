// SPDX-License-Identifier: BSD-3-Clause
// The two hashes of the project, both XXH3-64 (libxxhash): the key hash that finds an item in the index,
// and the keyed check over an item's bytes. Each takes a seed drawn per incarnation, so that clients cannot
// aim collisions at one bucket. Proxies that read the node's memory get the seed; node/items/index.h (X3) bounds their attacks.
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace farcached {

uint64_t hash_bytes(const void* data, size_t size, uint64_t seed);

// As hash_bytes() of both strings, one after the other.
uint64_t hash_bytes(const void* data, size_t size, const void* more, size_t more_size, uint64_t seed);

inline uint64_t hash_key(std::string_view key, uint64_t seed) {
    return hash_bytes(key.data(), key.size(), seed);
}

}  // namespace farcached
