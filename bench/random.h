// SPDX-License-Identifier: BSD-3-Clause
// Random numbers for load generators: seeded, one generator per thread, a few instructions per number.
#pragma once

#include <cstdint>

namespace farcached::bench {

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

}  // namespace farcached::bench
