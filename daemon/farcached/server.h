// SPDX-License-Identifier: BSD-3-Clause
// Server: the acceptor, the workers, and the table of connections.
//
// Owner: main, which calls listen(), start(), stop() once each, in this order, from one thread.
// R3  A session is in the table from before its first byte is read until after its last is written.
#pragma once

#include <array>
#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <semaphore>
#include <string_view>
#include <vector>

#include "conf/program.h"
#include "conf/words.h"
#include "daemon/engine/mailroom.h"
#include "daemon/engine/session_memory.h"
#include "daemon/farcached/acceptor.h"
#include "daemon/farcached/udp_sockets.h"
#include "daemon/session/worker.h"
#include "daemon/stats/server_view.h"
#include "process/log.h"
#include "process/node_time.h"
#include "process/process.h"
#include "process/supervisor.h"

namespace farcached::daemon {

struct ServerOptions : AcceptOptions {
    uint32_t threads = 4;
    std::vector<uint32_t> worker_cpus;  // CPUs for the workers, round robin; empty: not pinned
    SocketBackend io = SocketBackend::libevent;
    UdpOptions udp;
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

    // Binds and listens. Error text and status are memcached's.
    conf::Refusal listen();
    const std::vector<process::BoundPort>& ports() const { return ports_; }

    // All outlive the server. Throws std::system_error if a thread cannot start. nodes: as for Worker.
    void start(node::Node* node, Nodes* nodes, const EngineOptions& engine, Admin& admin, WatchHub& watch);
    // New options, with all the memory that the change needs. Between start() and stop(). make_change() may throw
    // std::bad_alloc, with no effect.
    struct Change {
        LiveOptions options;
        std::shared_ptr<std::counting_semaphore<>> applied;  // released once by each worker
        std::vector<std::list<Inbox::Change>> of_workers;  // one each
    };
    Change make_change(const LiveOptions& options) const;
    // Returns when every worker has applied the options and taken the current set of nodes. False: some are still busy after
    // seconds; they apply them later.
    bool carry_out(Change&& change) noexcept;
    void stop();
    // Serves an internal client that uses the text protocol over a stream socket; any thread, between start() and stop().
    // Counted as a connection, but not limited.
    void serve_own(int fd);

    // After start(): the threads that the supervisor watches until stop().
    std::vector<process::Watched> watched();
    uint64_t clients() const { return acceptor_.clients(); }

    NodeSeconds now() const override { return process::node_now(); }
    int64_t started_unix() const override { return process::node_started_unix(); }
    uint32_t worker_count() const override { return uint32_t(workers_.size()); }
    const WorkerCounters& worker_counters(uint32_t worker) const override { return workers_[worker]->counters(); }
    const proxy::LocalGetCounters* local_counters(uint32_t worker) const override { return workers_[worker]->local_counters(); }
    const LatencyCounters* latency_counters(uint32_t worker) const override;
    void each_slow(FunctionRef<void(const SlowRequest&)> visit) const override;
    uint32_t workers_on_ring() const override;
    uint32_t hot_keys_one_in() const override { return hot_keys_one_in_.load(std::memory_order_relaxed); }
    HotKeys* hot_keys(uint32_t worker) override { return &workers_[worker]->hot_keys(); }
    ServerNumbers numbers() const override;
    void each_connection(FunctionRef<void(const ConnectionInfo&)> visit) const override;
    // One visit for each address.
    void each_listener(FunctionRef<void(const ConnectionInfo&)> visit) const {
        acceptor_.each_listener(visit);
        udp_.each_address(visit);
    }
    void each_close_reason(
        FunctionRef<void(std::string_view name, uint64_t count)> visit) const override;
    NodesView* nodes() const override { return nodes_; }
    void shut_down(bool graceful) override { process::Signals::ask_to_stop(graceful); }
    void reload() override { process::Signals::ask_to_reload(); }

  private:
    bool try_ring();
    void tell_fallback(std::string_view why);
    void hand_over(Worker& to, NewConnection connection) noexcept;
    void tell_tls_failure(const Session& session, SessionEnd why) noexcept;
    template <class Line>
    void tell_watchers(Line&& line) noexcept;

    void opened(Session& session) override;
    void closed(Session& session, SessionEnd why) noexcept override;
    void not_opened() noexcept override;
    void descriptor_closed(bool admin) override { acceptor_.left(admin); }

    const ServerOptions options_;
    Acceptor acceptor_;
    UdpSockets udp_;
    std::vector<process::BoundPort> ports_;
    SessionMemory session_memory_;
    std::unique_ptr<Mailroom> room_;  // with nodes
    std::vector<std::unique_ptr<Worker>> workers_;
    size_t next_worker_ = 0;
    WatchHub* watch_ = nullptr;
    Nodes* nodes_ = nullptr;

    std::atomic<uint32_t> hot_keys_one_in_;
    process::LimitedLines no_memory_lines_, tls_lines_;
    std::array<std::atomic<uint64_t>, size_t(SessionEnd::count)> ends_{};

    mutable std::mutex lock_;
    std::vector<Session*> sessions_;  // under lock_
};

}  // namespace farcached::daemon
