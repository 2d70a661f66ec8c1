// SPDX-License-Identifier: BSD-3-Clause
// FarnodeHttp: what farnode serves over HTTP (process/http_listener.h):
//
//     /              the status page of daemon/http, which fetches the next two every two seconds
//     /status.json   its numbers
//     /history.json  its charts: the last ten minutes
//     /metrics       all numbers, in Prometheus's format or in OpenMetrics
//     /healthz       200: the process answers
//     /readyz        200; 503 once the node begins to stop
//
// Owner: main; answer() is called in the listener's thread, set_stopping() in any.
// F1  Every number is read from counters and by the short locks of `stats`; no request of a proxy waits longer.
#pragma once

#include <event2/event.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "base/node_clock.h"
#include "daemon/http/history.h"
#include "node/service/connection.h"
#include "node/service/node_stats.h"
#include "process/http_listener.h"
#include "process/http_servers.h"

namespace farcached::node {

class FarnodeHttp {
  public:
    // All outlive this.
    struct Parts {
        const Node& node;
        const NodeStats& stats;
        const NodeFacts& facts;
        NodeReading (*clock)();
        process::HttpServers& http;
        uint16_t port;  // for proxies over TCP; 0: none
    };
    explicit FarnodeHttp(const Parts& parts);

    void answer(const process::HttpRequest& request, const process::HttpListener::Reply& reply) const;
    void set_stopping() { stopping_ = true; }

  private:
    process::HttpAnswer metrics(const std::string& accept) const;
    std::string status() const;
    http::HistoryReading read_history() const;

    const Parts parts_;
    http::HistorySampler history_;
    std::atomic<bool> stopping_{false};
};

}  // namespace farcached::node
