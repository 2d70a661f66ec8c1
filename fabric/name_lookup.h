// SPDX-License-Identifier: BSD-3-Clause
// From the name of a host to its addresses. May ask name servers and wait for them: for what starts, not for what
// serves.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "fabric/socket_address.h"

namespace farcached::fabric {

// All addresses of the host at this port, each once and at least one, in the order in which they should be tried.
// host: a name or an address; empty: every address of this host, to listen at.
// Else why there is none, as in "Name or service not known"; errno is what the lookup left in it.
std::variant<std::vector<SocketAddress>, std::string> look_up(const std::string& host, uint16_t port);

}  // namespace farcached::fabric
