// SPDX-License-Identifier: BSD-3-Clause
// Reports: accesses that the node did not see: sent with requests, or in reports, whose replies carry new leases.
//
// Owner: a NodeService (service.h), in the connection's thread.
//
// R1  A report gets report_us_max; the proxy sends the rest again.
// R2  The contents are untrusted: each record counts for the item it names, if that exists, and renewals stay within the proxy's
//     share (report_quota.h).
// R3  A report in the container (fabric/channel.h, C7) is copied out first, then treated alike.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "node/service/connection.h"
#include "node/service/report_quota.h"
#include "protocol/frame_request.h"

namespace farcached::node {

constexpr uint32_t report_us_max = 500;  // time limit of a report

class Reports {
  public:
    explicit Reports(const Connection& connection) : connection_(connection) {}

    // The proxy is welcomed. term_ms_max: the longest term in a report's reply.
    void welcome(std::shared_ptr<ReportQuota> quota, uint32_t term_ms_max) {
        quota_ = std::move(quota);
        term_ms_max_ = term_ms_max;
    }
    // An error: a protocol violation.
    protocol::FrameError accesses(const protocol::Frame& frame);
    protocol::FrameError report(const protocol::Frame& frame, bool written = false);
    // A report of that many bytes is in the container.
    protocol::FrameError written(size_t bytes);

  private:
    bool possible(const protocol::ItemAccess& record, Access& access) const;
    uint32_t renew(const protocol::ItemAccess& record, NodeSeconds now);

    const Connection& connection_;
    std::shared_ptr<ReportQuota> quota_;  // once greeted
    uint32_t term_ms_max_ = 0;
    OutBuffer answer_;  // a report's reply under construction
};

}  // namespace farcached::node
