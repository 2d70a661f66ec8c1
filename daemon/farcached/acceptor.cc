// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/farcached/acceptor.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>
#include <variant>

#include "base/recorder.h"
#include "fabric/socket.h"
#include "process/node_time.h"
#include "process/socket_holder.h"

namespace farcached::daemon {

namespace {

constexpr int accepts_per_readiness = 64;
constexpr timeval retry_after{0, 10'000};
constexpr std::string_view too_many = "ERROR Too many open connections\r\n";

uint64_t clock_us() {
    auto since = std::chrono::steady_clock::now().time_since_epoch();
    return uint64_t(std::chrono::duration_cast<std::chrono::microseconds>(since).count());
}

// "tcp:127.0.0.1:40950", "tcp6:[::1]:40950", "unix:/path".
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

}  // namespace

Acceptor::~Acceptor() {
    admin_socket_.reset();
    base_.reset();
    for (const auto& listener : listeners_) ::close(listener->fd);
}

// ---- listening ------------------------------------------------------------------------------------------

conf::Refusal Acceptor::listen() {
    if (options_.admin_passed.fd >= 0) {
        admin_socket_ = process::AdminSocket::adopt(options_.admin_passed);
    } else if (!options_.admin_path.empty()) {
        auto made = process::AdminSocket::listen(options_.admin_path, options_.identity);
        if (auto* problem = std::get_if<conf::Problem>(&made)) return *problem;
        admin_socket_ = std::move(std::get<0>(made));
    }
    for (const process::PassedSocket& socket : options_.passed)
        add_listener(socket.fd, options_.protocol, options_.tls).passed = true;
    if (!options_.passed.empty()) return {};
    if (!options_.unix_path.empty()) return listen_unix();
    for (const ListenAt& at : options_.tcp)
        if (conf::Refusal refusal = listen_tcp(at)) return refusal;
    return {};
}

// A Unix socket stays plain.
Acceptor::Listener& Acceptor::add_listener(int fd, SessionProtocol protocol, TlsMode tls) {
    fabric::SocketAddress bound;
    bound.size = sizeof bound.storage;
    (void)getsockname(fd, bound.get(), &bound.size);
    Listener& one = *listeners_.emplace_back(std::make_unique<Listener>());
    one.acceptor = this;
    one.fd = fd;
    one.protocol = protocol;
    if (bound.storage.ss_family != AF_UNIX) one.tls = tls;
    one.address = describe(bound);
    if (bound.storage.ss_family != AF_UNIX) ports_.push_back({bound.storage.ss_family == AF_INET6, bound.port()});
    return one;
}

// One socket for each address of the host.
conf::Refusal Acceptor::listen_tcp(const ListenAt& at) {
    auto found = fabric::look_up(at.host, at.port);
    if (auto* why = std::get_if<std::string>(&found)) {
        conf::Problem problem = failed(options_.interfaces, at.port, errno == 0 ? EINVAL : errno);
        problem.text = "getaddrinfo(): " + *why + "\n" + problem.text;
        return problem;
    }
    const size_t before = listeners_.size();
    conf::Problem last = failed(options_.interfaces, at.port, EADDRNOTAVAIL);
    for (const auto& address : std::get<std::vector<fabric::SocketAddress>>(found)) {
        const int fd = bind_one(address, options_.backlog);
        if (fd >= 0) {
            add_listener(fd, at.protocol, at.tls);
            continue;
        }
        const int error = errno;
        last = failed(options_.interfaces, at.port, error);
        last.text = "bind(): " + describe(address) + ": " + process::bind_error(error, address.get()) + "\n" + last.text;
        if (error == EADDRINUSE) return last;
        // else the host lacks this address family
    }
    if (listeners_.size() == before) return last;
    return {};
}

namespace {

// As memcached, also the socket of a process that runs: that one keeps its clients, and gets no more.
void replace_unix_socket(const std::string& path) {
    const std::string holder = process::unix_holder(path);
    if (!holder.empty())
        process::say(process::Level::warning, "replacing the Unix socket " + path + ", in use by " + holder +
                                                  ": new clients connect to this process");
    unlink(path.c_str());
}

}  // namespace

// Replaces a socket file, but no other file.
conf::Refusal Acceptor::listen_unix() {
    const std::string& path = options_.unix_path;
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
    const bool exists = lstat(path.c_str(), &old) == 0;
    if (exists && !S_ISSOCK(old.st_mode)) {
        errno = EADDRINUSE;
        conf::Problem problem = refuse("bind()");
        problem.text = path + ": a file exists that is not a socket\n" + problem.text;
        close(fd);
        return problem;
    }
    if (exists) replace_unix_socket(path);
    const int bound = process::bind_unix(fd, address, options_.unix_mode, options_.identity);
    if (bound != 0 || ::listen(fd, options_.backlog) != 0) {
        conf::Problem problem = refuse(bound != 0 ? "bind()" : "listen()");
        close(fd);
        return problem;
    }
    Listener& one = add_listener(fd, options_.protocol, TlsMode::plain);
    one.address = "unix:" + path;
    struct stat made {};
    if (lstat(path.c_str(), &made) == 0) {
        one.device = made.st_dev;
        one.inode = made.st_ino;
    }
    return {};
}

// Leaves a socket that another process put there since.
void Acceptor::remove_unix_socket() {
    struct stat there {};
    if (options_.unix_path.empty() || lstat(options_.unix_path.c_str(), &there) != 0) return;
    for (const auto& one : listeners_)
        if (there.st_dev == one->device && there.st_ino == one->inode) unlink(options_.unix_path.c_str());
}

// ---- accepting ------------------------------------------------------------------------------------------

void Acceptor::start(Give give) {
    give_ = std::move(give);
    base_.reset(event_base_new());
    if (base_ == nullptr) throw std::system_error(errno, std::generic_category(), "event_base_new");
    waker_.emplace();
    event_assign(&wake_event_, base_.get(), waker_->fd(), EV_READ | EV_PERSIST, on_wake, this);
    event_add(&wake_event_, nullptr);
    event_assign(&retry_event_, base_.get(), -1, 0, on_retry, this);
    for (auto& listener : listeners_) {
        event_assign(&listener->readiness, base_.get(), listener->fd, EV_READ | EV_PERSIST, on_accept, listener.get());
        event_add(&listener->readiness, nullptr);
    }
    if (admin_socket_ != nullptr)
        admin_socket_->open(base_.get(), [this](int fd) {
            give_({fd, SessionProtocol::text, {}, TlsMode::plain, /* admin= */ true});
        });
    thread_ = std::thread([this] {
        Recorder recorder("accept");
        const Recorder::Running running(recorder);
        event_base_dispatch(base_.get());
    });
}

bool Acceptor::stop() {
    if (!thread_.joinable()) return false;
    stopping_ = true;
    waker_->wake();
    thread_.join();
    if (admin_socket_ != nullptr) admin_socket_->shut();
    for (auto& listener : listeners_)
        if (!listener->passed) ::shutdown(listener->fd, SHUT_RDWR);  // R4
    return true;
}

void Acceptor::on_wake(evutil_socket_t, short, void* argument) {
    Acceptor& acceptor = *static_cast<Acceptor*>(argument);
    acceptor.waker_->take();
    if (acceptor.stopping_)
        event_base_loopbreak(acceptor.base_.get());
    else
        acceptor.resume();
}

void Acceptor::on_retry(evutil_socket_t, short, void* argument) {
    static_cast<Acceptor*>(argument)->resume();
}

void Acceptor::on_accept(evutil_socket_t, short, void* argument) {
    Listener& listener = *static_cast<Listener*>(argument);
    listener.acceptor->accept_some(listener);
}

void Acceptor::accept_some(Listener& listener) {
    for (int i = 0; i < accepts_per_readiness; i++) {
        // The limit may be lower than the number of connections after a reload.
        if (at_limit()) return suspend(false);
        sockaddr_storage address{};
        socklen_t size = sizeof address;
        int fd = accept4(listener.fd, reinterpret_cast<sockaddr*>(&address), &size,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                const int error = errno;
                // accept4() takes a descriptor before it checks for a waiting client.
                pollfd waiting{listener.fd, POLLIN, 0};
                if (poll(&waiting, 1, 0) != 1) return;
                starve(error);
                suspend(true);
            }
            return;
        }
        if (starved_) feed();
        if (!admit(fd)) continue;
        total_.fetch_add(1, std::memory_order_relaxed);
        if (address.ss_family != AF_UNIX) {
            int on = 1;
            (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
        }
        give_({fd, listener.protocol, peer_address(address), listener.tls});
        if (at_limit()) return suspend(false);
    }
}

// Counts the connection, or rejects it with an error (R1).
bool Acceptor::admit(int fd) {
    if (connections_.fetch_add(1) < connections_max_) return true;
    connections_.fetch_sub(1);
    rejected_.fetch_add(1, std::memory_order_relaxed);
    (void)send(fd, too_many.data(), too_many.size(), MSG_NOSIGNAL);
    ::close(fd);
    return false;
}

// Clients wait in the backlog until a descriptor is free.
void Acceptor::starve(int error) {
    if (std::exchange(starved_, true)) return;
    try {
        starved_lines_.say(process::Level::warning,
                           std::string("accepting clients is suspended: ") + std::strerror(error) +
                               "; raise the limit on open files (LimitNOFILE), or lower conn_limit",
                           {{"clients", std::to_string(clients())}});
    } catch (const std::bad_alloc&) {
        process::lose_line();
    }
}

void Acceptor::feed() {
    starved_ = false;
    starved_lines_.say(process::Level::notice, "accepting clients again");
}

void Acceptor::suspend(bool for_a_moment) {
    if (accepting_.exchange(false)) {
        disabled_num_.fetch_add(1, std::memory_order_relaxed);
        disabled_since_us_ = clock_us();
        for (auto& listener : listeners_) event_del(&listener->readiness);
    }
    if (for_a_moment) {
        event_add(&retry_event_, &retry_after);
        return;
    }
    resume();  // a connection may have ended since
}

// Does nothing at the limit: the next end of a connection calls again.
void Acceptor::resume() {
    if (at_limit()) return;
    if (accepting_.exchange(true)) return;
    disabled_us_.fetch_add(clock_us() - disabled_since_us_, std::memory_order_relaxed);
    for (auto& listener : listeners_) event_add(&listener->readiness, nullptr);
}

void Acceptor::left(bool admin) {
    if (admin) return admin_socket_->left();
    connections_.fetch_sub(1);
    if (!accepting_.load()) waker_->wake();
}

void Acceptor::add_to(ServerNumbers& numbers) const {
    numbers.total_connections = total_.load(std::memory_order_relaxed);
    numbers.rejected_connections = rejected_.load(std::memory_order_relaxed);
    numbers.listen_disabled_num = disabled_num_.load(std::memory_order_relaxed);
    numbers.time_in_listen_disabled_us = disabled_us_.load(std::memory_order_relaxed);
    numbers.curr_connections = clients();
    numbers.connections_max = connections_max_.load(std::memory_order_relaxed);
    numbers.accepting_conns = accepting_.load(std::memory_order_relaxed);
    numbers.reserved_fds += 2 + listeners_.size();
    numbers.connection_structures += listeners_.size();
}

void Acceptor::each_listener(FunctionRef<void(const ConnectionInfo&)> visit) const {
    for (const auto& listener : listeners_)
        visit({listener->fd, listener->address, "", "conn_listening", process::node_now()});
}

// ---- addresses ------------------------------------------------------------------------------------------

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
