// SPDX-License-Identifier: BSD-3-Clause
// TlsLayer: the TLS of a worker's sessions, between what sockets carry, and what sessions receive and reply (daemon/session/tls.h).
// It opens records, runs the handshakes, and seals replies in portions as the socket takes them. Until then Unfinished has the
// replies, and large values stay in the cache's memory.
//
// Owner: a worker's Sessions. One thread.
// E1  It closes, queues and pauses no session: it returns what is to happen, and Sessions does that.
// E2  Each call clears the buffers that it uses. The next open() overwrites what open() returned.
// E3  A session is among the handshakes from begin() until its handshake or the session ends.
// E4  Sealed bytes leave behind those that the socket has not taken (T3). While a session is writing, only write() sends.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "base/function_ref.h"
#include "base/out_buffer.h"
#include "daemon/engine/engine.h"
#include "daemon/session/handshake_thread.h"
#include "daemon/session/session.h"
#include "daemon/session/socket_io.h"
#include "daemon/session/tls.h"
#include "daemon/stats/watch_hub.h"

namespace farcached::daemon {

class TlsLayer {
  public:
    // All outlive this. keys: nullptr: all sessions are plain. wake: as in HandshakeThread.
    TlsLayer(Context& context, const WorkerLive& live, SocketIo& io, const TlsKeys* keys, std::function<void()> wake)
        : context_(context), live_(live), io_(io), keys_(keys), wake_(std::move(wake)) {}

    // Before the worker's thread runs. Throws std::system_error.
    void start(uint32_t worker);
    // At its end: wake is not called any more.
    void stop() noexcept { handshake_thread_.reset(); }

    // Gives a new session its TLS. Throws std::bad_alloc.
    void greet(Session& session, TlsMode mode);
    // The session is open.
    void begin(Session& session);
    // Before a session is closed, once all queued bytes have been sent.
    void end(Session& session, SessionEnd why);
    // Frees what the session's TLS holds; nothing is sent afterwards.
    void drop_buffers(Session& session);

    // -- handshakes --
    // Calls `ready` for each open session whose step another thread has computed.
    void take_computed(FunctionRef<void(Session&)> ready);
    // When the next handshake will have lasted for tls_handshake_timeout_s, on boottime_ns(); UINT64_MAX: never.
    uint64_t due_ns() const;
    // A session whose handshake has lasted so long, which the caller closes; nullptr: none.
    Session* slow_handshake(uint64_t now_ns);

    // -- received --
    struct Opened {
        std::optional<SessionEnd> fails{};  // the session is to be closed
        std::string_view plain{};           // the client's data
        bool unsent = false;                // the socket has not taken all that the client must get
        bool computing = false;             // a step of the handshake is under way: take_computed() returns the session
        bool handshake_ended = false;       // just now
        bool ended = false;                 // the client sends no more
    };
    // Continues the handshake, else opens the records in `bytes`. Sends what the client must get. Throws std::bad_alloc.
    Opened open(Session& session, std::string_view bytes);

    // -- sent --
    // As SocketIo::send(). part: of `out`; sealed bytes are kept beside it. A socket that takes all of a long reply leaves the
    // rest to a later turn, behind other clients. Throws std::bad_alloc.
    Sent send(Session& session, const OutBuffer& out, bool tell);
    // Sends for a session that is writing, and has no queued bytes. A value: the session is to be closed. Throws std::bad_alloc.
    std::optional<SessionEnd> write(Session& session);
    // The socket has taken all of a session that was writing.
    static bool all_taken(const Session& session) {
        return !session.tls()->has_unsent() && session.unfinished->no_output();
    }
    // For a watcher's lines. Empty: they are sent as they are.
    static WatchHub::Seal sealer_of(const Session& session);

  private:
    TlsSession::Outcome shake_hands(Session& session, HandshakeThread::Steps& begun);
    void drop_step(TlsSession& tls);
    Sent pass_sealed(Session& session, bool tell);

    Context& context_;
    const WorkerLive& live_;
    SocketIo& io_;
    const TlsKeys* const keys_;
    const std::function<void()> wake_;
    OutBuffer opened_;  // what the records of a session held
    OutBuffer sealed_;  // records for it
    TlsHandshakes handshakes_;
    std::optional<HandshakeThread> handshake_thread_;  // with TLS
};

}  // namespace farcached::daemon
