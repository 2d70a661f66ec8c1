// SPDX-License-Identifier: BSD-3-Clause
// The keys and values of a load: Distribution selects the next key, uniform or Zipf with any exponent; Values makes values
// that contain their identity, for verification. Both are immutable; one serves all threads.
//
// D1  rank() draws rank r (0 is the most popular) with a probability proportional to 1 / (r + 1)^theta.
// D2  key() maps ranks to keys one to one, so that popular keys are not neighbours in memory through the order of
//     storing.
//
// A verified value:
//
//  0      8          16      24
//  | key  | sequence | check | filler ... |
//
// check covers the filler, the length, key and sequence. The filler differs between sequences, so a mixture of two
// values does not pass. A value of less than 24 bytes is a hash of key and length, the same for all sequences.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace farcached::bench {

// Random numbers for load generators: seeded, one generator per thread, a few instructions per number.
// Spreads the bits of `n` (the finaliser of splitmix64).
constexpr uint64_t mix(uint64_t n) {
    n = (n ^ (n >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    n = (n ^ (n >> 27)) * UINT64_C(0x94d049bb133111eb);
    return n ^ (n >> 31);
}

class Random {
  public:
    explicit Random(uint64_t seed) : state_(mix(seed + UINT64_C(0x9e3779b97f4a7c15))) {}

    uint64_t next() { return mix(state_ += UINT64_C(0x9e3779b97f4a7c15)); }
    // 0 .. n-1. The bias is below n / 2^64.
    uint64_t below(uint64_t n) { return uint64_t((unsigned __int128)(next()) * n >> 64); }
    // (0, 1]
    double unit() { return double((next() >> 11) + 1) * 0x1p-53; }

  private:
    uint64_t state_;
};

class Distribution {
  public:
    // theta 0: uniform.
    Distribution(uint64_t keys, double theta);

    uint64_t keys() const { return keys_; }
    uint64_t rank(Random& random) const { return theta_ == 0 ? random.below(keys_) : zipf(random); }
    uint64_t key(Random& random) const { return key_of_rank(rank(random)); }
    uint64_t key_of_rank(uint64_t rank) const {
        return uint64_t((unsigned __int128)(rank)*stride_ % keys_);
    }

  private:
    uint64_t zipf(Random& random) const;
    double area(double x) const;
    double area_inverse(double y) const;

    uint64_t keys_;
    double theta_;
    uint64_t stride_;  // coprime to keys_
    double area_first_ = 0, area_last_ = 0, shortcut_ = 0;
};

// Lengths of values: uniform from bytes_min to bytes_max.
struct ValueSizes {
    uint32_t bytes_min = 0, bytes_max = 0;
    uint32_t weight = 1;  // relative to the other sizes of the load
};

// Text such as "64", "64:1024", or several with weights: "64@90,100:1024@9,65536@1".
std::string text_of(std::span<const ValueSizes> sizes);

class Values {
  public:
    static constexpr uint32_t verified_bytes_min = 24;  // below, verification proves key and length only

    // sizes: at least one, with a nonzero total weight.
    Values(std::span<const ValueSizes> sizes, bool verified);
    Values(uint32_t bytes_min, uint32_t bytes_max, bool verified);

    uint32_t bytes_max() const { return bytes_max_; }
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
