// SPDX-License-Identifier: BSD-3-Clause
// The addresses that a farnode announces where proxies find it (--discover): those of --advertise, else those that it listens at.
//
// Pure. Owner: none; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "conf/settings.h"

namespace farcached::conf {

struct Advertised {
    std::string tcp, verbs;  // "10.0.0.2:11300"; empty: none
};

// tcp:HOST:PORT[,verbs:HOST:PORT]. The error is a sentence.
Result<Advertised, std::string> parse_advertised(std::string_view text);
// "*", 0.0.0.0, ::
bool is_wildcard_host(std::string_view host);
// tcp_port, verbs_port: as bound; 0: none. Without --advertise these of the hosts in --tcp and --verbs.
Advertised advertised_of(const NodeSettings& settings, uint16_t tcp_port, uint16_t verbs_port);
// Checks --discover and what belongs to it.
Refusal check_registration(const Settings& settings);
// --discover-user and what belongs to it, of both daemons. source: of --discover.
Refusal check_discover_access(const ProxySettings& settings, std::string_view source);

}  // namespace farcached::conf
