// SPDX-License-Identifier: BSD-3-Clause
// Worker: a thread with an event loop and the sessions that were given to it.
//
// What a session received lies in a shared buffer while the engine works on it, and all its replies leave in one piece;
// whatever is left over goes to the session (N1). How bytes come and go is the SocketIo's business.
//
// W1  All but give(), change(), stop(), wake(), the pulse and the counters belongs to the worker's thread.
// W2  Accesses seen by lock-free reads are handed to the node before the replies they belong to are sent.
// W3  A session that used up its turn (-R requests, or a full output buffer) waits behind the others.
// W4  What a client makes its session hold is the session's risk: when there is no memory for it, that session
//     ends and the others go on.
// W5  With nodes, what a tick asks of them is sent at its end, and what they answered meanwhile goes to the clients.
// W6  The clock is read once for what sessions received together, and at a tick's end if something waits for that
//     (daemon/latency.h).
// W7  Who is told of another session while it works on one closes none: what has to end is doomed, and ends with the turn.
#pragma once

#include <event2/event.h>

#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "base/recorder.h"
#include "daemon/engine.h"
#include "daemon/hot_keys.h"
#include "daemon/latency.h"
#include "daemon/nodes.h"
#include "daemon/remote_backend.h"
#include "daemon/reply_queue.h"
#include "daemon/session.h"
#include "daemon/session_end.h"
#include "daemon/socket_io.h"
#include "daemon/watch_hub.h"
#include "process/pulse.h"

namespace farcached::daemon {

// What a reload may change of a worker.
struct WorkerLive {
    uint32_t requests_per_event = 20;
    uint32_t idle_timeout_s = 0;
    LatencyOptions latency;
    uint32_t hot_keys_one_in = 0;  // of gets and sets, for stats hotkeys; 0: none
};

struct WorkerOptions : WorkerLive {
    uint32_t number = 0;  // of the worker
    int cpu = -1;         // on which it is kept; -1: on none
    bool ring = false;    // sockets by io_uring, if that can be had
};

// An accepted socket on its way to a worker.
struct NewConnection {
    int fd = -1;
    SessionProtocol protocol = SessionProtocol::any;
    std::string address, listen_address;
    bool admin = false;  // the operator's
    bool own = false;    // of this process to itself: counted nowhere
};

// What a worker tells the server.
class SessionEvents {
  public:
    virtual ~SessionEvents() = default;
    virtual void opened(Session& session) = 0;
    virtual void closed(Session& session, SessionEnd why) = 0;
    virtual void descriptor_closed(bool admin) = 0;  // once for every socket of a session that is not `own`, also a watcher's
};

class Worker final : private SocketEvents {
  public:
    // nodes: whoever executes what clients ask, instead of `node`; nullptr: nobody does.
    Worker(node::Node& node, Nodes* nodes, const EngineOptions& engine, Admin& admin, WatchHub& watch,
           SessionEvents& events, const WorkerOptions& options);
    ~Worker() override;
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    void start();
    void give(NewConnection connection);
    // By a reload: it goes by these from its next turn on, and by the nodes of that moment; `done` is called there.
    void change(const WorkerLive& live, std::function<void()> done);
    // Serves what has been received, by the kernel too, and sends the answers, for a bounded time; then ends
    // all sessions.
    void stop();
    void join() {
        if (thread_.joinable()) thread_.join();
    }

    uint32_t number() const { return options_.number; }
    // Are its sockets served by io_uring? Else, if that was asked for, why not.
    bool on_ring() const { return on_ring_; }
    const std::string& ring_refusal() const { return ring_refusal_; }
    // Whoever asks it calls wake() then: the answer is that of the loop. Both from any thread.
    process::Pulse& pulse() { return pulse_; }
    void wake();

    const WorkerCounters& counters() const { return counters_; }
    const proxy::LocalGetCounters& local_counters() const { return local_.counters(); }
    const Latencies& latencies() const { return latencies_; }
    HotKeys& hot_keys() { return hot_keys_; }

