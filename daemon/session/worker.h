// SPDX-License-Identifier: BSD-3-Clause
// Worker: a thread with an event loop and the sessions that were given to it.
//
// The engine works on received bytes in a shared buffer, and all replies leave in one piece. Leftovers move to the session
// (N1). The SocketIo moves the bytes.
//
// W1  All but give(), change(), stop(), wake(), the heartbeat and the counters belongs to the worker's thread.
// W2  Accesses seen by lock-free reads reach the node before the replies they belong to are sent.
// W3  A session that used up its step (-R requests, or a full output buffer) waits behind the others.
// W4  If memory for a client's data runs out, that client's session ends and the others continue. The limit for all sessions
//     together has the same effect (daemon/engine/session_memory.h).
// W5  With nodes, a tick's requests to them are sent at its end; answers that have arrived go to the clients.
// W6  The clock is read once for all bytes that sessions received together, and at a tick's end if a measurement waits for it
//     (daemon/stats/latency.h).
// W7  Callbacks about another session close none: they mark sessions doomed, and the loop closes those at the end of the turn.
#pragma once

#include <array>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/recorder.h"
#include "daemon/engine/engine.h"
#include "daemon/stats/hot_keys.h"
#include "daemon/stats/latency.h"
#include "daemon/remote/nodes.h"
#include "daemon/engine/links.h"
#include "daemon/engine/local_peer.h"
#include "daemon/engine/reply_queue.h"
#include "daemon/session/session.h"
#include "daemon/stats/session_end.h"
#include "daemon/session/socket_io.h"
#include "daemon/stats/watch_hub.h"
#include "process/supervisor.h"

namespace farcached::daemon {

// Settings of a worker that a reload may change.
struct WorkerLive {
    uint32_t requests_per_event = 20;
    uint32_t idle_timeout_s = 0;
    LatencyOptions latency;
    uint32_t hot_keys_one_in = 0;  // sampling rate of gets and sets for stats hotkeys; 0: none
};

struct WorkerOptions : WorkerLive {
    uint32_t number = 0;  // of the worker
    int cpu = -1;         // pinned to this CPU; -1: not pinned
    bool ring = false;    // io_uring sockets, if available
    SessionMemory* memory = nullptr;  // of all workers' sessions; it outlives them. null: without a limit
};

// An accepted socket on its way to a worker.
struct NewConnection {
    int fd = -1;
    SessionProtocol protocol = SessionProtocol::any;
    PeerAddress address;
    bool admin = false;  // accepted on the --admin socket
    bool own = false;    // this process's own, in no counter
};

// A worker's callbacks to the server.
class SessionEvents {
  public:
    virtual ~SessionEvents() = default;
    // Throws std::bad_alloc: the server does not list the session.
    virtual void opened(Session& session) = 0;
    virtual void closed(Session& session, SessionEnd why) noexcept = 0;
    virtual void not_opened() noexcept = 0;  // no memory for a connection, which is closed
    virtual void descriptor_closed(bool admin) = 0;  // once per socket of a session that is not `own`, watchers included
};

class Worker final : private SocketEvents, private RoomMaker {
  public:
    // The clients' requests go to `node`, the embedded one, or to `nodes`; the other is nullptr.
    Worker(node::Node* node, Nodes* nodes, const EngineOptions& engine, Admin& admin, WatchHub& watch,
           SessionEvents& events, const WorkerOptions& options);
    ~Worker() override;
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    void start();
    void give(NewConnection connection);
    // By a reload: takes effect at the worker's next turn, with the current nodes; `done` is called there.
    struct Change {
        WorkerLive live;
        std::function<void()> done;
    };
    void change(std::list<Change>&& one) noexcept;
    // Serves all bytes received so far, also those in the kernel, and sends the answers, for a bounded time. Then ends all
    // sessions.
    void stop();
    void join() {
        if (thread_.joinable()) thread_.join();
    }

    uint32_t number() const { return options_.number; }
    // True: io_uring serves its sockets. False: ring_refusal() has the reason if io_uring was requested.
    bool on_ring() const { return on_ring_; }
    const std::string& ring_refusal() const { return ring_refusal_; }
    // After a heartbeat request, the supervisor calls wake(): the loop answers. Both from any thread.
    process::Heartbeat& heartbeat() { return heartbeat_; }
    void wake();

    const WorkerCounters& counters() const { return counters_; }
    // nullptr: without an embedded node.
    const proxy::LocalGetCounters* local_counters() const { return local_.has_value() ? &local_->counters() : nullptr; }
    const Latencies& latencies() const { return latencies_; }
    HotKeys& hot_keys() { return hot_keys_; }

  private:
    void run();
    void woken();
    void set_idle_check();
    void end_idle();
    void end_tick();
    void end_doomed();
    void read_clock();
    void deliver(Session& session);
    void open(NewConnection connection);
    void begin(NewConnection connection);
    void close(Session& session, SessionEnd why);
    void carry_out(const Change& change);
    void take_nodes();
    void begin_stop();
    void take_turn(Session& session);
    void receive_rest(Session& session);
    void keep(Session& session, std::string_view bytes);
    void take_in(Session& session, std::string_view bytes);
    void stream_dump(Session& session);
    void doom(Session& session, SessionEnd why);

