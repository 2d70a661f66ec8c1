// SPDX-License-Identifier: BSD-3-Clause
// The methods that map a key to a node, and their names: configuration and placement share one list.
// Constants; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace farcached {

enum class Distribution : uint8_t { ketama, ketama_weighted, modula, random };
constexpr std::array<std::string_view, 4> distribution_names = {
    "ketama", "ketama_weighted", "modula", "random",
};

// The functions of libhashkit by its names; its HASH_DEFAULT is one_at_a_time. `automatic` is libmemcached's default: md5
// for ketama_weighted, one_at_a_time for the others.
enum class KeyHash : uint8_t {
    automatic, one_at_a_time, md5, crc, fnv1_64, fnv1a_64,
    fnv1_32, fnv1a_32, hsieh, murmur, jenkins, murmur3,
};
constexpr std::array<std::string_view, 12> key_hash_names = {
    "auto",     "one_at_a_time", "md5",   "crc",    "fnv1_64", "fnv1a_64",
    "fnv1_32",  "fnv1a_32",      "hsieh", "murmur", "jenkins", "murmur3",
};

constexpr std::string_view name_of(Distribution value) { return distribution_names[size_t(value)]; }
constexpr std::string_view name_of(KeyHash value) { return key_hash_names[size_t(value)]; }
static_assert(name_of(Distribution::random) == "random");
static_assert(name_of(KeyHash::murmur3) == "murmur3");

}  // namespace farcached
