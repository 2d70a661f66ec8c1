// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

namespace farcached::fabric {

uint16_t SocketAddress::port() const {
    if (storage.ss_family == AF_INET)
        return ntohs(reinterpret_cast<const sockaddr_in&>(storage).sin_port);
    if (storage.ss_family == AF_INET6)
        return ntohs(reinterpret_cast<const sockaddr_in6&>(storage).sin6_port);
    return 0;
}

bool SocketAddress::operator==(const SocketAddress& other) const {
    return size == other.size && std::memcmp(&storage, &other.storage, size) == 0;
}

std::optional<SocketAddress> numeric_address(std::string_view host, uint16_t port) {
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const std::string name(host);
    if (getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
        return std::nullopt;
    std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> free_later(found, &freeaddrinfo);
    SocketAddress address;
    std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
    address.size = found->ai_addrlen;
    return address;
}

std::string peer_of(int fd) {
    SocketAddress peer;
    peer.size = sizeof peer.storage;
    if (getpeername(fd, peer.get(), &peer.size) != 0 || peer.storage.ss_family == AF_UNIX) return "unix";
    return to_string(peer);
}

std::string to_string(const SocketAddress& address) {
    if (address.storage.ss_family == AF_INET) {  // getnameinfo() takes many times as long
        const auto& at = *reinterpret_cast<const sockaddr_in*>(&address.storage);
        char numbers[INET_ADDRSTRLEN] = "?";
        (void)inet_ntop(AF_INET, &at.sin_addr, numbers, sizeof numbers);
        return std::string(numbers) + ":" + std::to_string(ntohs(at.sin_port));
    }
    char host[NI_MAXHOST] = "?";
    char port[NI_MAXSERV] = "0";
    (void)getnameinfo(address.get(), address.size, host, sizeof host, port, sizeof port,
                      NI_NUMERICHOST | NI_NUMERICSERV);
    if (address.storage.ss_family == AF_INET6) return "[" + std::string(host) + "]:" + port;
    return std::string(host) + ":" + port;
}

std::string source_of(const SocketAddress& address) {
    char numbers[INET6_ADDRSTRLEN] = "?";
    if (address.storage.ss_family == AF_INET) {
        const auto& at = *reinterpret_cast<const sockaddr_in*>(&address.storage);
        (void)inet_ntop(AF_INET, &at.sin_addr, numbers, sizeof numbers);
        return numbers;
    }
    if (address.storage.ss_family != AF_INET6) return numbers;
    in6_addr at = reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr;
    constexpr size_t network_bytes = 8, mapped_offset = 12;
    if (IN6_IS_ADDR_V4MAPPED(&at)) {
        (void)inet_ntop(AF_INET, at.s6_addr + mapped_offset, numbers, sizeof numbers);
        return numbers;
    }
    std::memset(at.s6_addr + network_bytes, 0, sizeof at - network_bytes);
    (void)inet_ntop(AF_INET6, &at, numbers, sizeof numbers);
    return std::string(numbers) + "/64";
}

std::variant<std::vector<SocketAddress>, std::string> look_up(const std::string& host, uint16_t port) {
    addrinfo hints{};
    hints.ai_flags = AI_PASSIVE;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    const int failure =
        getaddrinfo(host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(), &hints, &list);
    if (failure != 0) return std::string(failure == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(failure));
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> free_later(list, &freeaddrinfo);
    std::vector<SocketAddress> found;
    for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
        SocketAddress address;
        if (at->ai_addrlen > sizeof address.storage) continue;
        std::memcpy(&address.storage, at->ai_addr, at->ai_addrlen);
        address.size = at->ai_addrlen;
        // A name may list one address twice, as when /etc/hosts has it on two lines.
        if (std::find(found.begin(), found.end(), address) == found.end()) found.push_back(address);
    }
    if (found.empty()) return std::string("it has no address");
    return found;
}

// ---- descriptors -----------------------------------------------------------------------------------

Descriptor reserve_descriptor() { return Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

Descriptor accept_one(int listener, Descriptor& reserve, SocketAddress* from, uint64_t& turned_away) {
    for (;;) {
        SocketAddress peer;
        peer.size = sizeof peer.storage;
        Descriptor taken(accept4(listener, peer.get(), &peer.size, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (taken) {
            if (from != nullptr) *from = peer;
            if (!reserve) reserve = reserve_descriptor();
            return taken;
        }
        const bool out_of_descriptors = errno == EMFILE || errno == ENFILE;
        if (out_of_descriptors && reserve) {
            reserve.reset();
            Descriptor unwanted(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
            const int error = errno;
            const bool one_waited = bool(unwanted);
            turned_away += one_waited;
            unwanted.reset();
            reserve = reserve_descriptor();
            // The kernel allocates a descriptor before it checks the queue: the error proves no waiting connection.
            if (one_waited || error == EINTR || error == ECONNABORTED || error == EPROTO) continue;
            return Descriptor();
        }
        // A connection that died in the queue fails accept4(); the listener is sound.
        if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO) continue;
        return Descriptor();
    }
}

Descriptor poller_of(int fd, unsigned events) {
    Descriptor poller(epoll_create1(EPOLL_CLOEXEC));
    if (!poller) return poller;
    epoll_event wanted{};
    wanted.events = events;
    wanted.data.fd = fd;
    if (epoll_ctl(poller.get(), EPOLL_CTL_ADD, fd, &wanted) != 0) poller.reset();
    return poller;
}

Problem no_descriptor(const std::string& channel_name) {
    return system_problem(channel_name + ": no descriptor for a connection (" + std::strerror(errno) + ")");
}

}  // namespace farcached::fabric
