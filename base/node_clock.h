// SPDX-License-Identifier: BSD-3-Clause
// The clock of leases and deadlines, and the node's: whole seconds since just before the process started, as in memcached. Pure.
//
// I1  NodeSeconds is never 0 or 1 in a running daemon: it starts at 2. So 0 means "never expires" and 1 "expired long ago".
// I2  It never goes back: it follows CLOCK_BOOTTIME, not the wall clock.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>

namespace farcached {

// CLOCK_BOOTTIME: runs on while the host sleeps, and is the same for all processes of a time namespace.
inline uint64_t boottime_ns() {
    timespec at{};
    clock_gettime(CLOCK_BOOTTIME, &at);
    return uint64_t(at.tv_sec) * 1'000'000'000 + uint64_t(at.tv_nsec);
}

// Since 1970, by the host's clock.
inline uint64_t realtime_us() {
    timespec at{};
    clock_gettime(CLOCK_REALTIME, &at);
    return uint64_t(at.tv_sec) * 1'000'000 + uint64_t(at.tv_nsec) / 1000;
}

using NodeSeconds = uint32_t;

// A reading of the clock, and what a node sends with it.
struct NodeReading {
    NodeSeconds seconds = 0;
    std::optional<uint32_t> us = std::nullopt;  // microseconds since the clock reached `seconds`; nothing: unknown
    std::optional<uint32_t> right_ms = std::nullopt;  // rest of the node's serving right (S17); nothing: it has no end
};
constexpr uint32_t reading_us_max = 999'999;

constexpr NodeSeconds never_expires = 0;
constexpr NodeSeconds long_expired = 1;
constexpr int64_t relative_exptime_max = 60 * 60 * 24 * 30;  // protocol.txt: above it, Unix time

// Converts a client's exptime (protocol.txt "Expiration times") to the node's clock.
// exptime: seconds from now up to 30 days, Unix time above. 0 never expires, a negative one has expired.
// now: the node's clock. started_unix: the Unix time at which the node's clock read 0.
constexpr NodeSeconds to_node_seconds(int64_t exptime, NodeSeconds now, int64_t started_unix) {
    if (exptime == 0) return never_expires;
    if (exptime < 0) return long_expired;
    if (exptime <= relative_exptime_max) return now + NodeSeconds(exptime);
    if (exptime <= started_unix + int64_t(long_expired)) return long_expired;
    int64_t at = exptime - started_unix;
    return at >= INT64_C(0xffffffff) ? NodeSeconds(0xffffffff) : NodeSeconds(at);
}

// Threads read the clock once per loop iteration: one thread may note a second that another reaches later.
constexpr NodeSeconds seconds_since(NodeSeconds then, NodeSeconds now) {
    return now > then ? now - then : 0;
}

constexpr bool has_expired(NodeSeconds exptime, NodeSeconds now) {
    return exptime != never_expires && exptime <= now;
}

}  // namespace farcached
