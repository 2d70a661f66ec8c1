// SPDX-License-Identifier: BSD-3-Clause
#include "bench/floor.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "bench/command.h"
#include "fabric/socket.h"

namespace farcached::bench {

namespace {

constexpr uint32_t threads_max = 64;
constexpr uint32_t value_bytes_max = 1u << 20;
constexpr size_t receive_bytes = 256 * 1024;
constexpr size_t line_bytes_max = 64 * 1024;
constexpr int events_max = 128;
constexpr int backlog = 1024;
constexpr int wait_ms = 100;  // longest delay of a stop request

struct FloorOptions {
    std::string host;
    uint16_t port = 0;
    uint32_t threads = 0;
    uint32_t value_bytes = 0;
    std::string port_file;
};

using F = FloorOptions;
using S = const std::string;

const OptionOf<F> table[] = {
    {{"host", "ADDRESS", "127.0.0.1", "IPv4 address to listen at"},
     [](F& f, S& t) { return to_any_text(t, f.host); }},
    {{"port", "PORT", "0", "port to listen on; 0: chosen by the kernel"},
     [](F& f, S& t) { return to_number<uint16_t>(t, 0, UINT16_MAX, f.port); }},
    {{"threads", "N", "2", "number of threads"}, [](F& f, S& t) { return to_number<uint32_t>(t, 1, threads_max, f.threads); }},
    {{"value-bytes", "N", "64", "length of the value of every reply to a get"},
     [](F& f, S& t) { return to_number<uint32_t>(t, 0, value_bytes_max, f.value_bytes); }},
    {{"port-file", "FILE", nullptr, "file to write the port to, like memcached's MEMCACHED_PORT_FILENAME"},
     [](F& f, S& t) { return to_any_text(t, f.port_file); }},
};

[[noreturn]] void fail(const char* what) { throw std::runtime_error(std::string("floor: ") + what + ": " + std::strerror(errno)); }

struct Line {
    explicit Line(int fd) : file(fd) {}
    const fabric::Descriptor file;
    std::string rest;  // an incomplete request
};

// A serving thread. Owner: run(). One other thread adds connections by adopt().
class Server {
  public:
    explicit Server(uint32_t value_bytes)
        : canned_(value_bytes), epoll_(epoll_create1(EPOLL_CLOEXEC)), received_(receive_bytes) {
        if (!epoll_) fail("epoll");
    }

    void adopt(int fd) {
        auto line = std::make_unique<Line>(fd);
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.ptr = line.get();
        if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return;
        line.release();  // serve() deletes it
    }

    void run() {
        std::array<epoll_event, events_max> events;
        while (!interrupted) {
            const int n = epoll_wait(epoll_.get(), events.data(), events_max, wait_ms);
            for (int i = 0; i < n; i++) {
                auto* line = static_cast<Line*>(events[size_t(i)].data.ptr);
                if (!serve(*line)) delete line;
            }
        }
    }

    uint64_t requests() const { return canned_.requests; }

  private:
    bool serve(Line& line) {
        const ssize_t n = recv(line.file.get(), received_.data(), received_.size(), 0);
        if (n < 0) return errno == EAGAIN || errno == EINTR;
        if (n == 0) return false;
        std::string_view input(received_.data(), size_t(n));
        if (!line.rest.empty()) input = line.rest.append(input);
        replies_.clear();
        const size_t done = canned_.answer(input, replies_);
        if (input.size() - done > value_bytes_max + line_bytes_max) return false;
        if (input.data() == line.rest.data())
            line.rest.erase(0, done);
        else
            line.rest.assign(input.substr(done));
        return send_all(line.file.get());
    }

    // Blocks on a client that does not read, and with it this thread's other clients; the load's clients always read.
    bool send_all(int fd) {
        size_t sent = 0;
        while (sent < replies_.size()) {
            const ssize_t n = send(fd, replies_.data() + sent, replies_.size() - sent, MSG_NOSIGNAL);
            if (n >= 0) {
                sent += size_t(n);
                continue;
            }
            pollfd writable{fd, POLLOUT, 0};
            if (errno == EAGAIN && !interrupted && poll(&writable, 1, wait_ms) >= 0) continue;
            return false;
        }
        return true;
    }

