// SPDX-License-Identifier: BSD-3-Clause
// The values that the load stores. To be verified they say themselves what they are:
//
//  0      8          16      24
//  | key  | sequence | check | filler ... |
//
// check covers the filler, the length, key and sequence. The filler differs from one sequence to
// the next, so bytes of two values put together do not pass for one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace farcached::bench {

// Lengths of values: each from bytes_min to bytes_max, evenly.
struct ValueSizes {
    uint32_t bytes_min = 0, bytes_max = 0;
    uint32_t weight = 1;  // among those of one load
};

// "64", "64:1024", and several of these with weights, as in "64@90,100:1024@9,65536@1".
std::string text_of(std::span<const ValueSizes> sizes);

class Values {
  public:
    static constexpr uint32_t verified_bytes_min = 24;

    // sizes: at least one, of weights that are not all 0.
    Values(std::span<const ValueSizes> sizes, bool verified);
    Values(uint32_t bytes_min, uint32_t bytes_max, bool verified);

    // How long the value of this sequence number is.
    uint32_t size(uint64_t sequence) const;
    // Writes `bytes` bytes at `to`.
    void fill(char* to, uint32_t bytes, uint64_t key, uint64_t sequence) const;
    // Is this a value that fill() made for this key? Values that are not verified are all good:
    // others may have stored them.
    bool good(std::string_view value, uint64_t key) const;

  private:
    std::vector<ValueSizes> sizes_;  // weight: of this and all before it
    uint32_t bytes_min_, bytes_max_;
    bool verified_;
    std::vector<char> filler_;
};

}  // namespace farcached::bench
