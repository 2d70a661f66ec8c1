// SPDX-License-Identifier: BSD-3-Clause
// The node's clock as the daemons read it (base/node_clock.h says what it means).
#pragma once

#include <cstdint>

#include "base/node_clock.h"

namespace farcached::process {

// Reads 2 in the second the process started. Any thread.
NodeSeconds node_now();
// The same, and CLOCK_BOOTTIME in nanoseconds (base/boottime.h), by one reading.
struct Moment {
    NodeSeconds seconds = 0;
    uint64_t ns = 0;
};
Moment node_moment();
// The same with its fraction.
NodeReading node_reading();
// The Unix time at which the node's clock read 0.
int64_t node_started_unix();
// What CLOCK_BOOTTIME was then, in nanoseconds; perhaps before the host's start.
int64_t node_zero_ns();

}  // namespace farcached::process
