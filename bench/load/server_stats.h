// SPDX-License-Identifier: BSD-3-Clause
// ServerStats: the counters of running farcached daemons and of the nodes behind them, read over the text protocol.
//
// Owner: one thread.
// A1  proxies() is the sum over the servers, nodes() the sum over the nodes, which all servers share.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/load/options.h"

namespace farcached::bench {

// StatsLine: a connection that reads a server's statistics over the text protocol.
//
// Owner: one thread. Each request waits for its reply.
class StatsLine {
  public:
    // All of these throw std::runtime_error without a valid answer.
    StatsLine(const Target& target, double connect_wait_s, double answer_wait_s);
    ~StatsLine();
    StatsLine(const StatsLine&) = delete;
    StatsLine& operator=(const StatsLine&) = delete;

    // `stats GROUP`: values by name.
    std::map<std::string, std::string> ask(const std::string& group);
    void answer_within(double answer_wait_s) { answer_wait_s_ = answer_wait_s; }

    [[noreturn]] void fail(const std::string& what) const;

  private:
    void wait_for(short events) const;

    const std::string where_;
    const int fd_;
    double answer_wait_s_;
};

class ServerStats {
  public:
    // By name; values that are not numbers are left out.
    using Numbers = std::map<std::string, uint64_t>;

    // All of these throw std::runtime_error when a server does not answer.
    explicit ServerStats(const std::vector<Target>& servers);
    ~ServerStats();
    ServerStats(const ServerStats&) = delete;
    ServerStats& operator=(const ServerStats&) = delete;

    Numbers proxies();  // `stats proxy`
    Numbers nodes();    // `stats node NAME`
    std::string policy();  // the nodes' common policy; empty if they differ

  private:
    void add(StatsLine& line, const std::string& group, Numbers& to);

    std::vector<std::unique_ptr<StatsLine>> lines_;  // at least one
    std::vector<std::string> nodes_;
};

}  // namespace farcached::bench
