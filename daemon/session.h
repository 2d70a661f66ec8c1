// SPDX-License-Identifier: BSD-3-Clause
// Session: one client's connection. Owner: its worker's thread; only `shown` is read by others.
//
// N1  An idle session holds no buffer: what was received whole has been answered, what was answered is sent.
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

#include "daemon/dump.h"
#include "daemon/engine.h"
#include "daemon/reply_queue.h"
#include "daemon/session_end.h"
#include "daemon/socket_io.h"

namespace farcached::daemon {

struct RingSlot;

enum class SessionProtocol : uint8_t { any, text, binary };

// For `stats conns`: written by the worker, read by anybody.
struct SessionShown {
    std::atomic<NodeSeconds> last_command{0};
    std::atomic<uint8_t> state{0};  // ShownState
};

enum class ShownState : uint8_t { waiting, parsing, receiving_value, swallowing, writing };

struct Session {
    Session(SocketIo& sockets, int socket, SessionProtocol speaks);
    // It can take nothing at the moment: what it receives is kept.
    bool busy() const {
        return queued || writing || paused || settling || closing || doomed || watch_flags != 0 || dump != nullptr;
    }

    std::string_view unread() const { return std::string_view(input).substr(input_start); }

    SocketIo& io;               // its worker's
    event readiness;            // EventIo's; of RingIo, while it waits for room
    RingSlot* slot = nullptr;   // RingIo's
    SessionState state;
    SessionProtocol protocol;
    bool closing = false;       // once `output` is sent
    bool queued = false;        // on the worker's ready list
    bool writing = false;       // waits for the socket to take `output`
    bool held = false;          // its engine waits for answers (Next::hold)
    bool paused = false;        // not read
    bool deaf = false;          // nothing more will come: ends when all is answered
    uint32_t held_slots = 0;    // unanswered when it was held
    bool settling = false;      // waits for sent() to end, or to be handed over
    bool doomed = false;        // ends with the turn, as `end` says
    SessionEnd end = SessionEnd::client_closed;  // why, when it ends by itself
    bool unserved = false;      // `input` may hold whole requests
    bool drained = false;       // the worker stops, and has taken what the socket held
    uint32_t watch_flags = 0;   // not 0: becomes a watcher once `output` is sent

    std::string input;          // N2
    size_t input_start = 0;     // of it, consumed already
    size_t input_want = 0;      // no use parsing before so many bytes are there
    std::string output;         // not yet taken by the socket
    size_t output_start = 0;
    std::unique_ptr<DumpWalk> dump;
    std::unique_ptr<ReplyQueue> replies;  // if there is a backend

    NodeSeconds last_active = 0;
    Session* older = nullptr;
    Session* newer = nullptr;

    std::string address;         // "tcp:127.0.0.1:40950"
    std::string listen_address;
    SessionShown shown;
};

}  // namespace farcached::daemon
