// SPDX-License-Identifier: BSD-3-Clause
// Session: one client's connection. SessionList: all of a worker. Owner of both: the worker's thread. Other threads read only
// `shown`, `last_command`, `address`, `state.fd` and `state.own`, under the lock of the table of connections. The last three do not
// change while the session is there. `place` is the table's.
//
// N1  An idle session holds no buffer, and no Unfinished but for TLS or a SASL exchange: all whole requests are answered, all
//     answers sent.
// N2  unread() is the beginning of an incomplete request. It grows as bytes arrive, never by a length that the client announced.
// N3  While Unfinished holds output the session is not served, and bytes it receives are bounded (daemon/session/socket_io.h, T2):
//     the worker does not read from a client that does not read.
// N4  A session is on its worker's list, least recently active first, from its opening to its end.
// N5  A session is in one SessionPhase, and enter() alone changes it.
// N6  While earlier answers are awaited (Next::hold), the session is not read, and its engine not called.
#pragma once

#include <event2/event_struct.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/peer_address.h"
#include "conf/words.h"
#include "daemon/engine/engine.h"
#include "daemon/engine/reply_queue.h"
#include "daemon/engine/session_memory.h"
#include "daemon/session/socket_io.h"
#include "daemon/stats/dump.h"
#include "daemon/stats/latency.h"
#include "daemon/stats/worker_counters.h"

namespace farcached::daemon {

struct RingSlot;
class TlsSession;

// locked: the client must authenticate first (-Y, -S); the protocol is then text, or binary.
enum class SessionProtocol : uint8_t { any, text, binary, locked };

enum class ShownState : uint8_t { waiting, parsing, receiving_value, swallowing, writing };

// What a session waits for: the next event that continues it.
//
//                    writing    for the socket to take its output
//                     |   ^
//         all is taken|   |part of its replies is left (also from queued and settling)
//                     v   |
//   opened -------->  open  --input or a stop waits for a turn--> queued    for its step of the turn
//                     |   ^ <------------the turn----------------
//   a stop, its end or|   |
//   a move follows its|   |they have left
//   queued replies    v   |
//                    settling   for sent()
//
//   open, queued, writing, settling -----> doomed     closed at the latest at the end of the turn, with `end` as the reason
enum class SessionPhase : uint8_t { open, queued, writing, settling, doomed };

constexpr bool may_follow(SessionPhase from, SessionPhase to) {
    using enum SessionPhase;
    constexpr auto bit = [](SessionPhase phase) { return 1u << unsigned(phase); };
    constexpr std::array<unsigned, 5> edges = {
        bit(queued) | bit(writing) | bit(settling) | bit(doomed),  // open
        bit(open) | bit(writing) | bit(doomed),                    // queued
        bit(open) | bit(doomed),                                   // writing
        bit(open) | bit(writing) | bit(doomed),                    // settling
        0,                                                         // doomed
    };
    return (edges[size_t(from)] & bit(to)) != 0;
}

enum class SessionInput : uint8_t { open, paused, ended };

// Appends to a client's buffer. Before it grows, other sessions may end for it (Context::has_room()). Throws std::bad_alloc.
void append_with_room(const Context& context, SessionBytes& to, std::string_view bytes);

// Incomplete input, output, dump or SASL exchange of a session, and its TLS. What takes memory throws std::bad_alloc.
class Unfinished {
  public:
    explicit Unfinished(SessionMemory* memory);
    ~Unfinished();

    std::string_view unread() const { return std::string_view(input_).substr(input_start_); }
    void append(const Context& context, std::string_view bytes);
    // `rest` is the end of unread(): the bytes before it are consumed. Frees capacity of large values and deep pipelines.
    void keep_only(std::string_view rest);

    // Keeps all of `out` after the first `taken` bytes: copies its own bytes, and moves the borrowed ones.
    void keep_rest(const Context& context, OutBuffer& out, size_t taken);
    // Sends some of it. Returns the number of bytes, or -1 and errno.
    ssize_t send(int socket);

    // The same by TLS: seals at most `most` bytes of it. Returns their number; 0: it failed.
    size_t seal(size_t most, OutBuffer& sealed);

