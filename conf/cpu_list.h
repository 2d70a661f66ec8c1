// SPDX-License-Identifier: BSD-3-Clause
// Parses a list of CPUs in the syntax of taskset(1): "0-3,8".
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace farcached::conf {

constexpr uint32_t cpu_number_max = 1023;  // limit of cpu_set_t

// In list order, duplicates included; empty if the list is empty or malformed.
std::vector<uint32_t> cpus_of(std::string_view list);

inline bool is_cpu_list(std::string_view list) { return !cpus_of(list).empty(); }

}  // namespace farcached::conf
