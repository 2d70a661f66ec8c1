// SPDX-License-Identifier: BSD-3-Clause
#include "bench/load/connection.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include "base/check.h"

namespace farcached::bench {

void Failures::note(uint64_t Failures::*which, std::string_view what, std::string_view detail) {
    constexpr size_t detail_bytes_max = 120;
    (this->*which)++;
    if (!first.empty()) return;
    first = what;
    if (detail.empty()) return;
    first += ": ";
    for (char c : detail.substr(0, detail_bytes_max)) first += c >= ' ' && c <= '~' ? c : '?';
}

void Failures::merge(const Failures& other) {
    refused += other.refused;
    wrong_values += other.wrong_values;
    broken += other.broken;
    if (first.empty()) first = other.first;
}

void Batch::clear() {
    CHECK(done());
    requests_.clear();
    keys_.clear();
    missed_.clear();
    next_ = 0;
}

void Batch::add_set(OutBuffer& out, uint64_t key, uint64_t sequence) {
    uint32_t bytes = values_.size(sequence);
    auto fill = [&](char* to) { values_.fill(to, bytes, key, sequence); };
    writer_.set(out, key, bytes, fill);
    requests_.push_back({RequestKind::set, uint32_t(keys_.size()), 1});
    keys_.push_back(key);
}

void Batch::add_get(OutBuffer& out, std::span<const uint64_t> keys) {
    RequestKind kind = keys.size() == 1 ? RequestKind::get : RequestKind::get_many;
    if (kind == RequestKind::get)
        writer_.get(out, keys[0]);
    else
        writer_.get_many(out, keys);
    requests_.push_back({kind, uint32_t(keys_.size()), uint32_t(keys.size())});
    keys_.insert(keys_.end(), keys.begin(), keys.end());
}

void Batch::add_remove(OutBuffer& out, uint64_t key) {
    writer_.remove(out, key);
    requests_.push_back({RequestKind::remove, uint32_t(keys_.size()), 1});
    keys_.push_back(key);
}

// At the request's last piece: records the keys without a value as missed.
void Batch::note_missed(const Request& request, const Piece& piece) {
    if (!reads(request.kind) || piece.kind == Piece::Kind::refused) return;
    if (request.kind == RequestKind::get && hits_ > 0) return;
    const uint32_t from = request.kind == RequestKind::get ? 0 : key_next_;
    const auto keys = keys_.begin() + request.first_key;
    missed_.insert(missed_.end(), keys + from, keys + request.keys);
}

void Batch::check_value(const Request& request, const Piece& piece, Failures& failures) {
    uint64_t number = keys_[request.first_key];
    if (piece.has_key) {
        if (!writer_.key_number(piece.key, number))
            return failures.note(&Failures::wrong_values, "a key that was not requested",
                                 piece.key);
        const uint32_t passed_over = key_next_;
        while (key_next_ < request.keys && keys_[request.first_key + key_next_] != number)
            key_next_++;
        if (key_next_ == request.keys)
            return failures.note(&Failures::wrong_values, "a key that was not requested",
                                 piece.key);
        const auto keys = keys_.begin() + request.first_key;
        missed_.insert(missed_.end(), keys + passed_over, keys + key_next_);
        key_next_++;
    }
    if (!values_.good(piece.value, number))
        return failures.note(
            &Failures::wrong_values, "a value that was not stored under its key",
            "key " + std::to_string(number) + ", " + std::to_string(piece.value.size()) + " bytes");
    hits_++;
}

Batch::Step Batch::step(std::string_view input, Failures& failures) {
    CHECK(!done());
    const Request& request = requests_[next_];
    Piece piece = next_piece(wire_, request.kind, input);
    Step step;
    if (piece.kind == Piece::Kind::need_more) {
        step.wanted = piece.bytes;
        return step;
    }
    if (piece.kind == Piece::Kind::broken) {
        failures.note(&Failures::broken, "a protocol error", piece.value);
        step.broken = true;
        return step;
    }
    if (piece.kind == Piece::Kind::refused)
        failures.note(&Failures::refused, "an error reply", piece.value);
    if (piece.kind == Piece::Kind::value) check_value(request, piece, failures);
    step.bytes = piece.bytes;
    if (piece.last) {
        note_missed(request, piece);
        step.answered = true;
        step.answer = {request.kind, request.keys, hits_};
        next_++;
        key_next_ = 0;
        hits_ = 0;
    }
    return step;
}

namespace {

constexpr size_t in_bytes_start = 64 * 1024;
constexpr size_t out_bytes_kept = 1024 * 1024;
constexpr int connect_wait_ms = 5000;

[[noreturn]] void fail(const std::string& where, const std::string& why) {
    throw std::runtime_error("cannot connect to " + where + ": " + why);
}

// 0, or an errno.
int connect_within(int fd, const sockaddr* address, socklen_t bytes) {
    if (connect(fd, address, bytes) == 0) return 0;
    if (errno != EINPROGRESS) return errno;
    pollfd waiting{fd, POLLOUT, 0};
    int ready = poll(&waiting, 1, connect_wait_ms);
    if (ready == 0) return ETIMEDOUT;
    if (ready < 0) return errno;
    int error = 0;
    socklen_t error_bytes = sizeof error;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes);
    return error;
}

int connect_unix(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) fail(path, "the path is too long for a Unix socket");
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) fail(path, std::strerror(errno));
    int error = connect_within(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
    if (error == 0) return fd;
    close(fd);
    fail(path, std::strerror(error));
}

}  // namespace

