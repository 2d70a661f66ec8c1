// SPDX-License-Identifier: BSD-3-Clause
// What a farnode says over HTTP (process/http_listener.h): /metrics for Prometheus, /healthz, and /readyz, which is 503 from
// when the node begins to stop.
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
