// SPDX-License-Identifier: BSD-3-Clause
// FaultPlan: the likelihoods of the faults of one FaultChannel. FaultDice: the generator of one kind of them.
//
// Owner: a FaultChannel, whose parts refer to its plan. One thread.
//
// D1  Each kind of faults has its own generator. So equal seeds and plans treat the nth event of a kind equally (FaultChannel, F2).
// D2  chance() draws one number, and delay() two. Likelihoods and results do not change that.
#pragma once

#include <cstdint>
#include <functional>
#include <random>

#include "base/broken.h"
#include "base/node_clock.h"

namespace farcached::fabric {

// The likelihoods of the fault points, of this channel alone.
struct FaultPlan : broken::Faults {
    std::function<void()> between = {};  // runs after the first part of a torn read is copied
    // Empty: CLOCK_BOOTTIME. With another clock, call ready() when it has moved.
    std::function<uint64_t()> now_ns = {};

    uint64_t now() const { return now_ns ? now_ns() : boottime_ns(); }
};

class FaultDice {
  public:
    // plan: outlives this.
    FaultDice(const FaultPlan& plan, uint64_t seed) : plan_(plan), numbers_(seed) {}

    bool chance(double probability) { return double(numbers_() >> 11) * 0x1p-53 < probability; }
    // Until when something is late, on the plan's clock; 0: it is not.
    uint64_t delay(double probability) {
        const bool late = chance(probability);
        const uint64_t least = uint64_t(plan_.delay_ms_min * 1e6), most = uint64_t(plan_.delay_ms * 1e6);
        const uint64_t ns = least + numbers_() % (most - least + 1);
        return late ? plan_.now() + ns : 0;
    }
    std::mt19937_64& numbers() { return numbers_; }

  private:
    const FaultPlan& plan_;
    std::mt19937_64 numbers_;
};

}  // namespace farcached::fabric
