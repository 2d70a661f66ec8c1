// SPDX-License-Identifier: BSD-3-Clause
// Counters of RDMA devices, as reported by `rdma statistic show`.
#pragma once

#include <cstdint>
#include <optional>

namespace farcached::bench {

struct DeviceCounters {
    uint64_t sends = 0;    // completed SENDs
    uint64_t packets = 0;  // packets sent

    DeviceCounters operator-(const DeviceCounters& earlier) const {
        return {sends - earlier.sends, packets - earlier.packets};
    }
};

// The sum over all devices of this host; none if no device has these counters (soft-RoCE has).
std::optional<DeviceCounters> device_counters();

}  // namespace farcached::bench