    CannedReplies canned_;
    const fabric::Descriptor epoll_;
    std::vector<char> received_;
    std::string replies_;
};

fabric::Descriptor listen_at(const FloorOptions& options, uint16_t& port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(options.port);
    if (inet_pton(AF_INET, options.host.c_str(), &address.sin_addr) != 1) {
        errno = EINVAL;
        fail("--host is not an IPv4 address");
    }
    fabric::Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!listener) fail("socket");
    const int one = 1;
    setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    socklen_t bytes = sizeof address;
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    if (bind(listener.get(), plain, bytes) != 0 || listen(listener.get(), backlog) != 0 ||
        getsockname(listener.get(), plain, &bytes) != 0)
        fail("cannot listen");
    port = ntohs(address.sin_port);
    return listener;
}

void accept_for(int listener, std::vector<std::unique_ptr<Server>>& servers) {
    size_t next = 0;
    while (!interrupted) {
        pollfd waiting{listener, POLLIN, 0};
        if (poll(&waiting, 1, wait_ms) <= 0) continue;
        const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) continue;
        const int one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        servers[next++ % servers.size()]->adopt(fd);
    }
}

}  // namespace

CannedReplies::CannedReplies(uint32_t value_bytes)
    : behind_key_(" 0 " + std::to_string(value_bytes) + "\r\n" + std::string(value_bytes, 'x') + "\r\n") {}

size_t CannedReplies::answer(std::string_view input, std::string& replies) {
    size_t done = 0;
    while (done < input.size()) {
        const std::string_view left = input.substr(done);
        const size_t end = left.find('\n');
        if (end == left.npos) break;
        size_t value_bytes = 0;
        const std::string_view line = left.substr(0, end - (end > 0 && left[end - 1] == '\r' ? 1 : 0));
        if (!answer_one(line, left.substr(end + 1), replies, value_bytes)) break;
        done += end + 1 + value_bytes;
        requests++;
    }
    return done;
}

// False: the value is incomplete. value_bytes: bytes after the line that belong to it.
bool CannedReplies::answer_one(std::string_view line, std::string_view behind, std::string& replies, size_t& value_bytes) {
    if (line.starts_with("get ")) {
        for (std::string_view keys = line.substr(4); !keys.empty();) {
            const size_t blank = std::min(keys.find(' '), keys.size());
            replies.append("VALUE ").append(keys.substr(0, blank)).append(behind_key_);
            keys.remove_prefix(std::min(blank + 1, keys.size()));
        }
        replies.append("END\r\n");
        return true;
    }
    if (!line.starts_with("set ")) {
        replies.append("ERROR\r\n");
        return true;
    }
    const std::string_view last = line.substr(line.rfind(' ') + 1);
    uint32_t bytes = 0;
    if (std::from_chars(last.data(), last.data() + last.size(), bytes).ec != std::errc() || bytes > value_bytes_max) {
        replies.append("CLIENT_ERROR bad data chunk\r\n");
        return true;
    }
    value_bytes = size_t(bytes) + 2;
    if (behind.size() < value_bytes) return false;
    replies.append("STORED\r\n");
    return true;
}

namespace {

int run(std::span<char* const> arguments) {
    FloorOptions options;
    const std::string wrong = read_options<FloorOptions>(table, arguments, options);
    if (!wrong.empty()) return refuse_arguments("floor", wrong);
    catch_interrupts();
    uint16_t port = 0;
    const fabric::Descriptor listener = listen_at(options, port);
    std::vector<std::unique_ptr<Server>> servers;
    for (uint32_t i = 0; i < options.threads; i++) servers.push_back(std::make_unique<Server>(options.value_bytes));
    std::printf("listening at %s port %u\n", options.host.c_str(), port);
    std::fflush(stdout);
    if (!options.port_file.empty()) write_file(options.port_file, "TCP INET: " + std::to_string(port) + "\n", std::ios::trunc);
    std::vector<std::thread> threads;
    for (auto& server : servers) threads.emplace_back([&server] { server->run(); });
    accept_for(listener.get(), servers);
    for (std::thread& thread : threads) thread.join();
    uint64_t requests = 0;
    for (auto& server : servers) requests += server->requests();
    std::printf("%llu requests\n", (unsigned long long)requests);
    return exit_good;
}

}  // namespace

Command floor_command() {
    return {"floor", "", "A server without storage: the lower bound of a server with epoll, recv() and send().",
            {std::begin(table), std::end(table)}, run};
}

}  // namespace farcached::bench
