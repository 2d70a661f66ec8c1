// SPDX-License-Identifier: BSD-3-Clause
#include "bench/load/server_stats.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <stdexcept>
#include <string_view>

#include "base/check.h"
#include "bench/load/connection.h"

namespace farcached::bench {

namespace {

constexpr std::string_view end = "END\r\n";

}  // namespace

StatsLine::StatsLine(const Target& target, double connect_wait_s, double answer_wait_s)
    : where_(target.unix_path.empty() ? target.host + " port " + target.port : target.unix_path),
      fd_(connect_to(target, connect_wait_s)),
      answer_wait_s_(answer_wait_s) {}

StatsLine::~StatsLine() { close(fd_); }

void StatsLine::fail(const std::string& what) const { throw std::runtime_error(where_ + ": " + what); }

void StatsLine::wait_for(short events) const {
    pollfd waiting{fd_, events, 0};
    if (poll(&waiting, 1, int(answer_wait_s_ * 1000)) == 0) fail("no statistics in time");
}

std::map<std::string, std::string> StatsLine::ask(const std::string& group) {
    wait_for(POLLOUT);
    const std::string request = "stats " + group + "\r\n";
    if (send(fd_, request.data(), request.size(), MSG_NOSIGNAL) != ssize_t(request.size())) fail("the server accepts no request");
    std::string answer;
    while (!answer.ends_with(end)) {
        wait_for(POLLIN);
        char piece[16384];
        const ssize_t n = recv(fd_, piece, sizeof piece, 0);
        if (n <= 0) fail("the server closed the connection");
        answer.append(piece, size_t(n));
        if (answer.ends_with("\r\n") && !answer.starts_with("STAT ") && answer != end)
            fail("stats " + group + ": " + answer.substr(0, answer.size() - 2));
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

namespace {

constexpr double connect_wait_s = 5;
constexpr double answer_wait_s = 30;

}  // namespace

ServerStats::ServerStats(const std::vector<Target>& servers) {
    CHECK(!servers.empty());
    for (const Target& server : servers) lines_.push_back(std::make_unique<StatsLine>(server, connect_wait_s, answer_wait_s));
    std::set<std::string> names;
    for (const auto& [name, value] : lines_[0]->ask("nodes"))
        if (const size_t colon = name.find(':'); colon != name.npos) names.insert(name.substr(0, colon));
    if (names.empty()) lines_[0]->fail("the server has no nodes");
    nodes_.assign(names.begin(), names.end());
}

ServerStats::~ServerStats() = default;

void ServerStats::add(StatsLine& line, const std::string& group, Numbers& to) {
    for (const auto& [name, value] : line.ask(group)) {
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
    for (const std::string& name : nodes_) policies.insert(lines_[0]->ask("node " + name + " leases")["policy"]);
    return policies.size() == 1 ? *policies.begin() : "";
}

}  // namespace farcached::bench