  private:
    struct FreeBase {
        void operator()(event_base* base) const { event_base_free(base); }
    };

    static void on_wake(evutil_socket_t, short, void* worker);
    static void on_second(evutil_socket_t, short, void* worker);
    static void on_deadline(evutil_socket_t, short, void* worker);

    void run();
    void end_tick();
    void end_doomed();
    void read_clock();
    void deliver(Session& session);
    void open(NewConnection connection);
    void close(Session& session, SessionEnd why);
    struct Change {
        WorkerLive live;
        std::function<void()> done;
    };
    void carry_out(const Change& change);
    void take_nodes();
    void begin_stop();
    void take_turn(Session& session);
    void receive_rest(Session& session);
    void keep(Session& session, std::string_view bytes);
    void stream_dump(Session& session);
    void doom(Session& session, SessionEnd why);

    // SocketEvents
    void woke() override { read_clock(); }
    void coming(std::span<const std::string_view> inputs) override;
    void received(Session& session, std::string_view bytes, bool all) override;
    void input_ended(Session& session, int error) override;
    void writable(Session& session) override;
    void before_sending() override;
    void unsent(Session& session, std::string_view rest, int error) override;
    void sent(Session& session) override;
    void turn_of_waiting() override;
    int64_t timer_due_ns() override;

    // These return false when the session is gone.
    bool serve(Session& session, std::string_view input, bool stashed);
    bool stash(Session& session, std::string_view rest, bool stashed);
    bool send_replies(Session& session);
    bool after_sending(Session& session);
    bool await_answers(Session& session);
    void pause(Session& session);
    bool unpause(Session& session);
    bool become_watcher(Session& session);
    bool resume(Session& session);
    template <class Take>
    bool take_memory(Session& session, Take take) {
        try {
            take();
            return true;
        } catch (const std::bad_alloc&) {
            out_.clear(0);
            close(session, SessionEnd::no_memory);
            return false;
        }
    }

    bool begin_writing(Session& session);
    bool send_pending(Session& session);
    void queue(Session& session);
    void touch(Session& session);
    void list_newest(Session& session);
    void unlist(Session& session) {
        (session.older != nullptr ? session.older->newer : oldest_) = session.newer;
        (session.newer != nullptr ? session.newer->older : newest_) = session.older;
        session.older = session.newer = nullptr;
    }
    static void show(Session& session, ShownState state) {
        session.shown.state.store(uint8_t(state), std::memory_order_relaxed);
    }
    static void show_resting(Session& session);

    node::Node& node_;
    WatchHub& watch_;
    SessionEvents& events_;
    WorkerOptions options_;
    Recorder recorder_;
    WorkerCounters counters_;
    proxy::LocalGet local_;
    Latencies latencies_;
    HotKeys hot_keys_;
    Context context_;
    ReplyPool replies_;  // outlives the backend
    OutBuffer out_;

    std::unique_ptr<event_base, FreeBase> base_;
    std::unique_ptr<RemoteBackend> backend_;
    event wake_event_, second_event_, deadline_event_;
    int wake_fd_ = -1;
    process::Pulse pulse_;
    std::unique_ptr<SocketIo> io_;
    bool on_ring_ = false;
    std::string ring_refusal_;
    std::thread thread_;

    Session* oldest_ = nullptr;
    Session* newest_ = nullptr;
    std::vector<Session*> ready_;
    std::vector<Session*> doomed_;  // to be closed when the turn is over
    bool stopping_ = false;
    bool must_take_ = false;  // there was no memory to take the nodes of a reload: at the next tick

    std::mutex lock_;
    std::vector<NewConnection> arriving_;  // under lock_
    std::vector<Change> changes_;          // under lock_
    bool stop_asked_ = false;              // under lock_
};

}  // namespace farcached::daemon
