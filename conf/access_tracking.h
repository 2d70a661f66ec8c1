// SPDX-License-Identifier: BSD-3-Clause
// How a node learns of one-sided reads of its items: the words of a configuration. A node's option accepts the first three
// words, a proxy's all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace farcached {

enum class AccessTracking : uint8_t {
    none,    // a proxy sends them with its next requests, if any
    atomic,  // each read adds one to a counter of the item by RDMA
    report,  // a proxy regularly sends reports of the important ones, even without requests
    automatic,  // a proxy's: report if it reads by remote pointers, none if the memory is mapped
};
constexpr std::array<std::string_view, 4> access_tracking_names = {"none", "atomic", "report", "auto"};
static_assert(access_tracking_names[size_t(AccessTracking::automatic)] == "auto");
constexpr std::span<const std::string_view> access_tracking_names_of_nodes = std::span(access_tracking_names).first(3);

}  // namespace farcached
