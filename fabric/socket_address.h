// SPDX-License-Identifier: BSD-3-Clause
// SocketAddress: where a TCP peer listens, as the kernel wants it. A plain value; nothing here asks
// a name server.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace farcached::fabric {

struct SocketAddress {
    sockaddr_storage storage{};
    socklen_t size = 0;

    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
    sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
    uint16_t port() const;
    bool operator==(const SocketAddress& other) const;
};

// "127.0.0.1", "::1", "fe80::1%eth0"; nothing if it is no numeric address.
std::optional<SocketAddress> numeric_address(std::string_view host, uint16_t port);

// "127.0.0.1:11300", "[::1]:11300"; "?:0" of what is no address.
std::string to_string(const SocketAddress& address);

}  // namespace farcached::fabric
