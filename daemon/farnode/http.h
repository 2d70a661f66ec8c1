// SPDX-License-Identifier: BSD-3-Clause
// FarnodeHttp: farnode's HTTP endpoints (process/http_listener.h): /metrics for Prometheus, /healthz, and /readyz, which
// returns 503 once the node begins to stop.
//
// Owner: main; answer() is called in the listener's thread.
#pragma once

#include <atomic>

#include "base/node_clock.h"
#include "node/node_stats.h"
#include "process/http_listener.h"

namespace farcached::node {

class FarnodeHttp {
  public:
    FarnodeHttp(const NodeStats& stats, NodeReading (*clock)()) : stats_(stats), clock_(clock) {}
    void answer(const process::HttpRequest& request, const process::HttpListener::Reply& reply) const;
    void set_stopping() { stopping_ = true; }

  private:
    const NodeStats& stats_;
    NodeReading (*const clock_)();
    std::atomic<bool> stopping_{false};
};

}  // namespace farcached::node
