// SPDX-License-Identifier: BSD-3-Clause
// ServerStats: what running farcached count, and the nodes behind them, asked for over the text protocol.
//
// Owner: one thread. Each question waits for its answer, at most answer_wait_s.
// A1  proxies() is the sum over the servers, nodes() that over the nodes, which all servers have in common.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/options.h"

namespace farcached::bench {

class ServerStats {
  public:
    // By name; what is no number is left out.
    using Numbers = std::map<std::string, uint64_t>;

    // All of these throw std::runtime_error when a server does not answer.
    explicit ServerStats(const std::vector<Target>& servers);
    ~ServerStats();
    ServerStats(const ServerStats&) = delete;
    ServerStats& operator=(const ServerStats&) = delete;

    Numbers proxies();  // `stats proxy`
    Numbers nodes();    // `stats node NAME`
    std::string policy();  // of the nodes; empty if they differ

  private:
    struct Line;
    std::map<std::string, std::string> ask(Line& line, const std::string& group);
    void add(Line& line, const std::string& group, Numbers& to);

    std::vector<std::unique_ptr<Line>> lines_;  // at least one
    std::vector<std::string> nodes_;
};

}  // namespace farcached::bench
