// SPDX-License-Identifier: BSD-3-Clause
// NodeClockEstimate: an estimate of a node's clock (base/node_clock.h), and the end of its serving right, from the greeting and
// from the readings in every frame of replies and pong. Pure: host times are arguments, CLOCK_BOOTTIME in nanoseconds.
// Owner: a NodeLink, in the link's thread.
//
// A reading `c` answers a message sent at `s` and arrives at `r`: at some moment between s and r the node's clock stood
// between c and c + 1. If the reading has a fraction, the width is a microsecond instead of a second. Clock rates may
// differ by up to clock_rate_error.
//
// N1  latest() is never behind the node's clock (S13), earliest() never ahead of it.
// N2  to_node() errs late by less than two seconds, and by less than one once readings of every phase of the second
//     arrived. It errs early by at most 50 ms. It changes, by a second, only when a reading forces it, so that a time
//     sent to the node returns unchanged.
// N3  The first reading with a fraction that bounds the clock to 50 ms settles the estimate. From then on to_node() is
//     the least that N2 allows, which is exact between processes of one host. Later readings change it only as far as
//     the clocks drift. The greeting usually is such a reading; until one arrives, to_node() errs late as in N2.
//     Unobserved drift does not count as early.
// N4  A reading that two running clocks cannot produce means that one clock stopped, for example in a halted guest. The
//     estimate restarts from this reading as from a greeting.
// N5  The right of a reading counts from before the message left that it answers, less clock_rate_error (S17). Of several the
//     one that ends last counts, until the node reports that it has none.
#pragma once

#include <cstdint>

#include "base/broken.h"
#include "base/node_clock.h"

namespace farcached::proxy {

// Two hosts' clocks differ in rate by at most one part in this many (S3: 0.2 %).
constexpr int64_t clock_rate_error = 500;

class NodeClockEstimate {
  public:
    // host_zero_ns: the time at which this process's NodeSeconds read 0; may lie before the host's start.
    explicit NodeClockEstimate(int64_t host_zero_ns) : host_zero_ns_(host_zero_ns) {}

    // A new connection, possibly to another run of the node: earlier readings are discarded.
    void greeted(const NodeReading& now, uint64_t sent_ns, uint64_t received_ns);
    void saw(const NodeReading& now, uint64_t sent_ns, uint64_t received_ns);

    // May memory of the node be used that was read completely before `at_ns`? (S17)
    bool may_read(uint64_t at_ns) const { return at_ns < right_until_ns_ || broken::s17_read_without_right; }
    // The right has an end, so may_read() needs a reading of the clock.
    bool right_ends() const { return right_until_ns_ != UINT64_MAX; }

    NodeSeconds latest(uint64_t at_ns) const;
    NodeSeconds earliest(uint64_t at_ns) const;

    // Convert moments, not durations. 0 (never) and 1 (long ago) stay unchanged; moments outside the other clock's
    // range become its nearest value.
    NodeSeconds to_node(NodeSeconds host) const;
    NodeSeconds to_host(NodeSeconds node) const;

  private:
    int64_t high_ns(int64_t at_ns) const;  // upper bound of the node's clock
    int64_t low_ns(int64_t at_ns) const;   // lower bound of the node's clock
    void settle(int64_t at_ns, bool fraction_told);
    static uint64_t right_end(const NodeReading& now, uint64_t sent_ns);

    int64_t host_zero_ns_;
    int64_t high_ns_ = 0, high_at_ns_ = 0;
    int64_t low_ns_ = 0, low_at_ns_ = 0;
    int64_t offset_s_ = 0;  // the node's clock minus this process's
    bool settled_ = false;  // N3
    uint64_t right_until_ns_ = UINT64_MAX;  // N5; UINT64_MAX: it has no end
};

}  // namespace farcached::proxy
