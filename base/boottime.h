// SPDX-License-Identifier: BSD-3-Clause
// The clock of leases and deadlines.
#pragma once

#include <cstdint>

namespace farcached {

// CLOCK_BOOTTIME: goes on while the host sleeps, and is every process's of one time namespace.
uint64_t boottime_ns();

}  // namespace farcached
