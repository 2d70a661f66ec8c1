// SPDX-License-Identifier: BSD-3-Clause
// Sessions: opens a worker's sessions, serves what they receive, sends the replies, and ends them.
//
// The engine works on received bytes in a shared buffer, and all replies leave in one piece (SessionOutput). Leftovers move to the
// session (N1). The SocketIo moves the bytes; with TLS they pass the TlsLayer.
//
// Owner: a worker. One thread.
// W2  Accesses seen by lock-free reads reach the node before the replies they belong to are sent.
// W3  A session that used up its step (-R requests, or a full output buffer) waits behind the others.
// W4  If memory for a client's data runs out, that client's session ends and the others continue. The limit for all sessions
//     together has the same effect (daemon/engine/session_memory.h).
// W7  Callbacks about another session close none: they mark sessions doomed, and end_doomed() closes those.
#pragma once

#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>

#include "base/recorder.h"
#include "daemon/engine/engine.h"
#include "daemon/engine/reply_queue.h"
#include "daemon/session/room_keeper.h"
#include "daemon/session/session.h"
#include "daemon/session/session_output.h"
#include "daemon/session/socket_io.h"
#include "daemon/session/tls_layer.h"
#include "daemon/stats/watch_hub.h"
#include "daemon/stats/worker_counters.h"

namespace farcached::daemon {

class SessionEvents {
  public:
    virtual ~SessionEvents() = default;
    // Throws std::bad_alloc: the server does not list the session.
    virtual void opened(Session& session) = 0;
    virtual void closed(Session& session, SessionEnd why) noexcept = 0;
    virtual void not_opened() noexcept = 0;  // no memory for a connection, which is closed
    virtual void descriptor_closed(bool admin) = 0;  // once per socket of a session that is not `own`, watchers included
};

class Sessions final : public SocketEvents {
  public:
    // All outlive this. context: with a recorder and a SessionMemory; gets the RoomMaker. replies: for sessions in front of
    // nodes. ring: io_uring sockets; refusal: why there are none. wake: as in RoomKeeper and HandshakeThread. tls: nullptr: all
    // are plain.
    Sessions(Context& context, const WorkerLive& live, SessionEvents& events, WatchHub& watch, ReplyPool& replies,
             TurnTimer& timer, bool ring, std::string& refusal, std::function<void()> wake, const TlsKeys* tls);

    SocketIo& io() { return *io_; }
    TlsLayer& tls() { return tls_; }

    // Without memory the connection is closed.
    void open(NewConnection connection);
    // Emits arrived answers for the session, unless its socket takes no more.
    void deliver(Session& session);
    // Ends sessions without a request for idle_timeout_s.
    void end_idle();
    // Ends sessions whose TLS handshakes have lasted for tls_handshake_timeout_s.
    void end_slow_handshakes();
    // Continues handshakes whose step another thread has computed, in the next steps of their sessions.
    void continue_handshakes();
    // Ends sessions that hold the memory that other workers want, and those that are doomed.
    void end_as_asked() {
        room_.end_as_asked([this] { read_clock(); });
    }
    void end_doomed();
    // Serves all bytes received so far, also those in the kernel, and sends the answers. Each session ends then.
    void begin_stop();
    void end_all();
    // Once ended(): output may refer to the node's memory, and the node may end before the Worker.
    void drop_output() { output_.drop(); }
    bool stopping() const { return stopping_; }
    bool ended() const { return stopping_ && list_.oldest() == nullptr; }

    // After a change of the table of permissions.
    void grant_all() noexcept;

    void read_clock() override;
    void coming(std::span<const std::string_view> inputs) override;
    void received(Session& session, std::string_view bytes, bool all) override;
    void received_in_place(Session& session, size_t bytes) override;
    void input_ended(Session& session, int error) override;
    void writable(Session& session) override;
    void before_sending() override { context_.router.record_accesses(context_.now); }
    void unsent(Session& session, OutBuffer& out, size_t taken, int error) override;
    void sent(Session& session) override;
    void turn_of_waiting() override;

  private:
    void close(Session& session, SessionEnd why);
    void take_turn(Session& session);
    void received_sealed(Session& session, std::string_view bytes);
    void open_records(Session& session, std::string_view bytes);
    void continue_ended(Session& session, bool nothing_opened);

    // These return false when the session is gone.
    bool take_input(Session& session, std::string_view bytes);
    bool serve(Session& session, std::string_view input, bool stashed);
    bool send_replies(Session& session);
    bool after_sending(Session& session);
    bool await_answers(Session& session);
    bool unpause(Session& session);
    bool become_watcher(Session& session);
    bool resume(Session& session);
    template <class Take>
    bool take_memory(Session& session, Take take) {
        try {
            take();
            return true;
        } catch (const SessionMemorySpent&) {
            room_.report_refused(session, !output_.replies().empty());
            output_.drop();
            close(session, SessionEnd::buffers_full);
        } catch (const std::bad_alloc&) {
            output_.drop();
            close(session, SessionEnd::no_memory);
        }
        return false;
    }

    Context& context_;
    Recorder& recorder_;
    const WorkerLive& live_;
    SessionEvents& events_;
    WatchHub& watch_;
    ReplyPool& replies_;
    const std::unique_ptr<SocketIo> io_;
    TlsLayer tls_;
    SessionList list_;
    RoomKeeper room_;
    SessionOutput output_;
    bool stopping_ = false;
};

}  // namespace farcached::daemon
