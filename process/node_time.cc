// SPDX-License-Identifier: BSD-3-Clause
#include "process/node_time.h"

#include <ctime>

namespace farcached::process {

namespace {

constexpr int64_t first_reading = 2;

int64_t seconds_of(clockid_t clock) {
    timespec at{};
    clock_gettime(clock, &at);
    return at.tv_sec;
}

struct Start {
    int64_t boot_seconds = seconds_of(CLOCK_BOOTTIME);
    int64_t unix_seconds = seconds_of(CLOCK_REALTIME);
};

const Start& start() {
    static const Start at;
    return at;
}

}  // namespace

NodeSeconds node_now() {
    const int64_t begun = start().boot_seconds;
    return NodeSeconds(seconds_of(CLOCK_BOOTTIME) - begun + first_reading);
}

int64_t node_zero_ns() { return (start().boot_seconds - first_reading) * 1'000'000'000; }

int64_t node_started_unix() { return start().unix_seconds - first_reading; }

}  // namespace farcached::process
