// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/session/listen.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fabric/socket_address.h"

namespace farcached::daemon {

namespace {

void set_flag(int fd, int level, int name) {
    int on = 1;
    (void)setsockopt(fd, level, name, &on, sizeof on);
}

conf::Problem failed(const std::string& interfaces, uint16_t port, int error) {
    std::string what = interfaces.empty() ? "failed to listen on TCP port " + std::to_string(port)
                                          : "failed to listen on one of interface(s) " + interfaces;
    return {conf::exit_system, what + ": " + std::strerror(error) + "\n"};
}

// -1 and errno if the address is unavailable.
int bind_one(const fabric::SocketAddress& at, int backlog) {
    int fd = socket(at.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    set_flag(fd, SOL_SOCKET, SO_REUSEADDR);
    set_flag(fd, SOL_SOCKET, SO_KEEPALIVE);
    set_flag(fd, IPPROTO_TCP, TCP_NODELAY);
    if (at.storage.ss_family == AF_INET6) set_flag(fd, IPPROTO_IPV6, IPV6_V6ONLY);
    if (bind(fd, at.get(), at.size) == 0)
        if (::listen(fd, backlog) == 0) return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

Listening describe_listener(int fd) {
    fabric::SocketAddress bound;
    bound.size = sizeof bound.storage;
    (void)getsockname(fd, bound.get(), &bound.size);
    Listening one;
    one.fd = fd;
    one.ipv6 = bound.storage.ss_family == AF_INET6;
    one.port = bound.port();
    one.address = describe(bound);
    return one;
}

}  // namespace

std::variant<std::vector<Listening>, conf::Problem> listen_on_tcp(const std::string& host,
                                                                  uint16_t port, int backlog,
                                                                  const std::string& interfaces) {
    auto found = fabric::look_up(host, port);
    if (auto* why = std::get_if<std::string>(&found)) {
        conf::Problem problem = failed(interfaces, port, errno == 0 ? EINVAL : errno);
        problem.text = "getaddrinfo(): " + *why + "\n" + problem.text;
        return problem;
    }
    std::vector<Listening> all;
    int last_error = EADDRNOTAVAIL;
    for (const auto& address : std::get<std::vector<fabric::SocketAddress>>(found)) {
        int fd = bind_one(address, backlog);
        if (fd >= 0) {
            all.push_back(describe_listener(fd));
            continue;
        }
        last_error = errno;
        if (errno != EADDRINUSE) continue;  // the host lacks this address family
        for (const Listening& one : all) close(one.fd);
        return failed(interfaces, port, EADDRINUSE);
    }
    if (all.empty()) return failed(interfaces, port, last_error);
    return all;
}

std::variant<Listening, conf::Problem> listen_on_unix(const std::string& path, uint32_t mode,
                                                      int backlog) {
    auto refuse = [&](const char* call) {
        std::string why = std::strerror(errno);
        return conf::Problem{conf::exit_system, std::string(call) + ": " + why +
                                                    "\nfailed to listen on UNIX socket: " + path +
                                                    ": " + why + "\n"};
    };
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return refuse("bind()");
    }
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return refuse("socket()");
    struct stat old {};
    if (lstat(path.c_str(), &old) == 0)
        if (S_ISSOCK(old.st_mode)) unlink(path.c_str());
    mode_t before = umask(mode_t(~mode & 0777));
    int bound = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
    umask(before);
    if (bound != 0 || ::listen(fd, backlog) != 0) {
        conf::Problem problem = refuse(bound != 0 ? "bind()" : "listen()");
        close(fd);
        return problem;
    }
    Listening one;
    one.fd = fd;
    one.address = "unix:" + path;
    struct stat made {};
    if (lstat(path.c_str(), &made) == 0) {
        one.device = made.st_dev;
        one.inode = made.st_ino;
    }
    return one;
}

Listening listen_on_passed(const process::PassedSocket& socket) {
    Listening one = describe_listener(socket.fd);
    one.passed = true;
    return one;
}

void remove_unix_socket(const std::string& path, const Listening& ours) {
    struct stat there {};
    if (lstat(path.c_str(), &there) != 0) return;
    if (there.st_dev == ours.device && there.st_ino == ours.inode) unlink(path.c_str());
}

std::string describe(const fabric::SocketAddress& address) {
    if (address.storage.ss_family == AF_UNIX)
        return "unix:" + process::unix_path_of(reinterpret_cast<const sockaddr_un&>(address.storage), address.size);
    const char* transport = address.storage.ss_family == AF_INET6 ? "tcp6:" : "tcp:";
    return transport + fabric::to_string(address);
}

PeerAddress peer_address(const sockaddr_storage& address) {
    if (address.ss_family == AF_INET) {
        const auto& from = reinterpret_cast<const sockaddr_in&>(address);
        PeerAddress::Ip4 at;
        std::memcpy(at.ip.data(), &from.sin_addr, sizeof from.sin_addr);
        at.port = ntohs(from.sin_port);
        return PeerAddress(at);
    }
    if (address.ss_family != AF_INET6) return {};
    const auto& from = reinterpret_cast<const sockaddr_in6&>(address);
    PeerAddress::Ip6 at;
    std::memcpy(at.ip.data(), &from.sin6_addr, sizeof from.sin6_addr);
    at.scope = from.sin6_scope_id;
    at.port = ntohs(from.sin6_port);
    return PeerAddress(at);
}

std::string describe_peer(int fd, const PeerAddress& peer) {
    fabric::SocketAddress address;
    if (const PeerAddress::Ip6* at = peer.ip6(); at != nullptr) {
        auto& from = reinterpret_cast<sockaddr_in6&>(address.storage);
        address.size = sizeof from;
        from.sin6_family = AF_INET6;
        from.sin6_port = htons(at->port);
        from.sin6_scope_id = at->scope;
        std::memcpy(&from.sin6_addr, at->ip.data(), sizeof from.sin6_addr);
        return describe(address);
    }
    if (!peer.is_ip4()) return describe_here(fd);
    const PeerAddress::Ip4 at = peer.ip4();
    auto& from = reinterpret_cast<sockaddr_in&>(address.storage);
    address.size = sizeof from;
    from.sin_family = AF_INET;
    from.sin_port = htons(at.port);
    std::memcpy(&from.sin_addr, at.ip.data(), sizeof from.sin_addr);
    return describe(address);
}

std::string describe_here(int fd) {
    fabric::SocketAddress address;
    address.size = sizeof address.storage;
    (void)getsockname(fd, address.get(), &address.size);
    return describe(address);
}

std::string watch_words(const std::string& described) {
    size_t kind = described.find(':');
    std::string transport = described.substr(0, kind);
    if (transport == "unix") return " rip=unix rport=0 transport=local";
    size_t port = described.rfind(':');
    std::string host = described.substr(kind + 1, port - kind - 1);
    if (host.size() > 1 && host.front() == '[') host = host.substr(1, host.size() - 2);
    return " rip=" + host + " rport=" + described.substr(port + 1) + " transport=" + transport;
}

}  // namespace farcached::daemon
