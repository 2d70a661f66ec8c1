// SPDX-License-Identifier: BSD-3-Clause
// The due times of requests in an open loop: from a rate, independent of earlier requests. Pure: no clock.
//
// Owner: a Worker's thread.
// A1  Due times depend neither on the time of a call nor on the answers: a worker that falls behind has more requests
//     due.
// A2  Even arrivals of n workers, the i-th starting i / n of an interval later, equal those of one worker at the whole
//     rate.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/check.h"
#include "bench/distribution.h"

namespace farcached::bench {

enum class Arrivals : uint8_t {
    even,     // one every 1 / rate
    poisson,  // as from many independent clients
};

class Schedule {
  public:
    // rate: of all workers together, per second, above 0. worker: its number among `workers`.
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

    // The next due time, CLOCK_MONOTONIC.
    uint64_t due_ns() const { return due_ns_; }
    // Advances to the next due time.
    void advance() {
        number_ += stride_;
        if (arrivals_ == Arrivals::poisson) wait();
        place();
    }

  private:
    void wait() { after_ns_ -= std::log(random_.unit()) * interval_ns_ * double(stride_); }
    void place() {
        // Computed from the start each time, so that rounding errors do not add up.
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
