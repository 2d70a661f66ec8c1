// SPDX-License-Identifier: BSD-3-Clause
// Session: one client's connection. Owner: its worker's thread; only `shown` and `last_command` are read by others.
//
// N1  An idle session holds no buffer, and nothing to keep one in: what was received whole has been answered, what was answered
//     is sent.
// N2  `input` is the beginning of a request that is not whole yet; it grows as bytes arrive, never by what a
//     client announced.
// N3  While `output` is not empty the session is not served, and what it received meanwhile is bounded (daemon/socket_io.h,
//     T2): a client that does not read is not read from.
// N4  A session is on its worker's list, least recently active first, from its opening to its end.
// N5  A session waits for its turn (queued) or for its socket to take `output` (writing), never for both.
// N6  While answers are awaited that must come first (held), the session is not read, and its engine not called.
#pragma once

#include <event2/event_struct.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/peer_address.h"
#include "daemon/dump.h"
#include "daemon/engine.h"
#include "daemon/reply_queue.h"
#include "daemon/session_end.h"
#include "daemon/socket_io.h"

namespace farcached::daemon {

struct RingSlot;

enum class SessionProtocol : uint8_t { any, text, binary };

enum class ShownState : uint8_t { waiting, parsing, receiving_value, swallowing, writing };

// What a session has only while something is not whole or not done.
struct Unfinished {
    std::string input;          // N2
    size_t input_start = 0;     // of it, consumed already
    std::string output;         // not yet taken by the socket
    size_t output_start = 0;
    std::unique_ptr<DumpWalk> dump;
};

// In the order of use: libevent's part, what each request touches, and the rest, a cache line or two each.
struct Session {
    Session(SocketIo& sockets, int socket, SessionProtocol speaks);
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    // It can take nothing at the moment: what it receives is kept.
    bool busy() const {
        return queued || writing || paused || settling || closing || doomed || watch_flags != 0 || dumping;
    }

    std::string_view unread() const {
        return unfinished == nullptr ? std::string_view() : std::string_view(unfinished->input).substr(unfinished->input_start);
    }
    // To keep something in; throws std::bad_alloc. What is finished of it is given up by release().
    Unfinished& keep() {
        if (unfinished == nullptr) unfinished = std::make_unique<Unfinished>();
        return *unfinished;
    }
    void release() {
        if (unfinished != nullptr && unfinished->input.empty() && unfinished->output.empty() && !dumping) unfinished.reset();
    }

    union {                     // as its `io` is
        event readiness;        // EventIo's
        RingSlot* slot;         // RingIo's
    };

    SessionState state;         // its `replies` is the session's own, if there is a backend
    std::unique_ptr<Unfinished> unfinished;  // N1
    uint32_t input_want = 0;    // no use parsing before so many bytes are there: less than the largest item and its request
    std::atomic<NodeSeconds> last_command{0};  // this and the next are the worker's; anybody reads them
    std::atomic<ShownState> shown{ShownState::waiting};
    SessionProtocol protocol;
    SessionEnd end = SessionEnd::client_closed;  // why, when it ends by itself
    uint8_t watch_flags = 0;    // not 0: becomes a watcher once `output` is sent
    bool closing : 1 = false;   // once `output` is sent
    bool queued : 1 = false;    // on the worker's ready list
    bool writing : 1 = false;   // waits for the socket to take `output`
    bool held : 1 = false;      // its engine waits for answers (Next::hold)
    bool paused : 1 = false;    // not read
    bool deaf : 1 = false;      // nothing more will come: ends when all is answered
    bool settling : 1 = false;  // waits for sent() to end, or to be handed over
    bool doomed : 1 = false;    // ends with the turn, as `end` says
    bool unserved : 1 = false;  // `input` may hold whole requests
    bool drained : 1 = false;   // the worker stops, and has taken what the socket held
    bool dumping : 1 = false;   // there is a `dump`

    SocketIo& io;               // its worker's
    Session* older = nullptr;
    Session* newer = nullptr;
    PeerAddress address;
    uint32_t place = 0;         // in the table of connections, under its lock
    uint16_t held_slots = 0;    // unanswered when it was held
};

// An idle client takes this much, and its part of two tables. What is larger takes 256 bytes of the allocator.
static_assert(sizeof(Session) <= 224);

}  // namespace farcached::daemon
