// SPDX-License-Identifier: BSD-3-Clause
// PeerAddress: where a client's connection comes from, in 24 bytes: there is one in every session.
#pragma once

#include <array>
#include <cstdint>

namespace farcached {

struct PeerAddress {
    enum class Family : uint8_t { none, ipv4, ipv6 };  // none: a Unix socket, whose clients have none

    std::array<uint8_t, 16> ip{};  // in the network's order; of IPv4 the first four
    uint32_t scope = 0;            // the interface of a link-local IPv6 address
    uint16_t port = 0;
    Family family = Family::none;
};
static_assert(sizeof(PeerAddress) == 24);

}  // namespace farcached
