// SPDX-License-Identifier: BSD-3-Clause
// Pulse: how the loop of a thread shows that it goes round. Who watches asks and wakes the thread; the thread answers
// where it takes what wakes it, so that only a loop that came round has answered. Costs what is served nothing.
#pragma once

#include <atomic>
#include <cstdint>

namespace farcached::process {

class Pulse {
  public:
    // By the one that watches.
    void ask() { asked_.store(asked_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
    bool answered() const { return shown_.load(std::memory_order_relaxed) == asked_.load(std::memory_order_relaxed); }

    // By the thread.
    void answer() { shown_.store(asked_.load(std::memory_order_relaxed), std::memory_order_relaxed); }

  private:
    std::atomic<uint64_t> asked_{0}, shown_{0};
};

}  // namespace farcached::process
