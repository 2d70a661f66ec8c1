// SPDX-License-Identifier: BSD-3-Clause
// Heartbeat: a liveness check of a thread's event loop. The watching thread asks and wakes the loop; the loop answers where it
// handles wakeups, so that an answer proves that it runs. Serving clients costs nothing extra.
// Owner: the watched loop; ask() and answered() run in the watching thread, answer() in the loop's.
#pragma once

#include <atomic>
#include <cstdint>

namespace farcached::process {

class Heartbeat {
  public:
    // For the watching thread.
    void ask() { asked_.store(asked_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
    bool answered() const { return shown_.load(std::memory_order_relaxed) == asked_.load(std::memory_order_relaxed); }

    // For the loop's thread.
    void answer() { shown_.store(asked_.load(std::memory_order_relaxed), std::memory_order_relaxed); }

  private:
    std::atomic<uint64_t> asked_{0}, shown_{0};
};

}  // namespace farcached::process
