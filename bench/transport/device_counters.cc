// SPDX-License-Identifier: BSD-3-Clause
#include "bench/transport/device_counters.h"

#include <filesystem>
#include <fstream>
#include <string>

namespace farcached::bench {

namespace {

namespace fs = std::filesystem;

bool add(const fs::path& path, uint64_t& to) {
    std::ifstream file(path);
    uint64_t n = 0;
    if (!(file >> n)) return false;
    to += n;
    return true;
}

}  // namespace

std::optional<DeviceCounters> device_counters() {
    DeviceCounters sum;
    bool any = false;
    std::error_code none;
    for (fs::directory_iterator device("/sys/class/infiniband", none), end; !none && device != end; device.increment(none)) {
        std::error_code no_port;
        for (fs::directory_iterator port(device->path() / "ports", no_port); !no_port && port != end;
             port.increment(no_port)) {
            const fs::path counters = port->path() / "hw_counters";
            const bool counts = add(counters / "rdma_sends", sum.sends) && add(counters / "sent_pkts", sum.packets);
            any = any || counts;
        }
    }
    if (!any) return {};
    return sum;
}

}  // namespace farcached::bench