    // SocketEvents
    void woke() override { read_clock(); }
    void coming(std::span<const std::string_view> inputs) override;
    void received(Session& session, std::string_view bytes, bool all) override;
    void received_in_place(Session& session, size_t bytes) override;
    void input_ended(Session& session, int error) override;
    void writable(Session& session) override;
    void before_sending() override;
    void unsent(Session& session, OutBuffer& out, size_t taken, int error) override;
    void sent(Session& session) override;
    void turn_of_waiting() override;
    uint64_t timer_at_ns() override;
    void timer_due() override;

    // These return false when the session is gone.
    bool serve(Session& session, std::string_view input, bool stashed);
    bool stash(Session& session, std::string_view rest, bool stashed);
    bool send_replies(Session& session);
    bool after_sending(Session& session);
    bool await_answers(Session& session);
    void pause(Session& session, SessionInput why = SessionInput::paused);
    bool unpause(Session& session);
    bool become_watcher(Session& session);
    bool resume(Session& session);
    template <class Take>
    bool take_memory(Session& session, Take take) {
        try {
            take();
            return true;
        } catch (const SessionMemorySpent&) {
            refuse(session);
        } catch (const std::bad_alloc&) {
            out_.clear(0);
            close(session, SessionEnd::no_memory);
        }
        return false;
    }
    // Marks a session that is being worked on: make_room() does not end it, other causes may. Marks nest: a send for one
    // session may run callbacks of another.
    class AtHand {
      public:
        AtHand(Worker& worker, const Session& session) : worker_(worker) {
            CHECK(worker_.at_hand_count_ < worker_.at_hand_.size());
            worker_.at_hand_[worker_.at_hand_count_++] = &session;
        }
        ~AtHand() { worker_.at_hand_count_--; }
        AtHand(const AtHand&) = delete;
        AtHand& operator=(const AtHand&) = delete;

      private:
        Worker& worker_;
    };
    void refuse(Session& session);
    void tell_full(Session& session, bool writes);
    // daemon/session/worker_room.cc
    struct Held {
        size_t buffers = 0;  // of SessionMemory
        size_t pinned = 0;   // of the cache's memory
        size_t of(Lack lack) const { return lack == Lack::buffer ? buffers : buffers + pinned; }
    };
    struct Hoarder {
        Session* session = nullptr;
        size_t held = 0;
        size_t most = 0;  // held by one session
        Held all;         // held by all sessions that may end
    };
    bool make_room(size_t bytes, Lack lack) override;
    static Held held_by(const Session& session);
    void note_held(const Session& session);
    bool is_at_hand(const Session& session) const;
    bool may_end(const Session& session) const;
    bool is_silent(const Session& session) const;
    Hoarder hoarder(Lack lack, size_t least) const;
    bool may_lend(uint64_t bytes, uint64_t freed = 0);
    uint64_t bytes_lent();
    bool has_room(Lack lack, size_t bytes);
    bool may_suffice(Lack lack, size_t bytes, const Held& all);
    void relieve_pins(size_t bytes, bool asks);
    bool end_hoarders(Lack lack, size_t bytes, size_t from, bool asks);
    void end_hoarder(Session& session);
    void end_as_asked();
    void keep_rest(Unfinished& kept, OutBuffer& out, size_t taken);
    Unfinished& kept(Session& session) { return session.keep(options_.memory); }

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
        session.shown.store(state, std::memory_order_relaxed);
    }
    static void show_resting(Session& session);

    std::optional<LocalPeer> local_;  // the embedded node
    WatchHub& watch_;
    SessionEvents& events_;
    WorkerOptions options_;
    Recorder recorder_;
    WorkerCounters counters_;
    Latencies latencies_;
    HotKeys hot_keys_;
    Context context_;
    ReplyPool replies_;  // outlives links_
    OutBuffer out_;

    std::unique_ptr<SocketIo> io_;  // outlives those that it waits for
    std::unique_ptr<Links> links_;  // to the nodes, instead of local_
    std::unique_ptr<Readiness> wake_ready_;
    int wake_fd_ = -1;
    uint64_t idle_check_at_ns_ = UINT64_MAX;  // both on boottime_ns(); UINT64_MAX: never
    uint64_t stopped_at_ns_ = UINT64_MAX;
    process::Heartbeat heartbeat_;
    bool on_ring_ = false;
    std::string ring_refusal_;
    Hoard* hoard_ = nullptr;        // set with options_.memory
    NodeSeconds pins_sought_ = 0;   // when the largest pin was last searched
    std::thread thread_;

    Session* oldest_ = nullptr;
    Session* newest_ = nullptr;
    uint32_t sessions_ = 0;             // open; the three below have room for all, so queueing never throws
    std::vector<Session*> ready_, turn_;
    std::vector<Session*> doomed_;  // to be closed at the end of the turn
    std::array<const Session*, 8> at_hand_{};
    size_t at_hand_count_ = 0;
    bool stopping_ = false;
    bool must_take_ = false;  // no memory to take the nodes of a reload: retry at the next tick

    std::mutex lock_;
    std::vector<NewConnection> arriving_;  // under lock_
    std::list<Change> changes_;            // under lock_
    bool stop_asked_ = false;              // under lock_
};

}  // namespace farcached::daemon
