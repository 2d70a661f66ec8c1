// SPDX-License-Identifier: BSD-3-Clause
// A list of CPUs as taskset(1) takes it: "0-3,8".
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace farcached::conf {

constexpr uint32_t cpu_number_max = 1023;  // what a cpu_set_t holds

// In their order, each as often as it is named; empty if the list is, or is none.
std::vector<uint32_t> cpus_of(std::string_view list);

inline bool is_cpu_list(std::string_view list) { return !cpus_of(list).empty(); }

}  // namespace farcached::conf