    bool no_output() const { return output_start_ >= output_.size() && pieces_.empty(); }
    bool empty() const { return input_.empty() && output_.empty() && dump == nullptr && tls == nullptr && exchange == nullptr; }
    size_t input_capacity() const { return input_.capacity(); }
    size_t capacity() const { return input_.capacity() + output_.capacity(); }
    size_t pinned_bytes() const;  // of the cache's memory: a pin keeps whole pages

    void drop();  // all but the TLS

    std::unique_ptr<DumpWalk> dump;
    std::unique_ptr<SaslExchange> exchange;  // between AUTH and the last STEP
    std::shared_ptr<TlsSession> tls;  // null: plain; else it stays to the session's end, or becomes a watcher's

  private:
    void output_taken(size_t bytes);

    SessionBytes input_;       // N2
    size_t input_start_ = 0;   // consumed bytes of it
    SessionBytes output_;      // own bytes that the socket has not taken, from output_start_ on
    size_t output_start_ = 0;
    std::vector<OutPiece> pieces_;  // borrowed bytes between them
};

// In the order of use: libevent's part, per-request state, and the rest; one or two cache lines each.
struct Session {
    Session(SocketIo& sockets, int socket, SessionProtocol speaks);
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    bool is(SessionPhase phase) const { return phase_ == phase; }
    void enter(SessionPhase phase) {
        CHECK(may_follow(phase_, phase));
        phase_ = phase;
    }
    // Stops reading it, for a while or at the end of input.
    void stop_reading(SessionInput why = SessionInput::paused) {
        if (input != SessionInput::ended) input = why;
        if (!is(SessionPhase::writing)) io.pause(*this);
    }
    // Only from or to Next::more.
    void follow_with(Next what) {
        CHECK(next == Next::more || what == Next::more);
        next = what;
    }
    // nullptr: plain.
    TlsSession* tls() const { return unfinished == nullptr ? nullptr : unfinished->tls.get(); }
    bool in_tls_handshake() const { return tls() != nullptr && tls_handshakes(); }
    bool seals() const { return tls() != nullptr && tls_seals(); }  // what is sent to the client
    // True: its input is kept, not served.
    bool busy() const { return phase_ != SessionPhase::open || input != SessionInput::open || next != Next::more; }

    std::string_view unread() const { return unfinished == nullptr ? std::string_view() : unfinished->unread(); }
    // Space for unfinished data; throws std::bad_alloc. release() frees it once empty. memory: of all sessions.
    Unfinished& keep(SessionMemory* memory) {
        if (unfinished == nullptr) unfinished = std::make_unique<Unfinished>(memory);
        return *unfinished;
    }
    void release() {
        if (unfinished != nullptr && unfinished->empty() && !is(SessionPhase::writing)) unfinished.reset();
    }
    // Keeps `rest`, the unconsumed end of its input. stashed: that was unread(). True: some is kept. Throws std::bad_alloc.
    bool stash(const Context& context, std::string_view rest, bool stashed);
    // Appends a portion of about `bytes`; its last one ends Next::dump. Throws std::bad_alloc.
    void write_dump(const Context& context, OutBuffer& out, size_t bytes);
    void show(ShownState what) { shown.store(what, std::memory_order_relaxed); }
    void show_resting() {
        const bool receives = input_want != 0 || state.pending != nullptr;
        show(state.swallow != 0 ? ShownState::swallowing : receives ? ShownState::receiving_value : ShownState::waiting);
    }

    union {                     // by the type of `io`
        event readiness;        // EventIo's
        RingSlot* slot;         // RingIo's
    };

    SessionState state;         // its `replies` is the session's own, if replies may have to wait
    std::unique_ptr<Unfinished> unfinished;  // N1
    uint32_t input_want = 0;    // parsing waits for so many bytes: less than the largest item and its request
    std::atomic<NodeSeconds> last_command{0};  // this and the next: written by the worker, read by any thread
    std::atomic<ShownState> shown{ShownState::waiting};
    SessionProtocol protocol;
    SessionEnd end = SessionEnd::client_closed;  // the reason, when it ends by itself

    // Orthogonal to the phase: what the engine asked for may pass through each phase before it can happen, ...
    Next next = Next::more;     // follows once all is answered and sent; hold: once earlier requests are answered
    // ... the client may stop sending in each, ...
    SessionInput input = SessionInput::open;  // paused: not read; ended: the session ends when all requests are answered
    // ... and bytes are at hand or not.
    bool unserved : 1 = false;  // unread() may hold whole requests, or a TLS handshake is to continue
    bool drained : 1 = false;   // the worker stops, and the socket's input is read

