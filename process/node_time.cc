// SPDX-License-Identifier: BSD-3-Clause
#include "process/node_time.h"

#include <ctime>

namespace farcached::process {

namespace {

constexpr int64_t first_reading = 2;

timespec reading_of(clockid_t clock) {
    timespec at{};
    clock_gettime(clock, &at);
    return at;
}

struct Start {
    int64_t boot_seconds = reading_of(CLOCK_BOOTTIME).tv_sec;
    int64_t unix_seconds = reading_of(CLOCK_REALTIME).tv_sec;
};

const Start& start() {
    static const Start at;
    return at;
}

}  // namespace

NodeSeconds node_now() { return node_reading().seconds; }

Moment node_moment() {
    const int64_t begun = start().boot_seconds;
    const timespec at = reading_of(CLOCK_BOOTTIME);
    return {NodeSeconds(at.tv_sec - begun + first_reading),
            uint64_t(at.tv_sec) * 1'000'000'000 + uint64_t(at.tv_nsec)};
}

NodeReading node_reading() {
    const int64_t begun = start().boot_seconds;
    const timespec at = reading_of(CLOCK_BOOTTIME);
    return {NodeSeconds(at.tv_sec - begun + first_reading), uint32_t(at.tv_nsec / 1000)};
}

int64_t node_zero_ns() { return (start().boot_seconds - first_reading) * 1'000'000'000; }

int64_t node_started_unix() { return start().unix_seconds - first_reading; }

}  // namespace farcached::process
