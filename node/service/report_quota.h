// SPDX-License-Identifier: BSD-3-Clause
// ReportQuota: the byte-seconds that one proxy's reports may lease. A renewed lease costs the item's bytes times the seconds
// added to its end. A share of B bytes, for leases of up to S seconds, earns B byte-seconds per second, and saves up to B * S.
//
// Owner: of a ReportQuotas the ServiceShared of all connections. The connections of a proxy share a ReportQuota. Threads: any.
// U1  In any t seconds, reports cost at most B * (t + S), plus one lease for each thread. With terms of S, they lease at most 2
//     B bytes at once, and B in the long run.
// U2  A proxy that reconnects under a name finds the rest of its quota, so reconnecting gains nothing. The lease zone bounds a
//     proxy that lies about its name, as all proxies (S8).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/node_clock.h"

namespace farcached::node {

class Node;

constexpr double report_share_default = 0.25;  // of the leasable bytes: share of one proxy's reports

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
    // Keeps the rest of the quota, up to the new maximum.
    void change(const Share& share);

  private:
    uint64_t full() const { return share_.bytes * share_.longest_s; }
    void earn(NodeSeconds now);

    std::mutex lock_;
    Share share_;  // under lock_, as all below
    uint64_t left_;
    NodeSeconds earned_at_;
};

// Share of the leasable bytes, with the current terms. share: 0 to 1.
ReportQuota::Share report_share_of(const Node& node, double share);

// The quotas of all proxies of a node, by proxy name. Any thread.
class ReportQuotas {
  public:
    static constexpr size_t unused_max = 4096;  // unused quotas kept until they are full again

    std::shared_ptr<ReportQuota> of(const std::string& proxy, const ReportQuota::Share& share, NodeSeconds now);
    // Changes all quotas, on a reload.
    void change(const ReportQuota::Share& share);

  private:
    std::mutex lock_;
    std::map<std::string, std::shared_ptr<ReportQuota>> quotas_;
};

}  // namespace farcached::node
