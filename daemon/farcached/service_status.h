// SPDX-License-Identifier: BSD-3-Clause
// ServiceStatus: the status line for the service manager: "3/4 nodes up (b is down: Connection refused), 120 clients, 5301
// requests/s".
//
// Owner: one thread at a time: the supervisor's.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "daemon/farcached/server.h"
#include "daemon/stats/nodes_view.h"

namespace farcached::daemon {

class ServiceStatus {
  public:
    // Both outlive this. nodes: nullptr if none are configured.
    ServiceStatus(const Server& server, const NodesView* nodes) : server_(server), nodes_(nodes) {}

    std::string text();

  private:
    void measure();

    const Server& server_;
    const NodesView* const nodes_;
    std::chrono::steady_clock::time_point since_{};
    uint64_t requests_ = 0;
    uint64_t per_second_ = 0;
};

}  // namespace farcached::daemon
