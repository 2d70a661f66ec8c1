// SPDX-License-Identifier: BSD-3-Clause
// The clock of leases and deadlines.
#pragma once

#include <cstdint>
#include <ctime>

namespace farcached {

// CLOCK_BOOTTIME: runs on while the host sleeps, and is the same for all processes of a time namespace.
inline uint64_t boottime_ns() {
    timespec at{};
    clock_gettime(CLOCK_BOOTTIME, &at);
    return uint64_t(at.tv_sec) * 1'000'000'000 + uint64_t(at.tv_nsec);
}

}  // namespace farcached
