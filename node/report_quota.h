// SPDX-License-Identifier: BSD-3-Clause
// ReportQuota: what one proxy's reports may keep leased, in byte-seconds: a renewed lease costs the item's bytes times the
// seconds by which its end moves. A share of B bytes, for leases of up to S seconds, earns B byte-seconds a second, and
// saves up to B * S of them.
//
// Any thread; all connections of a proxy use one together.
// U1  In any t seconds reports cost at most B * (t + S), and for each thread one lease more: with terms of S, never more
//     than 2 B bytes are leased by them at once, and B if they go on for long.
// U2  Who comes again under a name finds what was left, so that nothing is gained by connecting anew. A proxy that lies
//     about its name too is bounded by the lease zone, as all are (S8).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/node_clock.h"

namespace farcached::node {

class Node;

constexpr double report_share_default = 0.25;  // of what may be leased: what one proxy's reports may keep so

class ReportQuota {
  public:
    struct Share {
        uint64_t bytes = 0;      // B
        uint32_t longest_s = 0;  // S
    };
    ReportQuota(const Share& share, NodeSeconds now) : share_(share), left_(full()), earned_at_(now) {}

    // Byte-seconds.
    uint64_t left(NodeSeconds now);
    void spend(uint64_t byte_s);
    bool is_full(NodeSeconds now);
    // What was left stays, as far as there may be so much.
    void change(const Share& share);

  private:
    uint64_t full() const { return share_.bytes * share_.longest_s; }
    void earn(NodeSeconds now);

    std::mutex lock_;
    Share share_;  // under lock_, as the rest
    uint64_t left_;
    NodeSeconds earned_at_;
};

// Of what the node may lease, by the terms of the moment. share: 0 to 1.
ReportQuota::Share report_share_of(const Node& node, double share);

// Of all proxies of a node, by what they call themselves. Any thread.
class ReportQuotas {
  public:
    static constexpr size_t unused_max = 4096;  // that are remembered until they are full again

    std::shared_ptr<ReportQuota> of(const std::string& proxy, const ReportQuota::Share& share, NodeSeconds now);
    // Of all of them, by a reload.
    void change(const ReportQuota::Share& share);

  private:
    std::mutex lock_;
    std::map<std::string, std::shared_ptr<ReportQuota>> quotas_;
};

}  // namespace farcached::node
