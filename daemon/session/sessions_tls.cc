// SPDX-License-Identifier: BSD-3-Clause
// Sessions, TLS: between what sockets carry, and what sessions receive and reply (daemon/session/tls.h). Replies are sealed in
// portions as the socket takes them. Until then Unfinished has them, and large values stay in the cache's memory.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "base/node_clock.h"
#include "daemon/session/sessions.h"

namespace farcached::daemon {

namespace {

constexpr size_t handshake_bytes_max = 64 << 10;  // of a client ahead of its handshake; above this it is not read
constexpr size_t sealed_at_once = 128 << 10;      // bytes of replies: bounds what the socket may leave
constexpr int portions_per_readiness = 4;
constexpr size_t opened_bytes_kept = 128 << 10;   // capacities between ticks
constexpr size_t sealed_bytes_kept = 256 << 10;

ssize_t send_bytes(const Session& session, std::string_view bytes) {
    return ::send(session.state.fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool is_for_later(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

bool is_all_taken(const Session& session) {
    return !session.tls()->has_unsent() && session.unfinished->no_output();
}

}  // namespace

// ---- received -------------------------------------------------------------------------------------------

// A handshake continues in the next turn, behind the sessions that are ready with it.
void Sessions::received_sealed(Session& session, std::string_view bytes) {
    if (session.is(SessionPhase::doomed) || session.next == Next::close) return;
    if (!session.tls()->in_handshake()) return open_records(session, bytes);
    if (!take_memory(session, [&] { session.tls()->keep(context_, bytes); })) return;
    session.unserved = true;
    room_.note_held(session);
    if (session.tls()->kept() > handshake_bytes_max && session.input == SessionInput::open) pause(session);
    if (session.is(SessionPhase::open) && session.tls()->stage() == TlsSession::Stage::none) queue(session);
}

// Another thread has computed steps. Their sessions continue in their turns.
void Sessions::steps_computed() {
    if (!handshake_thread_.has_value()) return;
    for (const std::shared_ptr<TlsSession>& tls : handshake_thread_->take()) {
        tls->step_computed();
        Session* const session = tls->session;
        if (session != nullptr && session->is(SessionPhase::open)) queue(*session);
    }
}

// Frees the input of a session's step, unless that has begun.
void Sessions::drop_step(TlsSession& tls) {
    if (tls.stage() == TlsSession::Stage::under_way && !handshake_thread_->cancel(tls).empty()) tls.drop_step();
}

// A handshake's next step. One that takes long is begun in another thread: the client waits for this process until its end.
TlsSession::Outcome Sessions::shake_hands(Session& session, HandshakeThread::Steps& begun) {
    TlsSession& tls = *session.tls();
    session.unserved = false;
    if (tls.stage() == TlsSession::Stage::computed) {
        const TlsSession::Outcome outcome = tls.finish_step(sealed_);
        if (outcome != TlsSession::Outcome::fine) return outcome;
    }
    if (tls.in_handshake() && handshake_thread_.has_value()) {
        begun.push_back(session.unfinished->tls);
        if (tls.begin_step()) {
            session.unserved = true;
            return TlsSession::Outcome::fine;
        }
        begun.clear();
    }
    return tls.open(context_, {}, opened_, sealed_);
}

void Sessions::open_records(Session& session, std::string_view bytes) {
    TlsSession& tls = *session.tls();
    const bool in_handshake = tls.in_handshake();
    if (tls.stage() == TlsSession::Stage::under_way) return;
    HandshakeThread::Steps begun;
    opened_.clear(opened_bytes_kept);
    sealed_.clear(sealed_bytes_kept);
    TlsSession::Outcome outcome{};
    Sent sent{Sent::taken};
    if (!take_memory(session, [&] {
            outcome = in_handshake ? shake_hands(session, begun) : tls.open(context_, bytes, opened_, sealed_);
            if (!sealed_.empty()) sent = pass_sealed(session, /* tell= */ false);
        }))
        return;
    if (outcome == TlsSession::Outcome::no_memory) return close(session, SessionEnd::no_memory);
    if (outcome == TlsSession::Outcome::failed) {
        (in_handshake ? context_.counters.ssl_handshake_errors : context_.counters.ssl_proto_errors).add(1);
        return close(session, SessionEnd::tls_failed);
    }
    if (sent.how == Sent::failed) return close(session, SessionEnd::send_failed);
    if (sent.how == Sent::part && !session.is(SessionPhase::writing) && !begin_writing(session))
        return close(session, SessionEnd::no_memory);
    if (!begun.empty()) return handshake_thread_->begin(std::move(begun));
    if (in_handshake && !tls.in_handshake() && !handshake_ended(session)) return;
    const bool may_resume = in_handshake && session.is(SessionPhase::open) && session.next == Next::more;
    if (may_resume && !unpause(session)) return;
    room_.note_held(session);
    const bool nothing = opened_.empty();
    if (!nothing && !take_input(session, opened_.own())) return;
    if (outcome == TlsSession::Outcome::ended) return input_ended(session, 0);
    continue_ended(session, nothing);
}

// After records were opened: the next step of a session that waits for no further bytes.
void Sessions::continue_ended(Session& session, bool nothing_opened) {
    if (!session.is(SessionPhase::open)) return;
    if (session.input == SessionInput::ended) {
        if (session.unserved)
            queue(session);
        else
            send_replies(session);
    } else if (nothing_opened && stopping_ && !session.busy()) {
        send_replies(session);
    }
}

// False: the session is gone.
bool Sessions::handshake_ended(Session& session) {
    handshakes_.remove(session);
    context_.counters.tls_handshakes.add(1);
    if (session.tls()->kernel_seals()) context_.counters.tls_kernel_handshakes.add(1);
    if (session.tls()->is_new_session()) context_.counters.ssl_new_sessions.add(1);
    return take_memory(session, [&] {
        const std::string name = session.tls()->client_name();
        if (!name.empty()) identify(context_, session.state, name);
    });
}

uint64_t Sessions::handshake_due_ns() const {
    if (handshakes_.oldest() == nullptr) return UINT64_MAX;
    return handshakes_.oldest()->tls()->waiting.since_ns + live_.tls_handshake_timeout_s * UINT64_C(1'000'000'000);
}

// While a client's bytes wait for this worker, the client is not slow: the worker measures its time from now on.
void Sessions::end_slow_handshakes() {
    const uint64_t now_ns = boottime_ns();
    while (handshake_due_ns() <= now_ns) {
        Session& session = *handshakes_.oldest();
        if (session.unserved) {
            handshakes_.remove(session);
            handshakes_.add(session, now_ns);
            continue;
        }
        context_.counters.ssl_handshake_errors.add(1);
        close(session, SessionEnd::tls_timeout);
    }
}

// ---- sent -----------------------------------------------------------------------------------------------

// Sends sealed_, behind what the socket has not taken yet. While a session is writing, write_sealed() sends these bytes (T3).
Sent Sessions::pass_sealed(Session& session, bool tell) {
    Sent sent{Sent::part};
    if (!session.tls()->has_unsent() && !session.is(SessionPhase::writing)) sent = io_->send(session, sealed_, tell);
    if (sent.how == Sent::part) session.tls()->keep_unsent(context_, sealed_.own().substr(sent.bytes));
    sealed_.clear(sealed_bytes_kept);
    return sent;
}

// As SocketIo::send(). part: of out_; sealed bytes are kept beside it. A socket that takes all of a long reply leaves the rest to
// a later turn, behind other clients.
Sent Sessions::seal_replies(Session& session, bool tell) {
    size_t done = 0;
    for (int portion = 0; portion < portions_per_readiness; portion++) {
        sealed_.clear(sealed_bytes_kept);
        const size_t left = out_.leaves() - done;
        const size_t now = session.tls()->seal(out_.own(), 0, out_.pieces(), done, std::min(left, sealed_at_once), sealed_);
        if (now == 0 && left != 0) return {Sent::failed};
        done += now;
        const bool last = done == out_.leaves();
        const Sent sent = pass_sealed(session, tell && last);
        if (sent.how == Sent::failed) return sent;
        if (sent.how == Sent::part || (sent.how == Sent::queued && !last)) return {Sent::part, done};
        if (last) return sent;
    }
    return {Sent::part, done};
}

// Of a session that is writing. True: the socket has taken all. False: not yet, or the session is gone.
bool Sessions::write_sealed(Session& session) {
    if (io_->has_queued(session)) return false;  // an earlier record (T3)
    TlsSession& tls = *session.tls();
    for (int i = 0; i < portions_per_readiness && !is_all_taken(session); i++) {
        ssize_t sent = 0;
        int error = 0;
        const auto send = [&] {
            if (tls.has_unsent()) {
                sent = tls.send_unsent(session.state.fd);
                if (sent < 0) error = errno;
                return;
            }
            sealed_.clear(sealed_bytes_kept);
            if (session.unfinished->seal(sealed_at_once, sealed_) == 0) error = EPROTO;
            if (error != 0) return;
            sent = send_bytes(session, sealed_.own());
            if (sent < 0) error = errno;
            const size_t taken = sent > 0 ? size_t(sent) : 0;
            if (error == 0 || is_for_later(error)) tls.keep_unsent(context_, sealed_.own().substr(taken));
        };
        if (!take_memory(session, send)) return false;
        context_.counters.write_calls.add(1);
        if (sent > 0) context_.counters.bytes_written.add(uint64_t(sent));
        if (error != 0 && !is_for_later(error)) {
            close(session, error == EPROTO ? SessionEnd::tls_failed : SessionEnd::send_failed);
            return false;
        }
        if (tls.has_unsent()) return false;
    }
    return is_all_taken(session);
}

// Past all queues, for a session that ends.
void Sessions::send_at_once(Session& session, std::string_view bytes) {
    OutBuffer sealed;  // sealed_ may be in use for another session
    if (session.seals()) {
        if (session.tls()->has_unsent() || !session.tls()->seal(bytes, sealed)) return;
        bytes = sealed.own();
    }
    const ssize_t sent = send_bytes(session, bytes);
    if (sent > 0) context_.counters.bytes_written.add(uint64_t(sent));
}

// Empty: lines are sent as they are.
WatchHub::Seal Sessions::sealer_of(const Session& session) {
    if (!session.seals()) return {};
    return [tls = session.unfinished->tls](std::string_view plain, std::string& sealed) {
        OutBuffer out;
        out.reserve(TlsSession::sealed_bytes_max(plain.size()));
        sealed.reserve(sealed.size() + TlsSession::sealed_bytes_max(plain.size()));  // as nothing may be lost after this
        if (!tls->seal(plain, out)) return false;
        sealed.append(out.own());
        return true;
    };
}

// All queued bytes have been sent.
void Sessions::end_tls(Session& session, SessionEnd why) {
    using enum SessionEnd;
    handshakes_.remove(session);
    drop_step(*session.tls());
    session.tls()->session = nullptr;
    const bool client_ended = why == client_closed || why == peer_reset || why == send_failed;
    if (session.tls()->in_handshake()) {
        if (client_ended && session.tls()->began()) context_.counters.ssl_handshake_errors.add(1);
        return;
    }
    if (why == peer_reset || why == send_failed || why == no_memory || !is_all_taken(session)) return;
    OutBuffer sealed;
    session.tls()->seal_end(sealed);
    if (!sealed.empty()) (void)send_bytes(session, sealed.own());
}

}  // namespace farcached::daemon
