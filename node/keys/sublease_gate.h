// SPDX-License-Identifier: BSD-3-Clause
// SubleaseGate: whether a node may grant subleases (subleases.h), and when the last one of all its keys ends.
//
// Owner: AwayItems. Threads: any.
//
// G1  A flush stops the grants first and reads the last end then; a grant raises the last end first and looks for flushes then. So
//     a flush sees the end of each sublease that a proxy learns of. All accesses of both words are sequentially consistent.
#pragma once

#include <atomic>
#include <cstdint>

namespace farcached::node {

class SubleaseGate {
  public:
    // Before a proxy learns of a sublease until then. False: it is not granted.
    bool pass(uint64_t until_ns) {
        uint64_t last_ns = last_ns_.load();
        while (last_ns < until_ns && !last_ns_.compare_exchange_weak(last_ns, until_ns)) {
        }
        if (stops_.load() != 0) return false;
        granted_.fetch_add(1, std::memory_order_relaxed);
        return true;
    }
    bool any_runs(uint64_t now_ns) const { return last_ns_.load() > now_ns; }
    // No grant until resume(); calls nest. Returns the end of the last sublease, which may have passed.
    uint64_t stop() {
        stops_.fetch_add(1);
        return last_ns_.load();
    }
    void resume() { stops_.fetch_sub(1); }
    uint64_t granted() const { return granted_.load(std::memory_order_relaxed); }

  private:
    std::atomic<uint64_t> last_ns_{0};  // CLOCK_BOOTTIME
    std::atomic<uint32_t> stops_{0};
    std::atomic<uint64_t> granted_{0};
};

}  // namespace farcached::node
