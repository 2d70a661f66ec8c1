// SPDX-License-Identifier: BSD-3-Clause
// HostAddresses: where a node's host is: looked up when the program starts, and again when it cannot be reached there.
//
// Any thread may call. A name server may take its time, and nobody who serves may wait for it:
// A1  refresh() looks up in a thread of its own, one at a time, which keeps what it needs and is waited for by nobody,
//     not by the end of the program either.
// A2  What a lookup found replaces what was known; one that fails, for want of memory even, changes nothing.
// A3  What is an address already is not looked up again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "fabric/name_lookup.h"
#include "fabric/socket_address.h"

namespace farcached::daemon {

class HostAddresses {
  public:
    using Found = std::variant<std::vector<fabric::SocketAddress>, std::string>;
    using LookUp = std::function<Found(const std::string& host, uint16_t port)>;
    static constexpr uint64_t pause_ns = 1'000'000'000;  // from one lookup to the next, at the least

    // Looks it up, and may wait for that. Else why there is no address.
    static std::variant<std::shared_ptr<HostAddresses>, std::string> make(const std::string& host, uint16_t port,
                                                                           const LookUp& look_up = fabric::look_up);
    // The same, where it was looked up already.
    static std::variant<std::shared_ptr<HostAddresses>, std::string> make(const std::string& host, uint16_t port, Found found,
                                                                          const LookUp& look_up);

    // The address to be tried in this turn: they are tried one after the other.
    fabric::SocketAddress at(size_t turn) const;
    // What is known may be out of date. now_ns: CLOCK_BOOTTIME. True: a lookup has begun.
    bool refresh(uint64_t now_ns);

  private:
    struct Shared;
    explicit HostAddresses(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

    const std::shared_ptr<Shared> shared_;
};

}  // namespace farcached::daemon
