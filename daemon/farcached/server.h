// SPDX-License-Identifier: BSD-3-Clause
// Server: the listeners, the accepting thread, the workers, and the table of connections.
//
// Owner: main, which calls listen(), start(), stop() once each, in this order, from one thread.
// R1  At most connections_max clients at a time. A further one gets an error and is closed, or, without reject_over_limit,
//     waits in the backlog until another leaves.
// R2  The operator's connections (admin_path) do not count towards the limit, and are accepted above it.
// R3  A session is in the table from before its first byte is read until after its last is written.
// R4  Sockets passed by the service manager stay open: clients that connect while this server stops wait for the next one.
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "conf/exit_status.h"
#include "conf/words.h"
#include "daemon/engine/session_memory.h"
#include "daemon/session/listen.h"
#include "daemon/session/worker.h"
#include "daemon/stats/server_view.h"
#include "process/admin_socket.h"
#include "process/log.h"
#include "process/passed_sockets.h"
#include "process/process.h"
#include "process/supervisor.h"

namespace farcached::daemon {

struct ListenAt {
    std::string host;      // empty: all interfaces, IPv4 and IPv6
    uint16_t port = 0;     // 0: chosen by the kernel
    SessionProtocol protocol = SessionProtocol::any;
};

struct ServerOptions {
    std::vector<ListenAt> tcp;
    std::string unix_path;          // not empty: instead of tcp
    uint32_t unix_mode = 0700;
    std::string admin_path;         // the operator's Unix socket; empty: none
    std::vector<process::PassedSocket> passed;  // not empty: instead of tcp and unix_path
    process::PassedSocket admin_passed;         // with a descriptor: instead of admin_path
    std::string interfaces;         // the argument of -l, for error messages
    int backlog = 1024;
    SessionProtocol protocol = SessionProtocol::any;
    uint32_t threads = 4;
    std::vector<uint32_t> worker_cpus;  // CPUs for the workers, round robin; empty: not pinned
    uint32_t connections_max = 1024;
    bool reject_over_limit = true;
    SocketBackend io = SocketBackend::libevent;
    uint64_t session_bytes_max = SessionMemory::limit_for(UINT64_C(64) << 20, /* embedded= */ true);  // of all clients' buffers
    WorkerOptions worker;
};

// Settings that a reload may change.
struct LiveOptions {
    uint32_t connections_max = 1024;
    bool reject_over_limit = true;
    WorkerLive worker;
};

class Server final : public ServerView, public SessionEvents {
  public:
    explicit Server(const ServerOptions& options);
    ~Server() override;
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    // Binds and listens. Error text and status are memcached's.
    conf::Refusal listen();
    const std::vector<process::BoundPort>& ports() const { return ports_; }

    // All outlive the server. Throws std::system_error if a thread cannot start. nodes: as for Worker.
    void start(node::Node* node, Nodes* nodes, const EngineOptions& engine, Admin& admin, WatchHub& watch);
    // Between start() and stop(). make_change() may throw std::bad_alloc, with no effect.
    class Change;
    struct FreeChange {
        void operator()(Change* change) const;
    };
    using OwnedChange = std::unique_ptr<Change, FreeChange>;
    OwnedChange make_change(const LiveOptions& options) const;
    // Returns when every worker has applied the options and taken the current set of nodes. False: some are still busy after
    // seconds; they apply them later.
    bool carry_out(OwnedChange change) noexcept;
    void stop();
    // Serves an internal client that uses the text protocol over a stream socket; any thread, between start() and stop().
    // Counted as a connection, but not limited.
    void serve_own(int fd);

    // After start(): the threads that the supervisor watches until stop().
    std::vector<process::Watched> watched();
    uint64_t clients() const { return connections_.load(std::memory_order_relaxed); }

    NodeSeconds now() const override;
    int64_t started_unix() const override;
    uint32_t worker_count() const override { return uint32_t(workers_.size()); }
    const WorkerCounters& worker_counters(uint32_t worker) const override;
    const proxy::LocalGetCounters* local_counters(uint32_t worker) const override;
    const LatencyCounters* latency_counters(uint32_t worker) const override;
    void each_slow(FunctionRef<void(const SlowRequest&)> visit) const override;
    uint32_t workers_on_ring() const override;
    uint32_t hot_keys_one_in() const override { return hot_keys_one_in_.load(std::memory_order_relaxed); }
    HotKeys* hot_keys(uint32_t worker) override { return &workers_[worker]->hot_keys(); }
    ServerNumbers numbers() const override;
    void each_connection(FunctionRef<void(const ConnectionInfo&)> visit) const override;
    void each_close_reason(
        FunctionRef<void(std::string_view name, uint64_t count)> visit) const override;
    NodesView* nodes() const override { return nodes_; }
    void shut_down(bool graceful) override { process::Signals::ask_to_stop(graceful); }
    void reload() override { process::Signals::ask_to_reload(); }

  private:
    struct Listener {
        Server* server = nullptr;
        int fd = -1;
        SessionProtocol protocol = SessionProtocol::any;
        bool passed = false;
        std::string address;
        event readiness{};
    };
    struct FreeBase {
        void operator()(event_base* base) const { event_base_free(base); }
    };

    static void on_accept(evutil_socket_t, short, void* listener);
    static void on_wake(evutil_socket_t, short, void* server);
    static void on_retry(evutil_socket_t, short, void* server);

    conf::Refusal listen_tcp(const ListenAt& at);
    conf::Refusal listen_unix();
    void add_listener(const Listening& socket, SessionProtocol protocol);
    bool try_ring();
    void tell_fallback(std::string_view why);
    void wake();
    void accept_some(Listener& listener);
    void enter_operator(int fd);
    bool admit(int fd);
    void starve(int error);
    void feed();
    void suspend(bool for_a_moment);
    void hand_over(Worker& to, NewConnection connection) noexcept;
    template <class Line>
    void tell_watchers(Line&& line) noexcept;
    void resume();

    void opened(Session& session) override;
    void closed(Session& session, SessionEnd why) noexcept override;
    void not_opened() noexcept override;
    void descriptor_closed(bool admin) override;

    const ServerOptions options_;
    std::vector<process::BoundPort> ports_;
    std::vector<std::unique_ptr<Listener>> listeners_;
    Listening unix_socket_;
    std::unique_ptr<process::AdminSocket> admin_socket_;
    std::unique_ptr<event_base, FreeBase> base_;
    event wake_event_{}, retry_event_{};
    int wake_fd_ = -1;
    std::thread thread_;
    process::Heartbeat heartbeat_;
    std::atomic<bool> stopping_{false};
    SessionMemory session_memory_;
    std::vector<std::unique_ptr<Worker>> workers_;
    size_t next_worker_ = 0;
    WatchHub* watch_ = nullptr;
    Nodes* nodes_ = nullptr;

    std::atomic<uint32_t> connections_max_;
    std::atomic<bool> reject_over_limit_;
    std::atomic<uint32_t> hot_keys_one_in_;
    std::atomic<uint64_t> connections_{0}, total_{0}, rejected_{0};
    std::atomic<uint64_t> disabled_num_{0}, disabled_us_{0};
    std::atomic<bool> accepting_{true};
    uint64_t disabled_since_us_ = 0;
    bool starved_ = false;                 // no descriptor for the last connection
    process::LimitedLines no_memory_lines_;
    process::LimitedLines starved_lines_;  // of the beginning and end of that
    std::array<std::atomic<uint64_t>, size_t(SessionEnd::count)> ends_{};

    mutable std::mutex lock_;
    std::vector<Session*> sessions_;  // under lock_
};

}  // namespace farcached::daemon
