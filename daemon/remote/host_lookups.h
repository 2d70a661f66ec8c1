// SPDX-License-Identifier: BSD-3-Clause
// Parallel lookups of many hosts, in a bounded time: a slow or absent name server delays a start or reload as for one host, not
// for the sum.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "daemon/remote/host_addresses.h"

namespace farcached::daemon {

// From the first lookup to the timeout of all; about the resolver's own timeout.
constexpr std::chrono::milliseconds host_lookups_patience{20'000};

struct HostAsked {
    std::string host;
    uint16_t port = 0;
};

// In the order of `asked`, each with its addresses or the reason of the failure, a timeout included. Returns as soon as all are
// there. look_up runs in threads that own their data and are never joined; its exceptions are failures, too. Without threads,
// or if all are literal addresses, it runs in this one.
std::vector<HostAddresses::Found> look_up_all(std::vector<HostAsked> asked, const HostAddresses::LookUp& look_up,
                                              std::chrono::milliseconds patience = host_lookups_patience);

}  // namespace farcached::daemon
