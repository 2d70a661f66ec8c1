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

#include "bench/load/stats_line.h"

namespace farcached::bench {

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
