// SPDX-License-Identifier: BSD-3-Clause
// The two versions: what clients and tools are told, and what this program is.
#pragma once

#include <string_view>

namespace farcached::conf {

// Clients decide by this number what they may send.
constexpr std::string_view memcached_version = "1.6.45";

std::string_view farcached_version();  // from configure.ac

}  // namespace farcached::conf
