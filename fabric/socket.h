// SPDX-License-Identifier: BSD-3-Clause
// Descriptor: an open file that is closed with its owner. SocketAddress: the address of a TCP peer, in the kernel's form. And
// the descriptors that listeners and channels make. Values; any thread.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace farcached::fabric {

class Descriptor {
  public:
    Descriptor() = default;
    explicit Descriptor(int fd) : fd_(fd) {}
    Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        if (this != &other) reset(std::exchange(other.fd_, -1));
        return *this;
    }
    ~Descriptor() { reset(); }

    int get() const { return fd_; }  // -1: none
    explicit operator bool() const { return fd_ >= 0; }
    int release() { return std::exchange(fd_, -1); }  // the caller's from now on
    void reset(int fd = -1) {
        if (fd_ >= 0) ::close(fd_);
        fd_ = fd;
    }

  private:
    int fd_ = -1;
};

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
// The address of a connected socket's other end, as above; "unix" for a Unix socket, and if it is gone.
std::string peer_of(int fd);

// "127.0.0.1", "2001:db8:1:2::/64": the prefix shared by one peer, or by several behind one address. An IPv6 host has all
// addresses of its /64; an IPv4 address in an IPv6 one is an IPv4 address.
std::string source_of(const SocketAddress& address);

// Resolves the name of a host to its addresses. It may wait for name servers: for startup, not while serving.
// All addresses of the host at this port, each once and at least one, in the order to try them.
// host: a name or an address; empty: every address of this host, to listen at.
// A string: the cause, as in "Name or service not known"; errno is as the lookup left it.
std::variant<std::vector<SocketAddress>, std::string> look_up(const std::string& host, uint16_t port);

// A descriptor to hold in reserve; none if the process has no free descriptor.
Descriptor reserve_descriptor();

// The next connection, non-blocking and closed on exec; none: no connection waits, or accept4() failed. Out of descriptors,
// it accepts and closes connections: a listening socket stays readable until its queue is empty. It reopens `reserve` as
// needed, and adds to turned_away the connections that it closed.
Descriptor accept_one(int listener, Descriptor& reserve, SocketAddress* from, uint64_t& turned_away);

// An epoll descriptor that watches `fd` for `events` (EPOLLIN, ...); none: errno has the cause.
Descriptor poller_of(int fd, unsigned events);

// Of a channel without a descriptor, for the cause in errno.
Problem no_descriptor(const std::string& channel_name);

}  // namespace farcached::fabric
