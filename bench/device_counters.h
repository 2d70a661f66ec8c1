// SPDX-License-Identifier: BSD-3-Clause
// What RDMA devices count themselves, as `rdma statistic show` tells it.
#pragma once

#include <cstdint>
#include <optional>

namespace farcached::bench {

struct DeviceCounters {
    uint64_t sends = 0;    // SENDs that completed
    uint64_t packets = 0;  // that left

    DeviceCounters operator-(const DeviceCounters& earlier) const {
        return {sends - earlier.sends, packets - earlier.packets};
    }
};

// Of all devices of this host together; nothing if none of them counts this (soft-RoCE does).
std::optional<DeviceCounters> device_counters();

}  // namespace farcached::bench
