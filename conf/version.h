// SPDX-License-Identifier: BSD-3-Clause
// The two versions: memcached's, reported to clients and tools, and this program's.
#pragma once

#include <string_view>

namespace farcached::conf {

// Clients choose the commands they send by this number.
constexpr std::string_view memcached_version = "1.6.45";

std::string_view farcached_version();  // from configure.ac

}  // namespace farcached::conf
