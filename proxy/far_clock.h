// SPDX-License-Identifier: BSD-3-Clause
// FarClock: what this process knows of a node's clock (base/node_clock.h), from the greeting and from what every
// frame of replies tells. Pure: host times are arguments, CLOCK_BOOTTIME in nanoseconds.
//
// A reading `c` of the node in answer to what was sent at `s` and had come at `r` says: at some moment between s and r
// the node's clock stood between c and c + 1, or, if the reading has its fraction, a microsecond behind c. Clock rates
// are taken to differ by up to clock_rate_error.
//
// N1  latest() is never behind the node's clock (S13), earliest() never ahead of it.
// N2  to_node() errs to the late side, by less than two seconds and, once readings have come in every phase of the
//     second, by less than one; never by more than 50 ms to the early side. It changes, by a second, only when a
//     reading shows that it must, so that what was told comes back the same.
// N3  Where readings have their fraction, one that knows the node's clock to 50 ms settles it: to_node() is from then on
//     the least that N2 allows, exact between processes of one host, and no other reading changes it but for what the
//     two clocks drift. As a rule the greeting is such a reading; otherwise it is late, as in N2, until one comes.
//     What the clocks drifted while there was none is not known, and does not count as early.
// N4  A reading that cannot be, had both clocks gone on all the while, says that one stood still, as that of a guest which
//     was halted: nothing that was known before counts, as if it were of a greeting.
#pragma once

#include <cstdint>

#include "base/node_clock.h"

namespace farcached::proxy {

// Two hosts' clocks run apart by no more than one part in this many (S3: 0.2 %).
constexpr int64_t clock_rate_error = 500;

class FarClock {
  public:
    // host_zero_ns: when this process's own NodeSeconds read 0; may lie before the host's start.
    explicit FarClock(int64_t host_zero_ns) : host_zero_ns_(host_zero_ns) {}

    // A new connection; nothing that was known before counts, it may be another run of the node.
    void greeted(const NodeReading& now, uint64_t sent_ns, uint64_t received_ns);
    void saw(const NodeReading& now, uint64_t sent_ns, uint64_t received_ns);

    NodeSeconds latest(uint64_t at_ns) const;
    NodeSeconds earliest(uint64_t at_ns) const;

    // Moments, not durations. 0 (never) and 1 (long ago) stay what they are; what the other clock cannot say becomes
    // the nearest that it can.
    NodeSeconds to_node(NodeSeconds host) const;
    NodeSeconds to_host(NodeSeconds node) const;

  private:
    int64_t high_ns(int64_t at_ns) const;  // of the node's clock, no less than it is
    int64_t low_ns(int64_t at_ns) const;   // no more than it is
    void settle(int64_t at_ns, bool fraction_told);

    int64_t host_zero_ns_;
    int64_t high_ns_ = 0, high_at_ns_ = 0;
    int64_t low_ns_ = 0, low_at_ns_ = 0;
    int64_t offset_s_ = 0;  // the node's clock less this process's
    bool settled_ = false;  // N3
};

}  // namespace farcached::proxy
