// SPDX-License-Identifier: BSD-3-Clause
#include "ctl/server.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <utility>

#include "ctl/format.h"
#include "ctl/wait.h"

namespace farcached::ctl {

const std::string* Stats::find(std::string_view name) const {
    for (const Row& row : rows_)
        if (row.first == name) return &row.second;
    return nullptr;
}

std::string Stats::text(std::string_view name) const {
    const std::string* found = find(name);
    return found == nullptr ? std::string() : *found;
}

std::optional<uint64_t> Stats::number(std::string_view name) const {
    const std::string* found = find(name);
    return found == nullptr ? std::nullopt : parse_number(*found);
}

std::optional<uint64_t> parse_number(std::string_view text) {
    if (text.size() > 1 && text.front() == '0') return {};
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return {};
    return value;
}

namespace {

constexpr size_t line_bytes_max = 64 << 10;
constexpr size_t rows_max = 100'000;  // enough for a thousand nodes
constexpr size_t receive_bytes_max = 64 << 10;
constexpr size_t shown_bytes_max = 60;  // of an unrecognized line
constexpr const char* no_reply_yet = "interrupted before the reply";

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

Server::Connection::~Connection() { close(fd); }

std::optional<Failure> Server::connect() {
    if (connection_ != nullptr) return {};
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path_.empty() || path_.size() >= sizeof address.sun_path)
        return Failure{path_ + ": not the path of a Unix socket, 1 to 107 bytes"};
    std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return Failure{std::string("cannot create a socket: ") + std::strerror(errno)};
    auto connection = std::make_unique<Connection>(fd);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        return Failure{why_not(path_, errno)};
    connection_ = std::move(connection);
    kind_ = Kind::unknown;  // it may be another daemon now
    return {};
}

std::optional<Failure> Server::fill(int64_t deadline_ms) {
    for (;;) {
        char bytes[receive_bytes_max];
        const ssize_t got = recv(connection_->fd, bytes, sizeof bytes, 0);
        if (got > 0) {
            connection_->input.append(bytes, size_t(got));
            return std::nullopt;
        }
        if (got == 0 || (errno != EAGAIN && errno != EINTR))
            return failure("the daemon closed the connection without a reply");
        const int64_t left_ms = deadline_ms - now_ms();
        const Waited waited = wait_for(connection_->fd, uint32_t(std::max<int64_t>(left_ms, 0)));
        if (waited == Waited::interrupted) return failure(no_reply_yet);
        if (waited == Waited::timeout)
            return failure("no reply within " + std::to_string(timeout_ms_) + " ms; the daemon is stopped or too busy");
    }
}

Or<std::string> Server::take_line(int64_t deadline_ms) {
    std::string& input = connection_->input;
    size_t end = 0;
    for (size_t searched = 0; (end = input.find('\n', searched)) == std::string::npos;) {
        searched = input.size();
        if (searched > line_bytes_max)
            return failure("the server is neither farcached nor farnode: its reply line does not end");
        if (std::optional<Failure> why = fill(deadline_ms)) return std::move(*why);
    }
    std::string line = input.substr(0, end);
    input.erase(0, end + 1);
    if (line.ends_with('\r')) line.pop_back();
    return line;
}

Or<Server::Answer> Server::take_answer() {
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

Or<Server::Answer> Server::ask(std::string_view line) {
    if (is_interrupted()) return failure("interrupted before the request");
    if (auto why = connect()) return *why;
    const std::string request = std::string(line) + "\r\n";
    // If the send fails, the daemon's last answer, if any, explains more.
    (void)send(connection_->fd, request.data(), request.size(), MSG_NOSIGNAL);
    Or<Answer> answer = take_answer();
    if (std::holds_alternative<Failure>(answer)) connection_.reset();
    return answer;
}

Failure Server::refusal(std::string_view status) const {
    // "CLIENT_ERROR no such thing": the sentence without the word in front.
    const std::string_view sentence = status.substr(std::min(status.find(' '), status.size() - 1) + 1);
    if (sentence.empty()) return {path_ + ": the daemon does not support this command on this socket", true};
    return {path_ + ": " + printable(sentence), true};
}

Or<Server::Kind> Server::kind() {
    if (auto why = connect()) return *why;
    if (kind_ != Kind::unknown) return kind_;
    Or<Answer> version = ask("version");
    if (auto* failure = std::get_if<Failure>(&version)) return *failure;
    const std::string& status = std::get<Answer>(version).status;
    constexpr std::string_view of_farnode = "VERSION farnode ";
    if (status.starts_with(of_farnode)) {
        version_ = status.substr(of_farnode.size());
        return kind_ = Kind::farnode;
    }
    if (!status.starts_with("VERSION ")) {
        connection_.reset();
        return refusal(status);
    }
    Or<Stats> general = stats();
    if (auto* failure = std::get_if<Failure>(&general)) return *failure;
    version_ = std::get<Stats>(general).text("farcached_version");
    if (!version_.empty()) return kind_ = Kind::farcached;
    connection_.reset();
    return Failure{path_ + ": the server is memcached, not farcached"};
}

uint64_t Server::listener_pid() const {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (connection_ == nullptr || getsockopt(connection_->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return 0;
    return uint64_t(peer.pid);
}

Or<Stats> Server::stats(std::string_view group) {
    return rows(group.empty() ? "stats" : "stats " + std::string(group));
}

Or<Stats> Server::rows(std::string_view line) {
    Or<Answer> answer = ask(line);
    if (auto* failure = std::get_if<Failure>(&answer)) return *failure;
    Answer& got = std::get<Answer>(answer);
    if (got.status != "END") return refusal(got.status);
    return std::move(got.stats);
}

std::optional<Failure> Server::order(std::string_view line) {
    Or<Answer> answer = ask(line);
    if (auto* failure = std::get_if<Failure>(&answer)) return *failure;
    const std::string& status = std::get<Answer>(answer).status;
    if (status == "OK" || status == "RESET") return {};
    if (status == "ERROR")
        return Failure{path_ + ": not allowed for clients; use the socket of --admin", true};
    return refusal(status);
}

}  // namespace farcached::ctl
