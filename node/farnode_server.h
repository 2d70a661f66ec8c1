// SPDX-License-Identifier: BSD-3-Clause
// FarnodeServer: farnode's listeners, the thread that accepts, and the loops that serve.
//
// Owner: main, from one thread: add listeners, start(), stop() once each. Connections are given to the loops in turns.
// The thread that accepts also carries out a scheduled flush when nobody asks for anything.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#include "fabric/channel.h"
#include "node/farnode_admin.h"
#include "node/farnode_loop.h"
#include "node/flush_schedule.h"
#include "node/node_stats.h"
#include "node/service.h"
#include "process/log.h"
#include "process/pulse.h"
#include "process/supervisor.h"

namespace farcached::node {

class FarnodeServer {
  public:
    struct Options {
        uint32_t threads = 4;
        FetchPool* fetches = nullptr;  // as ServiceShared's
        ServiceLimits limits = {};
    };
    // Node, stats and facts outlive this. Throws std::system_error.
    FarnodeServer(Node& node, NodeStats& stats, const NodeFacts& facts, NodeReading (*clock)(),
                  const Options& options);
    ~FarnodeServer();
    FarnodeServer(const FarnodeServer&) = delete;
    FarnodeServer& operator=(const FarnodeServer&) = delete;

    void add(std::unique_ptr<fabric::ChannelListener> listener, protocol::RegionAccess access);
    // Serves the operator there, in the thread that accepts. The reloader outlives this.
    void add_admin(std::unique_ptr<process::AdminSocket> socket, const process::Reloader& reloader);
    // By a reload, from any thread: for connections that come from now on.
    // report_share: of what may be leased, of all connections at once.
    void change(uint32_t greeting_ms, double report_share);
    // Throws std::system_error when threads cannot be had.
    void start();
    // After start(): the threads that serve, as the supervisor watches them until stop().
    std::vector<process::Watched> watched();
    uint64_t connections() const;
    // Nobody is accepted any more; every proxy is told, and waited for so long.
    void stop(protocol::Goodbye why, uint32_t patience_ms);

  private:
    struct Listener {
        FarnodeServer& server;
        std::unique_ptr<fabric::ChannelListener> listener;
        protocol::RegionAccess access;
        event readable{};
        uint64_t turned_away = 0;  // of those that the listener counts, those that were told of
    };
    static void on_accept(evutil_socket_t, short, void* listener);
    static void on_wake(evutil_socket_t, short, void* server);
    static void on_flush_tick(evutil_socket_t, short, void* server);
    void accept_from(Listener& from);
    void tell_turned_away(Listener& by);
    void wake();

    FlushSchedule flushes_;
    ServiceShared shared_;
    const NodeStats& stats_;
    EventBase base_;
    event wake_event_{}, flush_event_{};
    int wake_fd_ = -1;
    process::Pulse pulse_;
    std::atomic<bool> stopping_{false};
    std::list<Listener> listeners_;
    ServiceCounters counters_;               // of the thread that accepts
    process::LimitedLines turned_away_lines_;
    std::unique_ptr<FarnodeAdmin> admin_;
    std::vector<std::unique_ptr<Loop>> loops_;
    size_t next_loop_ = 0;
    std::thread thread_;
};

}  // namespace farcached::node
