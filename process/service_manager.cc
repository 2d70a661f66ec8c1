// SPDX-License-Identifier: BSD-3-Clause
#include "process/service_manager.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>
#include <optional>
#include <utility>

#include "process/log.h"

namespace farcached::process {

namespace {

constexpr timeval send_patience{1, 0};  // M2
constexpr const char* socket_variable = "NOTIFY_SOCKET";
constexpr const char* watchdog_variable = "WATCHDOG_USEC";
constexpr const char* main_pid_variable = "SYSTEMD_EXEC_PID";  // kept: it is right for every child
constexpr const char* watchdog_pid_variable = "WATCHDOG_PID";

void cannot_tell(std::string_view path, const std::string& why) {
    say(Level::warning, std::string(socket_variable) + "=" + std::string(path) + ": " + why +
                            ": the service manager gets no notifications");
}

// A path, or @ and an abstract name. 0: neither.
socklen_t fill_address(std::string_view path, sockaddr_un& address) {
    address.sun_family = AF_UNIX;
    const bool nameless = path.starts_with('@');
    if (!nameless && !path.starts_with('/')) return 0;
    if (path.size() < 2 || path.size() >= sizeof address.sun_path) return 0;
    std::memcpy(address.sun_path, path.data(), path.size());
    if (nameless) address.sun_path[0] = '\0';
    return socklen_t(offsetof(sockaddr_un, sun_path) + path.size());
}

std::optional<uint64_t> number_of(const char* variable) {
    const char* text = std::getenv(variable);
    if (text == nullptr) return {};
    const std::string_view digits(text);
    uint64_t value = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size()) return {};
    return value;
}

// 0: no watchdog, or one for another process.
uint64_t watchdog_of_environment() {
    const auto pid = number_of(watchdog_pid_variable);
    if (std::getenv(watchdog_pid_variable) != nullptr && pid != uint64_t(getpid())) return 0;
    return number_of(watchdog_variable).value_or(0);
}

uint64_t monotonic_us() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return uint64_t(now.tv_sec) * 1'000'000 + uint64_t(now.tv_nsec) / 1000;
}

std::string status_line(std::string_view status) {
    std::string line("STATUS=");
    for (char c : status) line += c == '\n' ? ' ' : c;
    return line + "\n";
}

}  // namespace

ServiceManager::ServiceManager() {
    const char* path = std::getenv(socket_variable);
    if (path != nullptr) {
        address_bytes_ = fill_address(path, address_);
        if (address_bytes_ == 0) {
            cannot_tell(path, "not the path of a Unix socket");
        } else {
            fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
            if (fd_ < 0) cannot_tell(path, std::strerror(errno));
        }
    }
    if (fd_ >= 0) {
        (void)setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &send_patience, sizeof send_patience);
        watchdog_us_ = watchdog_of_environment();
        waits_ = number_of(main_pid_variable).value_or(uint64_t(getpid())) == uint64_t(getpid());
    }
    for (const char* variable : {socket_variable, watchdog_variable, watchdog_pid_variable}) unsetenv(variable);
}

void say_restart(bool warning, const std::string& text) {
    say(warning ? Level::warning : Level::info, "-e: " + text);
}

void say_restart_progress(const ServiceManager& manager, const std::string& text) {
    constexpr uint64_t longer_us = 30'000'000;
    say_restart(/* warning= */ false, text);
    manager.tell_longer(text, longer_us);
}

ServiceManager::~ServiceManager() {
    if (fd_ >= 0) close(fd_);
}

void ServiceManager::send(std::string_view lines) const {
    if (fd_ < 0) return;
    ssize_t sent = 0;
    do sent = sendto(fd_, lines.data(), lines.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address_),
                     address_bytes_);
    while (sent < 0 && errno == EINTR);
}

void ServiceManager::tell_status(std::string_view status) const { send(status_line(status)); }

void ServiceManager::tell_longer(std::string_view status, uint64_t us) const {
    send("EXTEND_TIMEOUT_USEC=" + std::to_string(us) + "\n" + status_line(status));
}

void ServiceManager::tell_ready(std::string_view status) {
    ready_.store(true);
    try {
        send("READY=1\n" + status_line(status));
    } catch (const std::bad_alloc&) {
        send("READY=1\n");  // the next status message has it
    }
}

void ServiceManager::tell_alive() const { send("WATCHDOG=1\n"); }

void ServiceManager::tell_stopping(std::string_view status) const {
    try {
        send("STOPPING=1\n" + status_line(status));
    } catch (const std::bad_alloc&) {
        send("STOPPING=1\n");
    }
}

ServiceManager::Reloading::Reloading(const ServiceManager& manager) : manager_(manager), told_(manager.ready_.load()) {
    if (!told_) return;
    char words[64];
    const int bytes = std::snprintf(words, sizeof words, "RELOADING=1\nMONOTONIC_USEC=%llu\n",
                                    static_cast<unsigned long long>(monotonic_us()));
    manager_.send({words, size_t(bytes)});
}

ServiceManager::Reloading::~Reloading() {
    if (told_) manager_.send("READY=1\n");
}

// ---- passed sockets --------------------------------------------------------------------------------

