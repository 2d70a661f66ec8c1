// SPDX-License-Identifier: BSD-3-Clause
// When requests are due in an open loop: by a rate, whatever becomes of those before. Pure: no clock.
//
// A1  What is due does not depend on when anybody looks, nor on what was answered: who falls behind has more that is due.
// A2  Even arrivals of n workers, the i-th of which begins i / n of an interval later, are those of one at the whole rate.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/check.h"
#include "bench/random.h"

namespace farcached::bench {

enum class Arrivals : uint8_t {
    even,     // one every 1 / rate
    poisson,  // as of many clients who know nothing of each other
};

class Schedule {
  public:
    // rate: of all workers together, per second, above 0. worker: which of `workers` this is for.
    Schedule(uint64_t start_ns, double rate, Arrivals arrivals, uint32_t worker, uint32_t workers, uint64_t seed)
        : start_ns_(start_ns),
          interval_ns_(1e9 / rate),
          arrivals_(arrivals),
          stride_(workers),
          number_(worker),
          random_(mix(seed) + worker) {
        CHECK(rate > 0);
        CHECK(worker < workers);
        if (arrivals == Arrivals::poisson) wait();
        place();
    }

    // The next, CLOCK_MONOTONIC.
    uint64_t due_ns() const { return due_ns_; }
    // To the one after it.
    void advance() {
        number_ += stride_;
        if (arrivals_ == Arrivals::poisson) wait();
        place();
    }

  private:
    void wait() { after_ns_ -= std::log(random_.unit()) * interval_ns_ * double(stride_); }
    void place() {
        // Counted from the start each time, so that nothing adds up.
        const double after = arrivals_ == Arrivals::poisson ? after_ns_ : double(number_) * interval_ns_;
        due_ns_ = start_ns_ + uint64_t(after);
    }

    uint64_t start_ns_;
    double interval_ns_;
    Arrivals arrivals_;
    uint64_t stride_, number_;
    double after_ns_ = 0;  // poisson: since the start
    Random random_;
    uint64_t due_ns_ = 0;
};

}  // namespace farcached::bench