  private:
    bool tls_handshakes() const;
    bool tls_seals() const;

    SessionPhase phase_ = SessionPhase::open;

  public:
    SocketIo& io;               // its worker's
    Session* older = nullptr;
    Session* newer = nullptr;
    PeerAddress address;
    uint32_t place = 0;         // in the table of connections, under its lock
    uint16_t held_slots = 0;    // unanswered slots when Next::hold came
    uint16_t watch_flags = 0;   // of Next::watch
};

// The memory of an idle client, besides its entries in two tables. Above this the allocator takes 256 bytes.
static_assert(sizeof(Session) <= 232);

// An accepted socket on its way to a worker.
struct NewConnection {
    int fd = -1;
    SessionProtocol protocol = SessionProtocol::any;
    PeerAddress address;
    TlsMode tls = TlsMode::plain;
    bool admin = false;  // accepted on the --admin socket
    bool own = false;    // this process's own, in no counter
};

// Settings of a worker that a reload may change.
struct WorkerLive {
    uint32_t requests_per_event = 20;
    uint32_t idle_timeout_s = 0;
    uint32_t tls_handshake_timeout_s = 10;
    uint32_t udp_amplification = 1000;  // protocol/udp_frame.h
    LatencyOptions latency;
    std::shared_ptr<const Permissions> permissions;  // nullptr: every client may use all commands
    uint32_t hot_keys_one_in = 0;  // sampling rate of gets and sets for stats hotkeys; 0: none
};

// The sessions of a worker (N4), those that wait for their turn, and those that are to end with it.
//
// L1  A queued session is in `ready_`, or in the turn under way; a doomed one is in `doomed_`, or being closed.
// L2  There is room for all sessions everywhere: only reserve() allocates.
class SessionList {
  public:
    // For one more. Throws std::bad_alloc.
    void reserve() {
        for (std::vector<Session*>* list : {&ready_, &turn_, &doomed_})
            if (list->capacity() <= count_) list->reserve(std::max<size_t>(64, 2 * size_t(count_)));
    }
    void add(Session& session) {
        count_++;
        link_newest(session);
    }
    // Before the session is deleted.
    void remove(Session& session) {
        if (session.is(SessionPhase::doomed)) std::erase(doomed_, &session);
        unlink(session);
        count_--;
    }
    void touch(Session& session, NodeSeconds now) {
        if (session.last_command.load(std::memory_order_relaxed) == now) return;
        session.last_command.store(now, std::memory_order_relaxed);
        unlink(session);
        link_newest(session);
    }
    Session* oldest() const { return oldest_; }
    Session* newest() const { return newest_; }

    // For the next turn, which comes soon.
    void queue(Session& session) {
        session.enter(SessionPhase::queued);
        ready_.push_back(&session);
        if (ready_.size() == 1) session.io.turn_soon();
    }
    // Another phase than queued: the session waits for no turn.
    void enter(Session& session, SessionPhase phase) {
        if (session.is(SessionPhase::queued)) std::erase(ready_, &session);
        session.enter(phase);
    }
    // The turn: visits all that were queued before it. They may have left their phase since.
    template <class Visit>
    void take_turns(Visit visit) {
        turn_.swap(ready_);
        for (Session* session : turn_) visit(*session);
        turn_.clear();
    }

    void doom(Session& session, SessionEnd why) {
        if (session.is(SessionPhase::doomed)) return;
        enter(session, SessionPhase::doomed);
        session.end = why;
        doomed_.push_back(&session);
    }
    // nullptr: none.
    Session* doomed() const { return doomed_.empty() ? nullptr : doomed_.back(); }

  private:
    void link_newest(Session& session) {
        session.older = newest_;
        (newest_ != nullptr ? newest_->newer : oldest_) = &session;
        newest_ = &session;
    }
    void unlink(Session& session) {
        (session.older != nullptr ? session.older->newer : oldest_) = session.newer;
        (session.newer != nullptr ? session.newer->older : newest_) = session.older;
        session.older = session.newer = nullptr;
    }

    Session* oldest_ = nullptr;
    Session* newest_ = nullptr;
    uint32_t count_ = 0;
    std::vector<Session*> ready_, turn_, doomed_;
};

}  // namespace farcached::daemon
