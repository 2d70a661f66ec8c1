// SPDX-License-Identifier: BSD-3-Clause
// GetShares: a load's GETs as a farcached with nodes answered them: the one-sided share, and the reasons of the others
// (proxy/onesided_share.h). From `stats proxy` before and after.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/load/server_stats.h"

namespace farcached::bench {

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
