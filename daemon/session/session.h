// SPDX-License-Identifier: BSD-3-Clause
// Session: one client's connection. Owner: its worker's thread; other threads read only `shown` and `last_command`.
//
// N1  An idle session holds no buffer and no Unfinished: all whole requests are answered, all answers sent.
// N2  `input` is the beginning of an incomplete request. It grows as bytes arrive, never by a length that the client announced.
// N3  While `output` is not empty the session is not served, and bytes it receives are bounded (daemon/session/socket_io.h, T2):
//     the worker does not read from a client that does not read.
// N4  A session is on its worker's list, least recently active first, from its opening to its end.
// N5  A session is in one SessionPhase, and enter() alone changes it.
// N6  While earlier answers are awaited (Next::hold), the session is not read, and its engine not called.
#pragma once

#include <event2/event_struct.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/peer_address.h"
#include "daemon/engine/engine.h"
#include "daemon/engine/reply_queue.h"
#include "daemon/engine/session_memory.h"
#include "daemon/session/socket_io.h"
#include "daemon/stats/dump.h"
#include "daemon/stats/session_end.h"

namespace farcached::daemon {

struct RingSlot;

enum class SessionProtocol : uint8_t { any, text, binary };

enum class ShownState : uint8_t { waiting, parsing, receiving_value, swallowing, writing };

// What a session waits for: the next event that continues it.
//
//                    writing    for the socket to take `output`
//                     |   ^
//         all is taken|   |part of its replies is left (also from queued and settling)
//                     v   |
//   opened -------->  open  --input or a stop waits for a turn--> queued    for its step of the turn
//                     |   ^ <------------the turn----------------
//   its end or a move |   |
//   follows its       |   |they have left
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

// State of a session with incomplete input, output or dump.
struct Unfinished {
    explicit Unfinished(SessionMemory* memory)
        : input(SessionAllocator<char>(memory)), output(SessionAllocator<char>(memory)) {}

    SessionBytes input;         // N2
    size_t input_start = 0;     // consumed bytes of it
    SessionBytes output;        // own bytes that the socket has not taken, from output_start on
    size_t output_start = 0;
    std::vector<OutPiece> output_pieces;  // borrowed bytes between them
    std::unique_ptr<DumpWalk> dump;
};

// In the order of use: libevent's part, per-request state, and the rest; one or two cache lines each.
struct Session {
    Session(SocketIo& sockets, int socket, SessionProtocol speaks);
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    SessionPhase phase() const { return phase_; }
    bool is(SessionPhase phase) const { return phase_ == phase; }
    void enter(SessionPhase phase) {
        CHECK(may_follow(phase_, phase));
        phase_ = phase;
    }
    // Only from or to Next::more.
    void follow_with(Next what) {
        CHECK(next == Next::more || what == Next::more);
        next = what;
    }
    // True: its input is kept, not served.
    bool busy() const { return phase_ != SessionPhase::open || input != SessionInput::open || next != Next::more; }

    std::string_view unread() const {
        return unfinished == nullptr ? std::string_view() : std::string_view(unfinished->input).substr(unfinished->input_start);
    }
    // Space for unfinished data; throws std::bad_alloc. release() frees it once empty. memory: of all sessions.
    Unfinished& keep(SessionMemory* memory) {
        if (unfinished == nullptr) unfinished = std::make_unique<Unfinished>(memory);
        return *unfinished;
    }
    void release() {
        if (unfinished == nullptr || next == Next::dump || is(SessionPhase::writing)) return;
        if (unfinished->input.empty() && unfinished->output.empty()) unfinished.reset();
    }

    union {                     // by the type of `io`
        event readiness;        // EventIo's
        RingSlot* slot;         // RingIo's
    };

    SessionState state;         // its `replies` is the session's own, if there is a backend
    std::unique_ptr<Unfinished> unfinished;  // N1
    uint32_t input_want = 0;    // parsing waits for so many bytes: less than the largest item and its request
    std::atomic<NodeSeconds> last_command{0};  // this and the next: written by the worker, read by any thread
    std::atomic<ShownState> shown{ShownState::waiting};
    SessionProtocol protocol;
    SessionEnd end = SessionEnd::client_closed;  // the reason, when it ends by itself
    uint8_t watch_flags = 0;    // of Next::watch

    // Orthogonal to the phase: what the engine asked for may pass through each phase before it can happen, ...
    Next next = Next::more;     // follows once all is answered and sent; hold: once earlier requests are answered
    // ... the client may stop sending in each, ...
    SessionInput input = SessionInput::open;  // paused: not read; ended: the session ends when all requests are answered
    // ... and bytes are at hand or not.
    bool unserved : 1 = false;  // Unfinished::input may hold whole requests
    bool drained : 1 = false;   // the worker stops, and the socket's input is read

  private:
    SessionPhase phase_ = SessionPhase::open;

  public:
    SocketIo& io;               // its worker's
    Session* older = nullptr;
    Session* newer = nullptr;
    PeerAddress address;
    uint32_t place = 0;         // in the table of connections, under its lock
    uint16_t held_slots = 0;    // unanswered slots when Next::hold came
};

// The memory of an idle client, besides its entries in two tables. Above this the allocator takes 256 bytes.
static_assert(sizeof(Session) <= 224);

}  // namespace farcached::daemon
