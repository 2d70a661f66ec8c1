// SPDX-License-Identifier: BSD-3-Clause
// Resolves the name of a host to its addresses. It may wait for name servers: for startup, not while serving.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "fabric/socket_address.h"

namespace farcached::fabric {

// All addresses of the host at this port, each once and at least one, in the order to try them.
// host: a name or an address; empty: every address of this host, to listen at.
// A string: the cause, as in "Name or service not known"; errno is as the lookup left it.
std::variant<std::vector<SocketAddress>, std::string> look_up(const std::string& host, uint16_t port);

}  // namespace farcached::fabric
