// SPDX-License-Identifier: BSD-3-Clause
// Parses the source of the list of nodes, as in --discover. A value type; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace farcached::conf {

enum class DiscoverKind : uint8_t {
    dns,      // dns+NAME:PORT: the addresses of the name
    dns_srv,  // dnssrv+_SERVICE._PROTO.NAME: hosts, ports and weights
    etcd,     // etcd://HOST:PORT/PREFIX (conf/etcd_url.h): nodes that registered there
};

struct DiscoverPlace {
    DiscoverKind kind = DiscoverKind::dns;
    std::string name;    // of DNS, in lower case, without a final dot; etcd: none
    uint16_t port = 0;   // dns: of all nodes
};

constexpr std::string_view discover_without_cares =
    "--discover: this program is built without c-ares; build it with c-ares, or name each node (--node)\n";

// The error is a sentence.
Result<DiscoverPlace, std::string> parse_discover(std::string_view text);

// ADDRESS:PORT, no name: of a DNS server.
bool is_dns_server(std::string_view text);

}  // namespace farcached::conf
