// SPDX-License-Identifier: BSD-3-Clause
// What farcached shows of its state to others than clients. ServiceStatus: the status line for the service manager.
// HttpPages: the pages that it serves over HTTP (process/http_listener.h):
//
//     /              status page in HTML, which fetches the next two every two seconds
//     /status.json   its numbers
//     /history.json  its charts: the last ten minutes
//     /metrics       all numbers, in Prometheus's format or in OpenMetrics
//     /healthz       200: the process answers
//     /readyz        200: clients are served; 503: they are not, with the reason
//
// Owner: the listener's thread, except for set_stopping(); of ServiceStatus the supervisor's.
// P1  An internal session with a worker sends each node `stats node NAME all`, once for all waiting requests. Nodes that do not
//     answer in time are omitted.
// P2  No worker waits for this, or does more than serve that session's requests.
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/farcached/server.h"
#include "daemon/http/history.h"
#include "daemon/stats/metrics.h"
#include "daemon/stats/server_view.h"
#include "daemon/stats/stats_sample.h"
#include "process/http_listener.h"
#include "process/http_servers.h"

struct bufferevent;

namespace farcached::daemon {

class Discovered;  // daemon/farcached/discovered.h

// "3/4 nodes up (b is down: Connection refused), 120 clients, 5301 requests/s".
class ServiceStatus {
  public:
    // Both outlive this. nodes: nullptr if none are configured.
    ServiceStatus(const Server& server, const NodesView* nodes) : server_(server), nodes_(nodes) {}

    std::string text();
    // The line of a start: version, addresses, workers, nodes up. http: the address of HTTP; empty: none.
    std::string started(std::string_view http) const;

  private:
    void measure();

    const Server& server_;
    const NodesView* const nodes_;
    std::chrono::steady_clock::time_point since_{};
    uint64_t requests_ = 0;
    uint64_t per_second_ = 0;
};

class HttpPages {
  public:
    // All outlive this.
    struct Parts {
        const Embedded* embedded;  // nullptr in front of nodes
        Server& server;
        const WatchHub& watch;
        process::HttpServers& http;
        std::string version;
        const Discovered* discovered = nullptr;  // nullptr: no --discover
    };
    explicit HttpPages(const Parts& parts);
    // After the listener has stopped.
    ~HttpPages();
    HttpPages(const HttpPages&) = delete;
    HttpPages& operator=(const HttpPages&) = delete;

    void answer(const process::HttpRequest& request, process::HttpListener::Reply reply);
    // Any thread: from now on not ready.
    void set_stopping() { stopping_ = true; }

  private:
    using Told = std::function<void(const std::string& told)>;
    struct FreeStream {
        void operator()(bufferevent* stream) const;
    };

    static void on_read(bufferevent*, void* pages);
    static void on_end(bufferevent*, short what, void* pages);
    static void on_late(evutil_socket_t, short, void* pages);

    MetricsSource source_of(const Sample& sample, const std::vector<NodeNumbers>& told) const;
    process::HttpAnswer metrics(const std::string& accept, const std::string& told) const;
    process::HttpAnswer status(const std::string& told) const;
    http::HistoryReading read_history();
    process::HttpAnswer ready() const;
    std::string not_ready() const;

    void ask_nodes(Told then);
    bool open_stream();
    void take_lines();
    void take_line(std::string_view line);
    bool write_requests();
    template <class Do>
    void with_memory(Do&& body) noexcept;
    void end_node(bool answered);
    void finish();

    const Parts parts_;
    LatencyTotals latency_before_;  // of the last reading
    http::HistorySampler history_;
    std::atomic<bool> stopping_{false};
    std::unique_ptr<bufferevent, FreeStream> stream_;  // P1
    event late_event_{};
    std::vector<Told> waiting_;  // empty: no request to nodes is under way
    std::string told_, text_;    // of the nodes that have answered; of the current one
    std::vector<std::string> asked_;  // their names
    size_t answering_ = 0;       // the current one's index in asked_
};

}  // namespace farcached::daemon