int connect_to(const Target& target) {
    if (!target.unix_path.empty()) return connect_unix(target.unix_path);
    std::string where = target.host + " port " + target.port;
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* first = nullptr;
    int unknown = getaddrinfo(target.host.c_str(), target.port.c_str(), &hints, &first);
    if (unknown != 0) fail(where, gai_strerror(unknown));
    std::unique_ptr<addrinfo, void (*)(addrinfo*)> found(first, freeaddrinfo);
    int error = EADDRNOTAVAIL;
    for (addrinfo* at = first; at != nullptr; at = at->ai_next) {
        int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, at->ai_protocol);
        if (fd < 0) {
            error = errno;
            continue;
        }
        error = connect_within(fd, at->ai_addr, at->ai_addrlen);
        if (error == 0) {
            const int one = 1;
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            return fd;
        }
        close(fd);
    }
    fail(where, std::strerror(error));
}

Connection::Connection(int fd, Wire wire, const RequestWriter& writer, const Values& values)
    : batch(wire, writer, values), fd_(fd), in_(in_bytes_start) {}

Connection::~Connection() { close(fd_); }

Connection::Io Connection::flush() {
    while (out_sent_ < out.size()) {
        ssize_t n = send(fd_, out.data() + out_sent_, out.size() - out_sent_, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return Io::blocked;
        if (n < 0) return Io::closed;
        out_sent_ += size_t(n);
    }
    out.clear(out_bytes_kept);
    out_sent_ = 0;
    return Io::good;
}

Connection::Io Connection::receive() {
    if (in_begin_ == in_end_) in_begin_ = in_end_ = 0;
    if (in_end_ == in_.size()) expect(in_end_ - in_begin_ + 1);
    ssize_t n;
    do {
        n = recv(fd_, in_.data() + in_end_, in_.size() - in_end_, 0);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN) return Io::blocked;
    if (n <= 0) return Io::closed;
    in_end_ += size_t(n);
    return Io::good;
}

void Connection::expect(size_t bytes) {
    if (bytes <= in_.size() - in_begin_) return;
    std::memmove(in_.data(), in_.data() + in_begin_, in_end_ - in_begin_);
    in_end_ -= in_begin_;
    in_begin_ = 0;
    if (bytes > in_.size()) in_.resize(std::max(bytes, in_.size() * 2));
    CHECK(in_end_ < in_.size());
}

}  // namespace farcached::bench
