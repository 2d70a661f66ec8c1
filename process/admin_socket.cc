// SPDX-License-Identifier: BSD-3-Clause
#include "process/admin_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "process/socket_holder.h"

namespace farcached::process {

namespace {

constexpr int backlog = 16;
constexpr int accepts_per_readiness = 16;
constexpr timeval retry_after{0, 10'000};
constexpr std::string_view strangers =
    "ERROR only root and the user of the process may use this socket\r\n";
constexpr std::string_view too_many = "ERROR too many connections to this socket: close one first\r\n";

Problem refusal(const std::string& path, const std::string& why) {
    return {conf::exit_system, "--admin " + path + ": " + why + "\n"};
}

sockaddr_un address_of(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    CHECK(path.size() < sizeof address.sun_path);
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    return address;
}

int unix_socket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

// Does a process listen there, on any type of socket?
bool is_served(const sockaddr_un& address) {
    const int fd = unix_socket();
    if (fd < 0) return false;
    const int connected = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    const bool served = connected == 0 || errno == EAGAIN || errno == EPROTOTYPE;
    close(fd);
    return served;
}

// A1
bool is_welcome(int fd) {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
    return peer.uid == 0 || peer.uid == geteuid();
}

void turn_away(int fd, std::string_view sentence) {
    (void)send(fd, sentence.data(), sentence.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
}

std::string absolute(const std::string& path) {
    std::error_code failed;
    const std::filesystem::path full = std::filesystem::absolute(path, failed);
    return failed ? path : full.string();
}

}  // namespace

Result<std::unique_ptr<AdminSocket>> AdminSocket::listen(const std::string& path, const Identity& owner) {
    const sockaddr_un address = address_of(path);
    struct stat there {};
    if (lstat(path.c_str(), &there) == 0) {
        if (!S_ISSOCK(there.st_mode)) return refusal(path, "a file exists that is not a socket");
        if (is_served(address)) return refusal(path, "in use" + holder_words(unix_holder(path)));
        unlink(path.c_str());
    }
    const int fd = unix_socket();
    if (fd < 0) return refusal(path, std::strerror(errno));
    if (bind_unix(fd, address, 0600, owner) == 0 && ::listen(fd, backlog) == 0)
        return std::unique_ptr<AdminSocket>(new AdminSocket(path, fd, /* made= */ true));
    const std::string why = std::strerror(errno);
    close(fd);
    return refusal(path, why);
}

std::unique_ptr<AdminSocket> AdminSocket::adopt(const PassedSocket& socket) {
    return std::unique_ptr<AdminSocket>(new AdminSocket(socket.unix_path, socket.fd, /* made= */ false));
}

AdminSocket::AdminSocket(std::string path, int fd, bool made)
    : path_(std::move(path)), absolute_path_(absolute(path_)), fd_(fd), made_(made) {
    struct stat there {};
    if (lstat(path_.c_str(), &there) != 0) return;
    device_ = there.st_dev;
    inode_ = there.st_ino;
}

AdminSocket::~AdminSocket() { shut(); }

void AdminSocket::open(event_base* base, Enter enter) {
    CHECK(!opened_);
    opened_ = true;
    enter_ = std::move(enter);
    // Again: SO_PEERCRED of a client names the process of the last listen(). With -d, the first one was that of the parent.
    if (made_) (void)::listen(fd_, backlog);
    const auto on_readable = [](evutil_socket_t, short, void* self) { static_cast<AdminSocket*>(self)->accept_some(); };
    const auto on_retry = [](evutil_socket_t, short, void* self) {
        event_add(&static_cast<AdminSocket*>(self)->readable_, nullptr);
    };
    event_assign(&readable_, base, fd_, EV_READ | EV_PERSIST, on_readable, this);
    event_assign(&retry_, base, -1, 0, on_retry, this);
    event_add(&readable_, nullptr);
}

void AdminSocket::shut() {
    if (fd_ < 0) return;
    if (opened_) {
        event_del(&readable_);
        event_del(&retry_);
    }
    close(std::exchange(fd_, -1));
    if (!made_) return;  // A5
    struct stat there {};
    if (lstat(absolute_path_.c_str(), &there) != 0) return;
    if (there.st_dev == device_ && there.st_ino == inode_) unlink(absolute_path_.c_str());
}

void AdminSocket::accept_some() {
    for (int i = 0; i < accepts_per_readiness; i++) {
        const int fd = accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) return;
            event_del(&readable_);
            event_add(&retry_, &retry_after);
            return;
        }
        if (!is_welcome(fd)) {
            turn_away(fd, strangers);
        } else if (connections_.load(std::memory_order_relaxed) >= connections_max) {
            turn_away(fd, too_many);
        } else {
            connections_.fetch_add(1, std::memory_order_relaxed);
            enter_(fd);
        }
    }
}

}  // namespace farcached::process
