// SPDX-License-Identifier: BSD-3-Clause
// Parses a list of host names: "cache.example.org,cache-1".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace farcached::conf {

// In lower case and without a final dot; empty if `text` is no host name.
std::string host_name_of(std::string_view text);

// In list order; empty if `list` is empty or malformed.
std::vector<std::string> host_names_of(std::string_view list);

inline bool is_host_name_list(std::string_view list) { return !host_names_of(list).empty(); }

}  // namespace farcached::conf
