// SPDX-License-Identifier: BSD-3-Clause
// The values that the load stores. Each contains its identity, for verification. Immutable; one serves all threads.
//
//  0      8          16      24
//  | key  | sequence | check | filler ... |
//
// check covers the filler, the length, key and sequence. The filler differs between sequences, so a mixture of two
// values does not pass.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace farcached::bench {

// Lengths of values: uniform from bytes_min to bytes_max.
struct ValueSizes {
    uint32_t bytes_min = 0, bytes_max = 0;
    uint32_t weight = 1;  // relative to the other sizes of the load
};

// Text such as "64", "64:1024", or several with weights: "64@90,100:1024@9,65536@1".
std::string text_of(std::span<const ValueSizes> sizes);

class Values {
  public:
    static constexpr uint32_t verified_bytes_min = 24;

    // sizes: at least one, with a nonzero total weight.
    Values(std::span<const ValueSizes> sizes, bool verified);
    Values(uint32_t bytes_min, uint32_t bytes_max, bool verified);

    // Length of the value with this sequence number.
    uint32_t size(uint64_t sequence) const;
    // Writes `bytes` bytes at `to`.
    void fill(char* to, uint32_t bytes, uint64_t key, uint64_t sequence) const;
    // Is this a value that fill() made for this key? Unverified values are all good, since other clients may have
    // stored them.
    bool good(std::string_view value, uint64_t key) const;

  private:
    std::vector<ValueSizes> sizes_;  // weight: the sum up to this one
    uint32_t bytes_min_, bytes_max_;
    bool verified_;
    std::vector<char> filler_;
};

}  // namespace farcached::bench
