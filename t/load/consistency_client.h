// SPDX-License-Identifier: BSD-3-Clause
// A client of the consistency load: one operation at a time, in the protocol that the caller names,
// over real sockets (one for text and meta, one for binary). Owned by one thread.
//
// Anything but a proper reply throws Broken: the load counts that as a failure of the daemon. A reply that a node did
// not answer is proper for a change. The change may have been carried out or not, or may be later: Answer::unknown.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace consistency {

struct Broken : std::runtime_error {
    using std::runtime_error::runtime_error;
};

enum class Wire : uint8_t { text, meta, binary };
enum class Verb : uint8_t { set, add, replace, append, prepend, cas };
enum class Answer : uint8_t { ok, refused, exists, absent, unknown };  // refused: NOT_STORED

struct Found {
    bool hit = false;
    uint64_t cas = 0;
    std::string value;
};

class Connection {
  public:
    explicit Connection(const std::string& path) {
        fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        if (path.size() >= sizeof address.sun_path) throw Broken("the path is too long: " + path);
        std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
        enter(reinterpret_cast<const sockaddr*>(&address), sizeof address);
    }
    explicit Connection(uint16_t port) {
        fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        const int one = 1;
        setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        enter(reinterpret_cast<const sockaddr*>(&address), sizeof address);
    }
    ~Connection() { close(fd_); }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    void send_all(std::string_view bytes) {
        while (!bytes.empty()) {
            const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) throw Broken(std::string("send: ") + std::strerror(errno));
            bytes.remove_prefix(size_t(n));
        }
    }

    std::string_view line() {  // valid until the next read
        size_t end;
        while ((end = buffer_.find("\r\n", at_)) == std::string::npos) fill();
        const std::string_view text(buffer_.data() + at_, end - at_);
        at_ = end + 2;
        return text;
    }

    std::string_view bytes(size_t n) {  // valid until the next read
        while (buffer_.size() - at_ < n) fill();
        at_ += n;
        return {buffer_.data() + at_ - n, n};
    }

  private:
    void enter(const sockaddr* address, socklen_t bytes) {
        const timeval limit{120, 0};
        setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        if (connect(fd_, address, bytes) != 0) throw Broken(std::string("connect: ") + std::strerror(errno));
    }
    void fill() {
        buffer_.erase(0, at_);
        at_ = 0;
        const size_t had = buffer_.size();
        buffer_.resize(had + 65536);
        const ssize_t n = recv(fd_, buffer_.data() + had, 65536, 0);
        buffer_.resize(had + size_t(n > 0 ? n : 0));
        if (n < 0 && errno == EINTR) return;
        if (n == 0) throw Broken("the daemon closed the connection");
        if (n < 0) throw Broken(std::string("recv: ") + std::strerror(errno));
    }

    int fd_;
    std::string buffer_;
    size_t at_ = 0;
};

inline uint64_t number(std::string_view text) {
    uint64_t n = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error != std::errc()) throw Broken("not a number: " + std::string(text));
    return n;
}

inline std::vector<std::string_view> words(std::string_view line) {
    std::vector<std::string_view> found;
    for (size_t at = 0; at < line.size();) {
        const size_t end = std::min(line.find(' ', at), line.size());
        if (end > at) found.push_back(line.substr(at, end - at));
        at = end + 1;
    }
    return found;
}

// Binary packets: a 24-byte head, big-endian.
struct Packet {
    uint8_t opcode;
    uint16_t status;
    uint32_t opaque;
    uint64_t cas;
    std::string_view body;  // extras, key, value
    uint8_t extras_bytes;
    uint16_t key_bytes;
};

inline void big_endian(std::string& out, uint64_t n, int bytes) {
    for (int i = bytes - 1; i >= 0; i--) out.push_back(char(n >> (8 * i)));
}

inline uint64_t from_big_endian(std::string_view bytes) {
    uint64_t n = 0;
    for (const char c : bytes) n = n << 8 | uint8_t(c);
    return n;
}

inline void append_packet(std::string& out, uint8_t opcode, std::string_view extras,
                          std::string_view key, std::string_view value, uint64_t cas = 0,
                          uint32_t opaque = 0) {
    out.push_back(char(0x80));
    out.push_back(char(opcode));
    big_endian(out, key.size(), 2);
    big_endian(out, extras.size(), 1);
    big_endian(out, 0, 3);  // data type, vbucket
    big_endian(out, extras.size() + key.size() + value.size(), 4);
    big_endian(out, opaque, 4);
    big_endian(out, cas, 8);
    out.append(extras).append(key).append(value);
}

inline Packet read_packet(Connection& from) {
    const std::string_view head = from.bytes(24);
    if (uint8_t(head[0]) != 0x81) throw Broken("not a binary reply");
    Packet p;
    p.opcode = uint8_t(head[1]);
    p.key_bytes = uint16_t(from_big_endian(head.substr(2, 2)));
    p.extras_bytes = uint8_t(head[4]);
    p.status = uint16_t(from_big_endian(head.substr(6, 2)));
    p.opaque = uint32_t(from_big_endian(head.substr(12, 4)));
    p.cas = from_big_endian(head.substr(16, 8));
    const size_t body_bytes = size_t(from_big_endian(head.substr(8, 4)));
    p.body = from.bytes(body_bytes);
    return p;
}

class Client {
  public:
    // admin: the operator's socket; empty: no delete by prefix.
    Client(uint16_t port, const std::string& admin) : lines_(port), packets_(port) {
        if (!admin.empty()) orders_.emplace(admin);
    }

    Answer store(Wire wire, Verb verb, std::string_view key, std::string_view value,
                 int64_t exptime, uint64_t cas);
    // A set without a reply, and then proof that it was carried out; text has no proof where nodes fail.
    Answer store_quietly(Wire wire, std::string_view key, std::string_view value);
    // exptime: it is touched, too.
    Found get(Wire wire, std::string_view key, std::optional<uint32_t> exptime = std::nullopt);
    // As one request: `get k k k`, pipelined mg, or GETKQ closed by NOOP.
    std::vector<Found> get_many(Wire wire, const std::vector<std::string>& keys);
    Answer remove(Wire wire, std::string_view key);
    Answer touch(Wire wire, std::string_view key, uint32_t exptime);
    // Adds one; the new value, or absent.
    Answer increment(Wire wire, std::string_view key, uint64_t& value);
    Answer flush_all(Wire wire);
    Answer delete_prefix(std::string_view prefix);

  private:
    Answer word(std::string_view line);
    Answer meta_word(std::string_view line);
    Answer status(uint16_t status);
    Answer packet_status();
    Found text_value();  // one VALUE ... after its END was not seen
    Found meta_value();
    std::vector<Found> get_many_text(const std::vector<std::string>& keys);
    std::vector<Found> get_many_binary(const std::vector<std::string>& keys);

    Connection lines_;
    Connection packets_;
    std::optional<Connection> orders_;
    std::string out_;
};

}  // namespace consistency
