// SPDX-License-Identifier: BSD-3-Clause
// Numbers that threads share without a lock: counters (one writer each, any number of readers, no locked instruction), bounded
// sums, settings that a reload changes, and a moving mean.
//
// Modules declare their counters once, in an X-macro table (name, help) that makes the struct of counters and its rows
// (base/stat_row.h); everything else iterates over the rows.
//
// Owner: the module that counts. Threads: any may read; the comment of each class names the writers.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace farcached {

class Counter {
  public:
    // Only the owning thread (or the holder of the owning lock) calls it.
    void add(uint64_t n) {
        value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    }
    void set(uint64_t n) { value_.store(n, std::memory_order_relaxed); }
    uint64_t get() const { return value_.load(std::memory_order_relaxed); }

  private:
    std::atomic<uint64_t> value_{0};
};

// Adds `n` to a sum of several threads, unless that would exceed `most`. False: it added nothing, and no thread saw a larger sum.
inline bool add_below(std::atomic<uint64_t>& sum, uint64_t n, uint64_t most) {
    uint64_t now = sum.load(std::memory_order_relaxed);
    do {
        if (now + n > most) return false;
    } while (!sum.compare_exchange_weak(now, now + n, std::memory_order_relaxed));
    return true;
}

// Adjustable: a number or a switch that any thread may change while others read it: the last store counts. A copy takes the present
// value. Reads have no order with other memory.
template <class Value>
class Adjustable {
  public:
    Adjustable(Value value) : value_(value) {}  // NOLINT: implicit on purpose, it is a value
    Adjustable(const Adjustable& other) : value_(Value(other)) {}
    Adjustable& operator=(const Adjustable& other) { return *this = Value(other); }
    Adjustable& operator=(Value value) {
        value_.store(value, std::memory_order_relaxed);
        return *this;
    }
    operator Value() const { return value_.load(std::memory_order_relaxed); }

  private:
    std::atomic<Value> value_;
};

// A rate as a moving mean: events a second, after `events` in the last `passed_s` seconds. Those within `over_s` seconds weigh
// most. passed_s, over_s: above 0.
constexpr double moving_rate(double mean, double events, double passed_s, double over_s) {
    return mean + (events / passed_s - mean) * std::min(1.0, passed_s / over_s);
}

}  // namespace farcached
