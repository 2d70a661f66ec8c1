// SPDX-License-Identifier: BSD-3-Clause
// The daemons' readings of the node's clock (defined in base/node_clock.h).
// Owner: none; any thread.
#pragma once

#include <cstdint>

#include "base/node_clock.h"

namespace farcached::process {

// 2 in the second when the process started.
NodeSeconds node_now();
// node_now() and CLOCK_BOOTTIME in nanoseconds (base/node_clock.h), from one reading.
struct Moment {
    NodeSeconds seconds = 0;
    uint64_t ns = 0;
};
Moment node_moment();
// node_now() with its fraction.
NodeReading node_reading();
// The Unix time at which the node's clock read 0.
int64_t node_started_unix();
// CLOCK_BOOTTIME at that time, in nanoseconds; possibly before the host's start.
int64_t node_zero_ns();

}  // namespace farcached::process
