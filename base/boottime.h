// SPDX-License-Identifier: BSD-3-Clause
// The clock of leases and deadlines.
#pragma once

#include <cstdint>

namespace farcached {

// CLOCK_BOOTTIME: runs on while the host sleeps, and is the same for all processes of a time namespace.
uint64_t boottime_ns();

}  // namespace farcached
