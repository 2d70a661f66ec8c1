// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/farcached/udp_sockets.h"

#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <variant>

#include "fabric/socket.h"
#include "process/node_time.h"

namespace farcached::daemon {

namespace {

constexpr int buffer_bytes = 1 << 20;  // the kernel's limits may be lower (net.core.rmem_max, wmem_max)

void set_number(int fd, int level, int name, int value) { (void)setsockopt(fd, level, name, &value, sizeof value); }

int number_of(int fd, int name) {
    int value = 0;
    socklen_t size = sizeof value;
    return getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : 0;
}

// 0 before Linux 4.12, too.
uint64_t dropped_at(int fd) {
    std::array<uint32_t, SK_MEMINFO_VARS> values{};
    socklen_t size = sizeof values;
    (void)getsockopt(fd, SOL_SOCKET, SO_MEMINFO, values.data(), &size);
    return values[SK_MEMINFO_DROPS];
}

conf::Problem udp_failed(const UdpOptions& options, int cause) {
    const std::string what = options.interfaces.empty() ? "failed to listen on UDP port " + std::to_string(options.port)
                                                        : "failed to listen on one of interface(s) " + options.interfaces;
    return {conf::exit_system, what + ": " + std::strerror(cause) + "\n"};
}

bool is_wildcard(const fabric::SocketAddress& at) {
    if (at.storage.ss_family == AF_INET)
        return reinterpret_cast<const sockaddr_in&>(at.storage).sin_addr.s_addr == htonl(INADDR_ANY);
    const auto& address = reinterpret_cast<const sockaddr_in6&>(at.storage).sin6_addr;
    return std::memcmp(&address, &in6addr_any, sizeof address) == 0;
}

// -1 and errno if the address is unavailable. further: another socket of this process is bound there.
int bind_udp(const fabric::SocketAddress& at, bool further) {
    const int fd = socket(at.storage.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    const bool ipv6 = at.storage.ss_family == AF_INET6;
    if (ipv6) set_number(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    for (const int buffer : {SO_RCVBUF, SO_SNDBUF}) raise_buffer(fd, buffer, buffer_bytes);
    // A reply leaves from the address that its request was sent to.
    if (is_wildcard(at)) ipv6 ? set_number(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1) : set_number(fd, IPPROTO_IP, IP_PKTINFO, 1);
    if (further) set_number(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    if (::bind(fd, at.get(), at.size) == 0) {
        if (!further) set_number(fd, SOL_SOCKET, SO_REUSEPORT, 1);  // V1
        return fd;
    }
    const int cause = errno;
    close(fd);
    errno = cause;
    return -1;
}

std::string describe_udp(const fabric::SocketAddress& address) {
    return (address.storage.ss_family == AF_INET6 ? "udp6:" : "udp:") + fabric::to_string(address);
}

}  // namespace

// Only a set buffer shows the kernel's limit, so this sets another socket's first.
void raise_buffer(int fd, int name, int bytes) {
    const int other = socket(number_of(fd, SO_DOMAIN), SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (other < 0) return;
    set_number(other, SOL_SOCKET, name, bytes);
    if (number_of(other, name) > number_of(fd, name)) set_number(fd, SOL_SOCKET, name, bytes);
    close(other);
}

UdpSockets::~UdpSockets() {
    for (const UdpSocket& one : sockets_) ::close(one.fd);
}

conf::Refusal UdpSockets::bind(const UdpOptions& options, std::vector<process::BoundPort>& ports) {
    for (const ListenAt& at : options.at)
        if (conf::Refusal refusal = bind_at(options, at, ports)) return refusal;
    return {};
}

conf::Refusal UdpSockets::bind_at(const UdpOptions& options, const ListenAt& at, std::vector<process::BoundPort>& ports) {
    const auto found = fabric::look_up(at.host, at.port);
    if (const auto* why = std::get_if<std::string>(&found)) {
        conf::Problem problem = udp_failed(options, errno == 0 ? EINVAL : errno);
        problem.text = "getaddrinfo(): " + *why + "\n" + problem.text;
        return problem;
    }
    const size_t before = sockets_.size();
    conf::Problem last = udp_failed(options, EADDRNOTAVAIL);
    for (const fabric::SocketAddress& address : std::get<std::vector<fabric::SocketAddress>>(found)) {
        fabric::SocketAddress bound = address;
        for (uint32_t i = 0; i < options.sockets_each; i++) {
            const int fd = bind_udp(bound, /* further= */ i != 0);
            if (fd < 0) {
                const int cause = errno;
                last = udp_failed(options, cause);
                last.text = "bind(): " + describe_udp(address) + ": " + std::strerror(cause) + "\n" + last.text;
                if (cause == EADDRINUSE || i != 0) return last;
                break;  // the host lacks this address family
            }
            bound.size = sizeof bound.storage;
            (void)getsockname(fd, bound.get(), &bound.size);
            UdpSocket& one = sockets_.emplace_back();
            one.fd = fd;
            one.protocol = at.protocol;
            one.address = describe_udp(bound);
            one.last_command = process::node_now();
            if (i == 0) ports.push_back({bound.storage.ss_family == AF_INET6, bound.port(), "UDP"});
        }
    }
    if (sockets_.size() == before) return last;
    return {};
}

std::vector<UdpSocket*> UdpSockets::of_worker(uint32_t worker, uint32_t workers) {
    std::vector<UdpSocket*> own;
    for (size_t i = worker; i < sockets_.size(); i += workers) own.push_back(&sockets_[i]);
    return own;
}

void UdpSockets::add_to(ServerNumbers& numbers) const {
    numbers.udp_sockets = sockets_.size();
    for (const UdpSocket& one : sockets_) {
        numbers.udp_in_flight += one.in_flight.load(std::memory_order_relaxed);
        numbers.udp_dropped += dropped_at(one.fd);
    }
}

void UdpSockets::each(NodeSeconds now, FunctionRef<void(const ConnectionInfo&)> visit) const {
    for (const UdpSocket& one : sockets_) {
        const NodeSeconds last = one.last_command.load(std::memory_order_relaxed);
        visit({one.fd, one.address, "", "conn_read", now > last ? now - last : 0, /* udp= */ true});
    }
}

void UdpSockets::each_address(FunctionRef<void(const ConnectionInfo&)> visit) const {
    const std::string* before = nullptr;
    for (const UdpSocket& one : sockets_) {
        if (before == nullptr || *before != one.address) visit({one.fd, one.address, "", "conn_read", 0, /* udp= */ true});
        before = &one.address;
    }
}

}  // namespace farcached::daemon
