// SPDX-License-Identifier: BSD-3-Clause
// SessionOutput: the way of replies from the engine to a session's socket. The engine writes the replies to the session being
// served into one buffer, and they leave in one piece, by TLS if the session has it. If the socket does not take all, the session
// keeps the rest (Unfinished), and is `writing` until the socket has taken it.
//
// Owner: a worker's Sessions. One thread.
// O1  The buffer holds replies to one session: send() leaves it empty, and if that throws, drop() must follow.
// O2  A session that is writing is not read (N3), and its bytes leave in order (T3).
// O3  It closes no session: it returns the reason, or dooms the session if a caller may be working on it (unsent()).
#pragma once

#include <cstddef>
#include <optional>

#include "base/out_buffer.h"
#include "daemon/engine/engine.h"
#include "daemon/session/room_keeper.h"
#include "daemon/session/session.h"
#include "daemon/session/socket_io.h"
#include "daemon/session/tls_layer.h"

namespace farcached::daemon {

class SessionOutput {
  public:
    static constexpr size_t bytes_kept = 256 << 10;  // capacity of the buffer between ticks

    // All outlive this. context: with a recorder.
    SessionOutput(Context& context, SocketIo& io, TlsLayer& tls, SessionList& list, RoomKeeper& room)
        : context_(context), io_(io), tls_(tls), list_(list), room_(room) {}

    // To the session being served.
    OutBuffer& replies() { return out_; }
    // Without them, and without the buffer's memory.
    void drop() { out_.clear(0); }

    // Sends the replies. part: the session keeps the rest, and begin_writing() must follow. tell: as in SocketIo::send(). Throws
    // std::bad_alloc.
    Sent send(Session& session, bool tell);
    // The session waits for its socket. False: no memory for that.
    bool begin_writing(Session& session);

    struct Written {
        std::optional<SessionEnd> fails{};  // the session is to be closed
        bool all = false;                   // it keeps no more
    };
    // The socket of a session that is writing takes more. Throws std::bad_alloc.
    Written write(Session& session);

    // As SocketEvents::unsent().
    void unsent(Session& session, OutBuffer& out, size_t taken, int error);

  private:
    Context& context_;
    SocketIo& io_;
    TlsLayer& tls_;
    SessionList& list_;
    RoomKeeper& room_;
    OutBuffer out_;
};

}  // namespace farcached::daemon
