// SPDX-License-Identifier: BSD-3-Clause
// Counters: one writer each, any number of readers, no lock and no locked instruction.
//
// Modules declare their counters once, in an X-macro table (name, help) that makes the struct of counters and its rows
// (base/stat_row.h); everything else iterates over the rows.
#pragma once

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

}  // namespace farcached