namespace {

constexpr int first_fd = 3;
constexpr int sockets_max = 1024;  // per process; more is a mistake in the unit
constexpr const char* count_variable = "LISTEN_FDS";
constexpr const char* pid_variable = "LISTEN_PID";
constexpr const char* names_variable = "LISTEN_FDNAMES";

Problem problem(const std::string& sentence) { return {conf::exit_system, sentence + "\n"}; }

// -1: not a number.
long number_in(const char* text) {
    const std::string_view digits(text);
    long value = -1;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size() ? value : -1;
}

int option_of(int fd, int name) {
    int value = 0;
    socklen_t size = sizeof value;
    return getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
}

// The fault; empty: none (P1).
std::string fault_of(int fd) {
    if (fcntl(fd, F_GETFD) < 0) return "is not open: LISTEN_FDS is more than the number of sockets";
    const int family = option_of(fd, SO_DOMAIN);
    if (family < 0) return "is not a socket";
    if (family != AF_INET && family != AF_INET6 && family != AF_UNIX)
        return "is of address family " + std::to_string(family) + ": only TCP and Unix sockets are served";
    if (option_of(fd, SO_TYPE) != SOCK_STREAM) return "is not a stream socket: use ListenStream= in its unit";
    if (option_of(fd, SO_ACCEPTCONN) != 1) return "is a connection, not a listening socket: use Accept=no in its unit";
    return "";
}

void learn_address(PassedSocket& socket) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    if (getsockname(socket.fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return;
    socket.ipv6 = address.ss_family == AF_INET6;
    if (address.ss_family == AF_UNIX) {
        socket.unix_path = unix_path_of(reinterpret_cast<const sockaddr_un&>(address), size);
        return;
    }
    char text[INET6_ADDRSTRLEN] = "";
    const auto& four = reinterpret_cast<const sockaddr_in&>(address);
    const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
    const void* bytes = &four.sin_addr;
    if (socket.ipv6) bytes = &six.sin6_addr;
    if (inet_ntop(address.ss_family, bytes, text, sizeof text) != nullptr) socket.host = text;
    socket.port = ntohs(socket.ipv6 ? six.sin6_port : four.sin_port);
}

bool prepare(int fd) {
    const int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

struct Passed {
    std::string pid, count, names;
};

Passed read_environment() {
    auto take = [](const char* variable) {
        const char* text = std::getenv(variable);
        std::string value = text == nullptr ? "" : text;
        unsetenv(variable);
        return value;
    };
    return {take(pid_variable), take(count_variable), take(names_variable)};
}

// Takes the next name from a list separated by colons.
std::string next_name(std::string_view& names) {
    const size_t end = names.find(':');
    std::string name(names.substr(0, end));
    names.remove_prefix(end == std::string_view::npos ? names.size() : end + 1);
    return name;
}

}  // namespace

std::string unix_path_of(const sockaddr_un& address, socklen_t size) {
    const size_t bytes = size - offsetof(sockaddr_un, sun_path);
    if (size <= offsetof(sockaddr_un, sun_path)) return "@";  // unnamed
    std::string path(address.sun_path, bytes);
    if (path.front() == '\0') {
        path.front() = '@';
        return path;
    }
    return path.c_str();
}

std::string describe(const PassedSocket& socket) {
    std::string text = "socket " + std::to_string(socket.fd);
    if (!socket.name.empty()) text += " (" + socket.name + ")";
    return text + " from the service manager";
}

Result<PassedSockets> PassedSockets::of_environment() {
    const Passed passed = read_environment();
    PassedSockets all;
    if (passed.pid.empty() || number_in(passed.pid.c_str()) != getpid()) return all;  // unset, or for another process
    const long count = number_in(passed.count.c_str());
    if (count < 0 || count > sockets_max)
        return problem("LISTEN_FDS=" + passed.count + ": not a number of sockets from 0 to " +
                       std::to_string(sockets_max));
    std::string_view names = passed.names;
    for (int fd = first_fd; fd < first_fd + count; fd++) {
        PassedSocket socket;
        socket.fd = fd;
        socket.name = next_name(names);
        const std::string fault = fault_of(fd);
        if (!fault.empty()) return problem(describe(socket) + " " + fault);
        if (!prepare(fd)) return problem(describe(socket) + " cannot be made non-blocking: " + std::strerror(errno));
        learn_address(socket);
        all.sockets_.push_back(std::move(socket));
    }
    return all;
}

std::vector<PassedSocket> PassedSockets::take(std::string_view name) {
    std::vector<PassedSocket> taken;
    for (PassedSocket& socket : sockets_)
        if (socket.name == name) taken.push_back(socket);
    std::erase_if(sockets_, [&](const PassedSocket& socket) { return socket.name == name; });
    return taken;
}

Result<PassedSocket> take_admin(PassedSockets& sockets) {
    std::vector<PassedSocket> found = sockets.take(PassedSockets::admin);
    if (found.empty()) return PassedSocket();
    if (found.size() > 1)
        return problem(describe(found[1]) + " is a second socket for the operator; the first is " +
                       describe(found[0]));
    if (!found[0].is_unix())
        return problem(describe(found[0]) + " is a TCP socket; the operator's socket must be a Unix socket");
    return found[0];
}

}  // namespace farcached::process
