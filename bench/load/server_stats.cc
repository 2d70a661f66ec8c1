// SPDX-License-Identifier: BSD-3-Clause
#include "bench/load/server_stats.h"

#include <charconv>
#include <set>
#include <stdexcept>
#include <string_view>

#include "base/check.h"

namespace farcached::bench {

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
