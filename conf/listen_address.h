// SPDX-License-Identifier: BSD-3-Clause
// Converts -l, -p and -B to the addresses to listen on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "conf/program.h"
#include "conf/settings.h"

namespace farcached::conf {

// Parses a list of host names: "cache.example.org,cache-1".
// In lower case and without a final dot; empty if `text` is no host name.
std::string host_name_of(std::string_view text);

// In list order; empty if `list` is empty or malformed.
std::vector<std::string> host_names_of(std::string_view list);

inline bool is_host_name_list(std::string_view list) { return !host_names_of(list).empty(); }

struct ListenAddress {
    std::string host;        // empty: all interfaces
    uint16_t port = 0;       // 0: chosen by the kernel
    Protocol protocol = Protocol::any;
    std::string tag;         // as given; not used yet
};

// Empty with -s or -p 0.
Result<std::vector<ListenAddress>> listen_addresses(const ListenSettings& settings);

}  // namespace farcached::conf
