// SPDX-License-Identifier: BSD-3-Clause
// Warnings about RDMA devices with more queue pairs than contexts in their cache: each further one slows down READs, because
// the device fetches missing contexts over PCIe. Pure.
//
// Q1  A device's cache is rarely published. The largest figure of bench/capacity/known_devices.cc counts, so that a warning
//     holds for any assumption.
// Q2  A node's device is unknown here; it counts as this host's. Devices of other vendors are unknown.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ctl/machine.h"
#include "ctl/survey.h"

namespace farcached::ctl {

struct DeviceKind {
    std::string_view type;   // as in /sys/class/infiniband/NAME/hca_type
    std::string_view name;   // of the device file
    std::string_view title;
    uint64_t contexts;
};
std::span<const DeviceKind> device_kinds();

// A sentence for this host's proxies, and for each node over RDMA.
std::vector<std::string> queue_pair_warnings(const Survey& survey, std::span<const Machine::Device> devices);

}  // namespace farcached::ctl
