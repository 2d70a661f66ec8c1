// SPDX-License-Identifier: BSD-3-Clause
#include "base/boottime.h"

#include <ctime>

namespace farcached {

uint64_t boottime_ns() {
    timespec at{};
    clock_gettime(CLOCK_BOOTTIME, &at);
    return uint64_t(at.tv_sec) * 1'000'000'000 + uint64_t(at.tv_nsec);
}

}  // namespace farcached
