// SPDX-License-Identifier: BSD-3-Clause
#include "ctl/connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "ctl/format.h"

namespace farcached::ctl {

namespace {

constexpr size_t line_bytes_max = 64 << 10;
constexpr size_t rows_max = 100'000;  // enough for a thousand nodes
constexpr size_t receive_bytes_max = 64 << 10;
constexpr size_t shown_bytes_max = 60;  // of an unrecognized line

int64_t now_ms() {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
}

std::string why_not(const std::string& path, int error) {
    switch (error) {
        case ENOENT:
            return path + ": no such socket; start farcached or farnode with --admin=" + path +
                   ", or name another with --socket";
        case EACCES:
        case EPERM:
            return path + ": no permission; run farctl as root or as the user that the daemon runs as";
        case ECONNREFUSED:
            return path + ": connection refused; the daemon has ended, or this is not a socket";
        case EPROTOTYPE:
            return path + ": a socket of another kind, such as a node's --shm; name the one of --admin";
        case EAGAIN:
            return path + ": the daemon accepts no connections";
        default:
            return path + ": " + std::strerror(error);
    }
}

bool is_status(std::string_view line) {
    for (std::string_view whole : {"END", "OK", "ERROR", "RESET"})
        if (line == whole) return true;
    for (std::string_view front : {"VERSION ", "ERROR ", "CLIENT_ERROR ", "SERVER_ERROR "})
        if (line.starts_with(front)) return true;
    return false;
}

}  // namespace

Or<Connection> Connection::open(const std::string& path, uint32_t timeout_ms) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address.sun_path)
        return Failure{path + ": not the path of a Unix socket, 1 to 107 bytes"};
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return Failure{std::string("cannot create a socket: ") + std::strerror(errno)};
    Connection connection(path, fd, timeout_ms);
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        return Failure{why_not(path, errno)};
    return connection;
}

Connection::Connection(std::string path, int fd, uint32_t timeout_ms)
    : path_(std::move(path)), fd_(fd), timeout_ms_(timeout_ms) {}

Connection::Connection(Connection&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      timeout_ms_(other.timeout_ms_),
      input_(std::move(other.input_)) {}

Connection& Connection::operator=(Connection&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(fd_, other.fd_);
    std::swap(timeout_ms_, other.timeout_ms_);
    std::swap(input_, other.input_);
    return *this;
}

Connection::~Connection() {
    if (fd_ >= 0) close(fd_);
}

std::optional<Failure> Connection::fill(int64_t deadline_ms) {
    for (;;) {
        char bytes[receive_bytes_max];
        const ssize_t got = recv(fd_, bytes, sizeof bytes, 0);
        if (got > 0) {
            input_.append(bytes, size_t(got));
            return std::nullopt;
        }
        if (got == 0 || (errno != EAGAIN && errno != EINTR))
            return failure("the daemon closed the connection without a reply");
        const int64_t left_ms = deadline_ms - now_ms();
        pollfd wanted{fd_, POLLIN, 0};
        if (left_ms <= 0 || poll(&wanted, 1, int(left_ms)) == 0)
            return failure("no reply within " + std::to_string(timeout_ms_) + " ms; the daemon is stopped or too busy");
    }
}

Or<std::string> Connection::take_line(int64_t deadline_ms) {
    size_t end = 0;
    for (size_t searched = 0; (end = input_.find('\n', searched)) == std::string::npos;) {
        searched = input_.size();
        if (searched > line_bytes_max)
            return failure("the server is neither farcached nor farnode: its reply line does not end");
        if (std::optional<Failure> why = fill(deadline_ms)) return std::move(*why);
    }
    std::string line = input_.substr(0, end);
    input_.erase(0, end + 1);
    if (line.ends_with('\r')) line.pop_back();
    return line;
}

Or<Answer> Connection::ask(std::string_view words) {
    const std::string request = std::string(words) + "\r\n";
    // If the send fails, the daemon's last answer, if any, explains more.
    (void)send(fd_, request.data(), request.size(), MSG_NOSIGNAL);
    const int64_t deadline_ms = now_ms() + timeout_ms_;
    Answer answer;
    std::string got;
    for (size_t rows = 0; rows < rows_max; rows++) {
        Or<std::string> line = take_line(deadline_ms);
        if (auto* why = std::get_if<Failure>(&line)) return std::move(*why);
        got = std::get<std::string>(std::move(line));
        if (!got.starts_with("STAT ")) break;
        const size_t name_end = std::min(got.find(' ', 5), got.size());
        answer.stats.add(got.substr(5, name_end - 5), got.substr(std::min(name_end + 1, got.size())));
    }
    if (!is_status(got))
        return failure("the server is neither farcached nor farnode: its reply was '" +
                       printable(std::string_view(got).substr(0, shown_bytes_max)) + "'");
    answer.status = std::move(got);
    return answer;
}

}  // namespace farcached::ctl
