// SPDX-License-Identifier: BSD-3-Clause
// The statistics of running servers, read over the text protocol. StatsLine: a connection that asks for them. ServerStats: the
// counters of farcached daemons and of the nodes behind them. GetShares: a load's GETs as a farcached with nodes answered
// them: the one-sided share, and the reasons of the others (proxy/onesided_share.h).
//
// Owner: one thread each.
// A1  proxies() is the sum over the servers, nodes() the sum over the nodes, which all servers share.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/load/options.h"

namespace farcached::bench {

// StatsLine: a connection that reads a server's statistics over the text protocol.
//
// Owner: one thread. Each request waits for its reply.
class StatsLine {
  public:
    // All of these throw std::runtime_error without a valid answer.
    StatsLine(const Target& target, double answer_wait_s);
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

struct GetShares {
    using Rows = std::vector<std::pair<std::string, uint64_t>>;

    uint64_t onesided = 0;
    uint64_t all = 0;  // GETs through connections to nodes
    Rows reasons;      // each reason, in the table's order
    Rows denials;      // each bound that denied pointers

    double share() const { return all == 0 ? 0 : double(onesided) / double(all); }
};

// Names and values from `stats proxy`.
using ProxyStats = std::map<std::string, std::string>;

// None: not a farcached with nodes. An earlier version of farcached may lack some counters.
std::optional<GetShares> get_shares(const ProxyStats& before, const ProxyStats& after);

// Reads the counters of a load's server, of any kind, over a second connection. Owner: one thread.
class ShareMeter {
  public:
    // Never throws: a server that does not answer as a farcached with nodes is not queried again.
    explicit ShareMeter(const Target& server);

    void begin();
    std::optional<GetShares> end();

  private:
    std::optional<ProxyStats> ask();

    std::unique_ptr<StatsLine> line_;  // nullptr: do not query
    std::optional<ProxyStats> before_;
};

}  // namespace farcached::bench
