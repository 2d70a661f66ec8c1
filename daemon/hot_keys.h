// SPDX-License-Identifier: BSD-3-Clause
// HotKeys: a worker's sample of the keys that it is asked for, by the way on which they were answered (daemon/latency.h).
//
// Of gets and sets that were answered about one in `one_in` is looked at: the next one is drawn anew each time, so that
// no pattern of the clients falls in with it. Between samples a request costs a subtraction.
//
// Owner: one worker's thread; copy() and reset() are anybody's.
// H1  The worker waits for nobody: what is sampled while another reads or resets is not counted, but as missed.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "base/counters.h"
#include "daemon/latency.h"
#include "daemon/space_saving.h"

namespace farcached::daemon {

class HotKeys {
  public:
    static constexpr size_t shown_max = 16;

    // one_in 0: nothing is sampled.
    HotKeys(uint32_t one_in, uint64_t seed);
    HotKeys(const HotKeys&) = delete;
    HotKeys& operator=(const HotKeys&) = delete;

    // ---- the worker -----------------------------------------------------------------------------
    // Between requests: from now on about one in `one_in`. If that is another number, what was counted is forgotten.
    void change(uint32_t one_in);
    // A request was answered. True: sample() it.
    bool due() { return --left_ == 0; }
    void sample(Way way, std::string_view key);
    // The same for `n` at once, all of them local; key(i) is that of the i-th.
    template <class Key>
    void passed(uint32_t n, Key key) {
        uint32_t i = 0;
        while (left_ <= n - i) [[unlikely]] {
            i += uint32_t(left_);
            sample(Way::local, key(i - 1));
        }
        left_ -= n - i;
    }

    // ---- any thread -----------------------------------------------------------------------------
    struct Copy {
        std::array<std::unique_ptr<SpaceSaving>, size_t(Way::count)> ways;  // null: nothing was answered so
        uint64_t missed = 0;
    };
    Copy copy() const;
    void reset();

  private:
    uint32_t one_in_;
    uint64_t left_ = UINT64_MAX;  // until the next sample, which is the one that makes it 0
    uint32_t chance_;
    Cell missed_;

    mutable std::mutex lock_;
    std::array<std::unique_ptr<SpaceSaving>, size_t(Way::count)> ways_;  // under lock_
    uint64_t missed_before_ = 0;                                        // under lock_: at the last reset
};

}  // namespace farcached::daemon
