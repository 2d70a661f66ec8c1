// SPDX-License-Identifier: BSD-3-Clause
// A bounded sum of what several threads use.
#pragma once

#include <atomic>
#include <cstdint>

namespace farcached {

// Adds `n` unless the sum would exceed `most`. False: it added nothing, and no thread saw a larger sum.
inline bool add_below(std::atomic<uint64_t>& sum, uint64_t n, uint64_t most) {
    uint64_t now = sum.load(std::memory_order_relaxed);
    do {
        if (now + n > most) return false;
    } while (!sum.compare_exchange_weak(now, now + n, std::memory_order_relaxed));
    return true;
}

}  // namespace farcached
