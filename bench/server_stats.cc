// SPDX-License-Identifier: BSD-3-Clause
#include "bench/server_stats.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <set>
#include <stdexcept>
#include <string_view>

#include "base/check.h"
#include "bench/connection.h"

namespace farcached::bench {

namespace {

constexpr double connect_wait_s = 5;
constexpr int answer_wait_s = 30;
constexpr std::string_view end = "END\r\n";

}  // namespace

struct ServerStats::Line {
    explicit Line(const Target& target) : server(target), fd(connect_to(target, connect_wait_s)) {}
    ~Line() { close(fd); }
    Line(const Line&) = delete;
    Line& operator=(const Line&) = delete;

    [[noreturn]] void fail(const std::string& what) const {
        throw std::runtime_error(server.host + " port " + server.port + ": " + what);
    }
    void wait_for(short events) const {
        pollfd waiting{fd, events, 0};
        if (poll(&waiting, 1, answer_wait_s * 1000) == 0) fail("no statistics in time");
    }

    const Target server;
    const int fd;
};

ServerStats::ServerStats(const std::vector<Target>& servers) {
    CHECK(!servers.empty());
    for (const Target& server : servers) lines_.push_back(std::make_unique<Line>(server));
    std::set<std::string> names;
    for (const auto& [name, value] : ask(*lines_[0], "nodes"))
        if (const size_t colon = name.find(':'); colon != name.npos) names.insert(name.substr(0, colon));
    if (names.empty()) lines_[0]->fail("it has no nodes");
    nodes_.assign(names.begin(), names.end());
}

ServerStats::~ServerStats() = default;

std::map<std::string, std::string> ServerStats::ask(Line& line, const std::string& group) {
    line.wait_for(POLLOUT);
    const std::string request = "stats " + group + "\r\n";
    if (send(line.fd, request.data(), request.size(), MSG_NOSIGNAL) != ssize_t(request.size())) line.fail("it takes no request");
    std::string answer;
    while (!answer.ends_with(end)) {
        line.wait_for(POLLIN);
        char piece[16384];
        const ssize_t n = recv(line.fd, piece, sizeof piece, 0);
        if (n <= 0) line.fail("it ended the connection");
        answer.append(piece, size_t(n));
        if (answer.ends_with("\r\n") && !answer.starts_with("STAT ") && answer != end)
            line.fail("stats " + group + ": " + answer.substr(0, answer.size() - 2));
    }
    std::map<std::string, std::string> found;
    for (std::string_view rest = answer; rest.starts_with("STAT ");) {
        const std::string_view one = rest.substr(5, rest.find("\r\n") - 5);
        const size_t blank = std::min(one.find(' '), one.size());
        found[std::string(one.substr(0, blank))] = one.substr(std::min(blank + 1, one.size()));
        rest.remove_prefix(one.size() + 7);
    }
    return found;
}

void ServerStats::add(Line& line, const std::string& group, Numbers& to) {
    for (const auto& [name, value] : ask(line, group)) {
        uint64_t number = 0;
        const char* last = value.data() + value.size();
        if (std::from_chars(value.data(), last, number).ptr == last) to[name] += number;
    }
}

ServerStats::Numbers ServerStats::proxies() {
    Numbers sum;
    for (auto& line : lines_) add(*line, "proxy", sum);
    return sum;
}

ServerStats::Numbers ServerStats::nodes() {
    Numbers sum;
    for (const std::string& name : nodes_) add(*lines_[0], "node " + name, sum);
    return sum;
}

std::string ServerStats::policy() {
    std::set<std::string> policies;
    for (const std::string& name : nodes_) policies.insert(ask(*lines_[0], "node " + name + " leases")["policy"]);
    return policies.size() == 1 ? *policies.begin() : "";
}

}  // namespace farcached::bench
