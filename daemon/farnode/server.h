// SPDX-License-Identifier: BSD-3-Clause
// FarnodeServer: farnode's listeners, the accepting thread, and the loops that serve connections.
//
// Owner: main, from one thread: add listeners, then start() and stop() once each. Loops receive connections round-robin.
// The accepting thread also executes a scheduled flush while no requests arrive.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#include "base/result.h"
#include "conf/settings.h"
#include "daemon/farnode/admin.h"
#include "daemon/farnode/loop.h"
#include "fabric/channel.h"
#include "fabric/owner.h"
#include "fabric/region.h"
#include "fabric/shm/shm_channel.h"
#include "fabric/tcp_channel.h"
#include "fabric/verbs/verbs_channel.h"
#include "node/service/node_stats.h"
#include "node/service/service.h"
#include "node/store/flush_schedule.h"
#include "process/log.h"
#include "process/process.h"
#include "process/service_manager.h"
#include "process/supervisor.h"

namespace farcached::node {

class FarnodeServer {
  public:
    struct Options {
        uint32_t threads = 4;
        FetchPool* fetches = nullptr;  // as in ServiceShared
        ServiceLimits limits = {};
        bool needs_right = false;  // serves only while right() allows it (S17)
    };
    // Node, stats and facts outlive this. Throws std::system_error.
    FarnodeServer(Node& node, NodeStats& stats, const NodeFacts& facts, NodeReading (*clock)(),
                  const Options& options);
    ~FarnodeServer();
    FarnodeServer(const FarnodeServer&) = delete;
    FarnodeServer& operator=(const FarnodeServer&) = delete;

    void add(std::unique_ptr<fabric::ChannelListener> listener, protocol::RegionAccess access);
    // Serves the admin socket in the accepting thread. The reloader outlives this.
    void add_admin(std::unique_ptr<process::AdminSocket> socket, const process::Reloader& reloader);
    // On a reload, from any thread: applies to connections that arrive later. report_share applies to all connections at once.
    // memory_bytes: the memory limit, which sets the budget of connections.
    void change(uint32_t greeting_ms, double report_share, uint64_t memory_bytes);
    // Before start(), if proxies must authenticate, and on a reload, from any thread: connections whose key is gone end.
    void use_keys(std::shared_ptr<const protocol::AuthKeys> keys);
    // Throws std::system_error if a thread cannot be created.
    void start();
    // Of this node as a member of a fleet (S17).
    ServingRight& right() { return shared_.right; }
    const ServingRight& right() const { return shared_.right; }
    ListEpoch& list() { return shared_.list; }
    // After start(): the serving threads, which the supervisor watches until stop().
    std::vector<process::Watched> watched();
    uint64_t connections() const;
    std::string places() const;  // "shm:/run/a.sock, tcp:127.0.0.1:11300"
    // A flush that was scheduled before a restart.
    void schedule_flush(NodeSeconds when, NodeSeconds now) { flushes_.schedule(when, now); }
    // All items are gone when it returns; a scheduled flush stays. From any thread.
    void drop_items(NodeSeconds now) { flushes_.flush_early(now); }
    // After start() and before stop(): no request is executed any more that began before, and no value is read on another node by a
    // sublease of before. From any thread but the loops'.
    void end_steps();
    // Stops accepting, sends a goodbye to every proxy, and waits up to patience_ms for them.
    void stop(protocol::Goodbye why, uint32_t patience_ms);

  private:
    struct Listener {
        FarnodeServer& server;
        std::unique_ptr<fabric::ChannelListener> listener;
        protocol::RegionAccess access;
        event readable{};
        uint64_t turned_away = 0;  // of those that the listener counts: already logged
    };
    static void on_accept(evutil_socket_t, short, void* listener);
    static void on_wake(evutil_socket_t, short, void* server);
    static void on_flush_tick(evutil_socket_t, short, void* server);
    void accept_from(Listener& from);
    static void on_accept_again(evutil_socket_t, short, void* server);
    void tell_turned_away(Listener& by);
    bool must_wait();
    void rest();

    FlushSchedule flushes_;
    ServiceShared shared_;
    const NodeFacts& facts_;
    const NodeStats& stats_;
    EventBase base_;
    event wake_event_{}, flush_event_{}, accept_again_{};
    process::LoopWaker waker_;
    std::atomic<bool> stopping_{false};
    std::list<Listener> listeners_;
    ServiceCounters counters_;               // of the accepting thread
    process::LimitedLines turned_away_lines_;
    std::unique_ptr<FarnodeAdmin> admin_;
    std::vector<std::unique_ptr<Loop>> loops_;
    size_t next_loop_ = 0;
    std::thread thread_;
};

// ---- the listeners: names are resolved to addresses. A failure is a message with an exit status --------------
using TcpListeners = std::vector<std::unique_ptr<fabric::TcpListener>>;
using VerbsListeners = std::vector<std::unique_ptr<fabric::VerbsListener>>;

// One listener for each address of the host; none if TCP is off. May wait for a name server. With port 0 the kernel chooses a
// port for each. Sockets passed by the service manager are used instead.
Result<TcpListeners> listen_tcp(const conf::NodeSettings& settings, const std::vector<process::PassedSocket>& passed,
                                const fabric::PeerTls* tls);
// Registers the offered memory. The offer and the devices outlive the listeners.
Result<VerbsListeners> listen_verbs(const conf::NodeSettings& settings, const fabric::VerbsOffer& offer,
                                    fabric::VerbsDevices& devices);
// Holds the name's lock, so an existing socket of that name belongs to a dead node. authenticates: proxies map the region when they
// have proved a key.
Result<std::unique_ptr<fabric::ChannelListener>> listen_shm(const conf::NodeSettings& settings, const fabric::Owner& owner,
                                                            const fabric::Region& region, bool authenticates);

// The bound ports; writes their numbers to $FARNODE_PORT_FILENAME.
std::vector<process::BoundPort> write_ports(const TcpListeners& tcp, const VerbsListeners& verbs);

}  // namespace farcached::node
