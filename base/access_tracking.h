// SPDX-License-Identifier: BSD-3-Clause
// How a node learns of reads that it has no part in, and what a configuration may say of it: a node offers, a
// proxy does.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace farcached {

enum class AccessTracking : uint8_t {
    none,    // a proxy tells of them with the next requests, if any
    atomic,  // one is added to a counter of the item's by RDMA, behind the read
    report,  // a proxy tells now and then of those that matter, whether it asks anything or not
};
constexpr std::array<std::string_view, 3> access_tracking_names = {"none", "atomic", "report"};
static_assert(access_tracking_names[size_t(AccessTracking::report)] == "report");

}  // namespace farcached
