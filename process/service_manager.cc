// SPDX-License-Identifier: BSD-3-Clause
#include "process/service_manager.h"

#include <sys/time.h>
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

}  // namespace farcached::process
