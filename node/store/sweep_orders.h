// SPDX-License-Identifier: BSD-3-Clause
// SweepOrders: the deletes by prefix of a node in their order, and up to which one every page was swept since.
//
// Owner: Node::Impl. begin() and hidden() need Node::Impl::prefix_lock; swept() is the sweeper's. pending(): any thread.
//
// W1  An order is pending once all partitions hide its items, whether the delete succeeded or not. So a sweep that begins then
//     finds all of them.
#pragma once

#include <atomic>
#include <cstdint>

namespace farcached::node {

class SweepOrders {
  public:
    // The order of the next delete, larger than any before.
    uint64_t begin() const { return last_.load(std::memory_order_relaxed) + 1; }
    void hidden(uint64_t order) { last_.store(order, std::memory_order_release); }
    // The last order, if it was not swept; 0: none is to be swept.
    uint64_t pending() const {
        const uint64_t last = last_.load(std::memory_order_acquire);
        return last == swept_.load(std::memory_order_relaxed) ? 0 : last;
    }
    // That order and earlier ones.
    void swept(uint64_t order) { swept_.store(order, std::memory_order_relaxed); }

  private:
    std::atomic<uint64_t> last_{0}, swept_{0};
};

}  // namespace farcached::node
