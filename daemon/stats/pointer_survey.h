// SPDX-License-Identifier: BSD-3-Clause
// PointerSurvey: the contents of the pointer table, for `stats pointers`. A million entries take too long for one turn of a
// worker, so they are counted in steps, one per turn of a requesting session.
//
// Any thread may call. Simultaneous requests share one count, and a result is valid for fresh_ns: the table is scanned once a
// second at most.
#pragma once

#include <cstdint>
#include <mutex>

#include "proxy/pointer_table.h"

namespace farcached::daemon {

class PointerSurvey {
  public:
    static constexpr uint64_t entries_per_step = 1 << 14;  // some 0.4 ms
    static constexpr uint64_t fresh_ns = 1'000'000'000;

    // One step at most. True: result() is fresh. now_ns: CLOCK_BOOTTIME. Always with the same table.
    bool step(const proxy::PointerTable& table, uint64_t now_ns);
    // The latest; all zero before the first.
    proxy::PointerTable::Occupancy result() const;

  private:
    mutable std::mutex lock_;
    proxy::PointerTable::Occupancy result_;
    proxy::PointerTable::Occupancy counted_;  // so far
    uint64_t next_ = 0;                       // entry
    uint64_t stepped_ns_ = 0;                 // 0: never; an abandoned count starts again
    uint64_t complete_ns_ = 0;                // 0: never
};

}  // namespace farcached::daemon
