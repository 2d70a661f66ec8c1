// SPDX-License-Identifier: BSD-3-Clause
#include "process/passed_sockets.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace farcached::process {


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
    if (address.ss_family == AF_UNIX) socket.unix_path = unix_path_of(reinterpret_cast<const sockaddr_un&>(address), size);
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
