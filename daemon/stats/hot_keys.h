// SPDX-License-Identifier: BSD-3-Clause
// HotKeys: a worker's sample of requested keys, by the way of their answers (daemon/stats/latency.h).
//
// About one in `one_in` of the answered gets and sets is sampled, at random intervals: no pattern of the clients coincides with
// them. Between samples a request costs a subtraction.
//
// Owner: one worker's thread; any thread may call copy() and reset().
// H1  The worker never waits: samples during a copy or reset count as missed only.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "base/counters.h"
#include "daemon/stats/latency.h"
#include "daemon/stats/space_saving.h"

namespace farcached::daemon {

class HotKeys {
  public:
    static constexpr size_t shown_max = 16;

    // one_in 0: no samples.
    HotKeys(uint32_t one_in, uint64_t seed);
    HotKeys(const HotKeys&) = delete;
    HotKeys& operator=(const HotKeys&) = delete;

    // ---- the worker -----------------------------------------------------------------------------
    // Between requests: sets the rate, about one in `one_in`. A new rate resets the counts.
    void change(uint32_t one_in);
    // After an answer. True: call sample().
    bool due() { return --left_ == 0; }
    void sample(Way way, std::string_view key);

    // ---- any thread -----------------------------------------------------------------------------
    struct Copy {
        std::array<std::unique_ptr<SpaceSaving>, size_t(Way::count)> ways;  // null: no samples
        uint64_t missed = 0;
    };
    Copy copy() const;
    void reset();

  private:
    uint32_t one_in_;
    uint64_t left_ = UINT64_MAX;  // until the next sample
    uint32_t chance_;
    Counter missed_;

    mutable std::mutex lock_;
    std::array<std::unique_ptr<SpaceSaving>, size_t(Way::count)> ways_;  // under lock_
    uint64_t missed_before_ = 0;                                        // under lock_: at the last reset
};

}  // namespace farcached::daemon
