// SPDX-License-Identifier: BSD-3-Clause
// Many hosts looked up at once, in a bounded time: what a name server that is slow or gone costs a start or a reload is
// what one host costs, not what all do together.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "daemon/host_addresses.h"

namespace farcached::daemon {

// From asking for the first until whatever has no answer is given up; the resolver's own patience is about as long.
constexpr std::chrono::milliseconds host_lookups_patience{20'000};

struct HostAsked {
    std::string host;
    uint16_t port = 0;
};

// In the order of `asked`, each with its addresses or why there are none; no answer in time is a why. Returns as soon as
// all are there. look_up is called in threads of their own, which keep what they need and are waited for by nobody; what
// it throws is a why, too. Where there can be no thread, or all are addresses already, in this one.
std::vector<HostAddresses::Found> look_up_all(std::vector<HostAsked> asked, const HostAddresses::LookUp& look_up,
                                              std::chrono::milliseconds patience = host_lookups_patience);

}  // namespace farcached::daemon
