// SPDX-License-Identifier: BSD-3-Clause
// SocketAddress: the address of a TCP peer, in the kernel's form. A plain value; no function here waits for a name server.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

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

// Resolves the name of a host to its addresses. It may wait for name servers: for startup, not while serving.
// All addresses of the host at this port, each once and at least one, in the order to try them.
// host: a name or an address; empty: every address of this host, to listen at.
// A string: the cause, as in "Name or service not known"; errno is as the lookup left it.
std::variant<std::vector<SocketAddress>, std::string> look_up(const std::string& host, uint16_t port);

}  // namespace farcached::fabric
