// SPDX-License-Identifier: BSD-3-Clause
// HttpPages: what a farcached says over HTTP (process/http_listener.h):
//
//     /             a page for people, which fetches /status.json every two seconds
//     /status.json  the numbers on it
//     /metrics      all numbers, for Prometheus, in its format or in OpenMetrics
//     /healthz      200: the process answers
//     /readyz       200: clients are served; 503 with a sentence: they are not, and why
//
// Owner: the listener's thread, but for set_stopping().
// P1  Nodes are asked by a session of this process's own with a worker, as an operator would ask, `stats node NAME all` each;
//     once for all who wait for that. Who does not answer in time is left out.
// P2  No worker waits for this, or is asked for more than that session's requests.
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/server.h"
#include "daemon/stats_sample.h"
#include "node/crawler.h"
#include "process/http_listener.h"

struct bufferevent;

namespace farcached::daemon {

class HttpPages {
  public:
    // All outlive this; `base` is the listener's.
    struct Parts {
        const node::Node& node;
        Server& server;
        const WatchHub& watch;
        const node::Crawler& crawler;
        event_base* base;
        std::string version;
    };
    explicit HttpPages(const Parts& parts);
    // After the listener was stopped.
    ~HttpPages();
    HttpPages(const HttpPages&) = delete;
    HttpPages& operator=(const HttpPages&) = delete;

    void answer(const process::HttpRequest& request, process::HttpListener::Reply reply);
    // Any thread: clients are turned away from now on.
    void set_stopping() { stopping_ = true; }

  private:
    using Told = std::function<void(const std::string& told)>;
    struct FreeStream {
        void operator()(bufferevent* stream) const;
    };

    static void on_read(bufferevent*, void* pages);
    static void on_end(bufferevent*, short what, void* pages);
    static void on_late(evutil_socket_t, short, void* pages);

    process::HttpAnswer metrics(const std::string& accept, const std::string& told) const;
    process::HttpAnswer status(const std::string& told) const;
    process::HttpAnswer ready() const;
    std::string not_ready() const;

    void ask_nodes(Told then);
    bool open_stream();
    void take_lines();
    void take_line(const std::string& line);
    void end_node(bool answered);
    void finish();

    const Parts parts_;
    std::atomic<bool> stopping_{false};
    std::unique_ptr<bufferevent, FreeStream> stream_;  // P1
    event late_event_{};
    std::vector<Told> waiting_;  // empty: nobody asks
    std::string told_, text_;    // of the nodes that have answered; of the one that is answering
    std::vector<std::string> asked_;  // their names
    size_t answering_ = 0;       // its place in asked_
};

}  // namespace farcached::daemon
