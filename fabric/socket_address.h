// SPDX-License-Identifier: BSD-3-Clause
// SocketAddress: the address of a TCP peer, in the kernel's form. A plain value; no function here waits for a name server.
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

// "127.0.0.1", "::1", "fe80::1%eth0"; nothing: not a numeric address.
std::optional<SocketAddress> numeric_address(std::string_view host, uint16_t port);

// "127.0.0.1:11300", "[::1]:11300"; "?:0" for any other family.
std::string to_string(const SocketAddress& address);

// "127.0.0.1", "2001:db8:1:2::/64": the prefix shared by one peer, or by several behind one address. An IPv6 host has all
// addresses of its /64; an IPv4 address in an IPv6 one is an IPv4 address.
std::string source_of(const SocketAddress& address);

}  // namespace farcached::fabric
