// SPDX-License-Identifier: BSD-3-Clause
// `farbench capacity`: what a fleet reaches (bench/capacity/fleet.h), by the number of proxies, with the range that the
// assumed figures of the device leave. Its options and reports. Pure, except for the command, which reads a device file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/capacity/device_file.h"
#include "bench/capacity/fleet.h"
#include "bench/command.h"

namespace farcached::bench {

struct CapacityOptions {
    Fleet fleet;
    std::string device;  // a known one, or a path
    std::vector<RpcMode> modes;
    std::string csv_folder, json_path, print_device;
};

std::span<const OptionOf<CapacityOptions>> capacity_options();

// Reads the arguments after `capacity`. Returns an error, or an empty string.
std::string read_capacity_options(std::span<char* const> arguments, CapacityOptions& options);

// A fleet under each assumption.
struct AssessedFleet {
    Fleet fleet;
    FleetResult value, worst, best;
};
AssessedFleet assess_range(const Fleet& fleet, const DeviceFile& device);
// The fleet with other numbers of proxies: from one to twice as many.
std::vector<AssessedFleet> sweep_proxies(const Fleet& fleet, const DeviceFile& device);

struct CapacityReport {
    const CapacityOptions& options;
    const DeviceFile& device;
    AssessedFleet fleet;
    std::vector<std::string> advice;
    std::vector<AssessedFleet> sweep;  // may be empty
};
// Lines end with a newline.
std::string capacity_text(const CapacityReport& report);
std::string capacity_json(const CapacityReport& report);
// A line for each number of proxies and mode.
std::string capacity_csv(const CapacityReport& report);

}  // namespace farcached::bench
