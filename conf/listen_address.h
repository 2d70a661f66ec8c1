// SPDX-License-Identifier: BSD-3-Clause
// Converts -l, -p and -B to the addresses to listen on.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "conf/exit_status.h"
#include "conf/settings.h"

namespace farcached::conf {

struct ListenAddress {
    std::string host;        // empty: all interfaces
    uint16_t port = 0;       // 0: chosen by the kernel
    Protocol protocol = Protocol::any;
    std::string tag;         // as given; not used yet
};

// Empty with -s or -p 0.
std::variant<std::vector<ListenAddress>, Problem> listen_addresses(const ListenSettings& settings);

}  // namespace farcached::conf
