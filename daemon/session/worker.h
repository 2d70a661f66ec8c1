// SPDX-License-Identifier: BSD-3-Clause
// Worker: a thread with an event loop and the sessions that were given to it.
//
//   other threads -> Inbox -> Worker -> Sessions -> SessionOutput, RoomKeeper, TlsLayer, SessionList, SocketIo
//                                |\-> Datagrams, of UDP
//                                \-> Links, to the nodes
//
// Owner: the Server.
// W1  All but inbox(), its wake-up and the counters belongs to the worker's thread.
// W5  With nodes, a tick's requests to them are sent at its end; answers that have arrived go to the clients.
// W6  The clock is read once for all bytes that sessions received together, and at a tick's end if a measurement waits for it
//     (daemon/stats/latency.h).
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/recorder.h"
#include "daemon/engine/disk_gets.h"
#include "daemon/engine/engine.h"
#include "daemon/engine/links.h"
#include "daemon/engine/mailroom.h"
#include "daemon/engine/readiness.h"
#include "daemon/engine/reply_queue.h"
#include "daemon/engine/router.h"
#include "daemon/remote/nodes.h"
#include "daemon/session/datagrams.h"
#include "daemon/session/sessions.h"
#include "daemon/stats/hot_keys.h"
#include "daemon/stats/latency.h"
#include "daemon/stats/watch_hub.h"
#include "daemon/steps/source_link.h"
#include "daemon/steps/stepped_requests.h"
#include "process/supervisor.h"

namespace farcached::daemon {

// Inbox: what other threads want of a worker: to take connections, to change settings, to stop, to show that it runs.
//
// Owner: the worker. Any thread may call what stands above "the worker's thread".
// I1  Whatever was put in before a wake-up is in the mail that the worker takes after it.
// I2  A request to stop stays in the mail.
class Inbox {
  public:
    // By a reload: takes effect in the worker's next tick, with the current nodes; `done` is called there.
    struct Change {
        WorkerLive live;
        std::function<void()> done;
    };
    struct Mail {
        std::vector<NewConnection> connections;
        std::list<Change> changes;
        bool stop = false;
    };

    // Throws std::bad_alloc.
    void give(NewConnection connection) {
        put([&] { mail_.connections.push_back(std::move(connection)); });
    }
    void change(std::list<Change>&& one) noexcept {
        put([&] { mail_.changes.splice(mail_.changes.end(), one); });
    }
    void stop() {
        put([&] { mail_.stop = true; });
    }
    void wake() { waker_.wake(); }
    process::Watched watched(std::string name) { return waker_.watched(std::move(name)); }

    // ---- the worker's thread; but listen() before it runs ------------------------------------------------
    // woken: calls take(). `waits` outlives this.
    void listen(Waits& waits, std::function<void()> woken) {
        ready_ = waits.make_readiness(std::move(woken));
        ready_->await(waker_.fd(), /* writable= */ false);
    }
    Mail take() {
        waker_.take();
        Mail taken;
        std::lock_guard hold(lock_);
        std::swap(taken, mail_);
        mail_.stop = taken.stop;  // I2
        return taken;
    }
    // At the end of the thread: only it may use a ring.
    void shut() { ready_->stop(); }

  private:
    template <class Add>
    void put(Add add) {
        std::lock_guard hold(lock_);
        add();
        wake();
    }

    process::LoopWaker waker_;
    std::unique_ptr<Readiness> ready_;
    std::mutex lock_;
    Mail mail_;  // under lock_
};

struct WorkerOptions : WorkerLive {
    uint32_t number = 0;  // of the worker
    int cpu = -1;         // pinned to this CPU; -1: not pinned
    bool ring = false;    // io_uring sockets, if available
    SessionMemory* memory = nullptr;  // of all workers' sessions; this and the next two outlive them
    WarmSource* warm = nullptr;       // of warm_from; nullptr: none
    const TlsKeys* tls = nullptr;     // nullptr: clients are plain
    std::vector<UdpSocket*> udp;      // its own; borrowed
};

class Worker final : private TurnTimer {
  public:
    // The clients' requests go to `node`, the embedded one, or to `nodes`, with `room`; the others are nullptr.
    Worker(node::Node* node, Nodes* nodes, Mailroom* room, const EngineOptions& engine, Admin& admin, WatchHub& watch,
           SessionEvents& events, const WorkerOptions& options);
    ~Worker() override;

    void start();
    // A stop serves all bytes received so far, also those in the kernel, and sends the answers, for a bounded time. Then it ends
    // all sessions, serves those of other workers that borrow its links (B5), and ends the thread.
    Inbox& inbox() { return inbox_; }
    void join() {
        if (thread_.joinable()) thread_.join();
    }

    // True: io_uring serves its sockets. False: ring_refusal() has the reason if io_uring was requested.
    bool on_ring() const { return options_.ring && ring_refusal_.empty(); }
    const std::string& ring_refusal() const { return ring_refusal_; }
    const WorkerCounters& counters() const { return counters_; }
    // nullptr: without an embedded node.
    const proxy::LocalGetCounters* local_counters() const { return local_.has_value() ? &local_->counters() : nullptr; }
    const Latencies& latencies() const { return latencies_; }
    HotKeys& hot_keys() { return hot_keys_; }

  private:
    void run();
    void woken();
    void carry_out(const Inbox::Change& change);
    void measure();
    void take_permissions() noexcept;
    void take_nodes();
    void set_idle_check();
    bool answers_later() const { return links_ != nullptr || disk_ != nullptr || steps_ != nullptr; }
    void end_tick();
    void serve_borrowers();

    uint64_t timer_at_ns() override;
    void timer_due() override;

    WorkerOptions options_;
    Recorder recorder_;
    WorkerCounters counters_;
    Latencies latencies_;
    HotKeys hot_keys_;
    std::optional<LocalPeer> local_;  // the embedded node
    Context context_;
    ReplyPool replies_;  // outlives links_
    std::string ring_refusal_;
    Sessions sessions_;  // its SocketIo outlives those that it waits for
    Datagrams datagrams_;
    Inbox inbox_;
    Mailroom* const room_;  // only with links_
    std::unique_ptr<Links> links_;  // to the nodes, instead of local_
    std::unique_ptr<DiskGets> disk_;  // of the embedded node's values
    std::unique_ptr<SteppedRequests> steps_;  // nullptr: neither warm_from nor replicas
    bool must_take_ = false;  // no memory to take the nodes of a reload: retry at the next tick
    uint64_t idle_check_at_ns_ = UINT64_MAX;  // both on boottime_ns(); UINT64_MAX: never
    uint64_t stopped_at_ns_ = UINT64_MAX;
    std::thread thread_;
};

}  // namespace farcached::daemon
