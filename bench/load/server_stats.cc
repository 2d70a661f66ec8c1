// SPDX-License-Identifier: BSD-3-Clause
#include "bench/load/server_stats.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <stdexcept>
#include <string_view>

#include "base/check.h"
#include "bench/load/connection.h"
#include "protocol/op.h"
#include "proxy/onesided_share.h"

namespace farcached::bench {

namespace {

constexpr std::string_view end = "END\r\n";
constexpr double answer_wait_s = 30;
constexpr double first_wait_s = 2;  // for a server that may not answer

}  // namespace

StatsLine::StatsLine(const Target& target, double wait_s)
    : where_(target.unix_path.empty() ? target.host + " port " + target.port : target.unix_path),
      fd_(connect_to(target)),
      answer_wait_s_(wait_s) {}

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

ServerStats::ServerStats(const std::vector<Target>& servers) {
    CHECK(!servers.empty());
    for (const Target& server : servers) lines_.push_back(std::make_unique<StatsLine>(server, answer_wait_s));
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

namespace {

uint64_t number_of(const ProxyStats& stats, const std::string& name) {
    const auto found = stats.find(name);
    if (found == stats.end()) return 0;
    uint64_t number = 0;
    std::from_chars(found->second.data(), found->second.data() + found->second.size(), number);
    return number;
}

// The growth of each counter.
proxy::LinkCounts grown(const ProxyStats& before, const ProxyStats& after) {
    const auto by = [&](const std::string& name) {
        const uint64_t then = number_of(before, name), now = number_of(after, name);
        return now - std::min(now, then);
    };
    proxy::LinkCounts grown;
    for (const auto& row : proxy::LinkCounts::rows()) row.of(grown) = by(std::string(row.name));
    for (size_t i = 1; i < grown.lease_denied_by.size(); i++)
        grown.lease_denied_by[i] = by("lease_denied_" + std::string(protocol::lease_denial_name(protocol::LeaseDenial(i))));
    return grown;
}

}  // namespace

std::optional<GetShares> get_shares(const ProxyStats& before, const ProxyStats& after) {
    for (const ProxyStats* stats : {&before, &after})
        if (!stats->contains("get_onesided") || !stats->contains("get_twosided")) return std::nullopt;
    const proxy::LinkCounts counts = grown(before, after);
    GetShares shares;
    shares.onesided = proxy::gets_onesided(counts);
    shares.all = proxy::gets_through_links(counts);
    const auto add_to = [](GetShares::Rows& rows) {
        return [&rows](std::string_view name, std::string_view, uint64_t count) { rows.emplace_back(name, count); };
    };
    proxy::each_onesided_reason(counts, add_to(shares.reasons));
    proxy::each_pointer_denial(counts, add_to(shares.denials));
    return shares;
}

ShareMeter::ShareMeter(const Target& server) {
    try {
        line_ = std::make_unique<StatsLine>(server, first_wait_s);
    } catch (const std::runtime_error&) {
        return;
    }
    const std::optional<ProxyStats> first = ask();
    if (!first.has_value() || !get_shares(*first, *first).has_value())
        line_.reset();
    else
        line_->answer_within(answer_wait_s);
}

std::optional<ProxyStats> ShareMeter::ask() {
    if (line_ == nullptr) return std::nullopt;
    try {
        return line_->ask("proxy");
    } catch (const std::runtime_error&) {
        line_.reset();
        return std::nullopt;
    }
}

void ShareMeter::begin() { before_ = ask(); }

std::optional<GetShares> ShareMeter::end() {
    const std::optional<ProxyStats> after = ask();
    if (!before_.has_value() || !after.has_value()) return std::nullopt;
    return get_shares(*before_, *after);
}

}  // namespace farcached::bench
