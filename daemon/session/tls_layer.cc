// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/session/tls_layer.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "base/node_clock.h"

namespace farcached::daemon {

namespace {

constexpr size_t sealed_at_once = 128 << 10;     // bytes of replies: bounds what the socket may leave
constexpr int portions_per_readiness = 4;
constexpr size_t opened_bytes_kept = 128 << 10;  // capacities between ticks
constexpr size_t sealed_bytes_kept = 256 << 10;

ssize_t send_bytes(const Session& session, std::string_view bytes) {
    return ::send(session.state.fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool is_for_later(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

void TlsLayer::start(uint32_t worker) {
    if (keys_ != nullptr && keys_->enabled()) handshake_thread_.emplace("tls " + std::to_string(worker), wake_).start();
}

void TlsLayer::greet(Session& session, TlsMode mode) {
    const int kernel_socket = io_.knows_kernel_tls() ? session.state.fd : -1;
    session.keep(context_.memory).tls = keys_->greet(kernel_socket, mode, context_.memory);
    session.tls()->session = &session;
}

void TlsLayer::begin(Session& session) { handshakes_.add(session, boottime_ns()); }

// ---- handshakes -----------------------------------------------------------------------------------------

void TlsLayer::take_computed(FunctionRef<void(Session&)> ready) {
    if (!handshake_thread_.has_value()) return;
    for (const std::shared_ptr<TlsSession>& tls : handshake_thread_->take()) {
        tls->step_computed();
        Session* const session = tls->session;
        if (session != nullptr && session->is(SessionPhase::open)) ready(*session);
    }
}

// Frees the input of a session's step, unless that has begun.
void TlsLayer::drop_step(TlsSession& tls) {
    if (tls.stage() == TlsSession::Stage::under_way && !handshake_thread_->cancel(tls).empty()) tls.drop_step();
}

void TlsLayer::drop_buffers(Session& session) {
    drop_step(*session.tls());
    session.tls()->drop_buffers();
}

// A handshake's next step. One that takes long is begun in another thread: the client waits for this process until its end.
TlsSession::Outcome TlsLayer::shake_hands(Session& session, HandshakeThread::Steps& begun) {
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

uint64_t TlsLayer::due_ns() const {
    if (handshakes_.oldest() == nullptr) return UINT64_MAX;
    return handshakes_.oldest()->tls()->waiting.since_ns + live_.tls_handshake_timeout_s * UINT64_C(1'000'000'000);
}

// While a client's bytes wait for this worker, the client is not slow: the worker measures its time from now on.
Session* TlsLayer::slow_handshake(uint64_t now_ns) {
    while (due_ns() <= now_ns) {
        Session& session = *handshakes_.oldest();
        if (!session.unserved) {
            context_.counters.ssl_handshake_errors.add(1);
            return &session;
        }
        handshakes_.remove(session);
        handshakes_.add(session, now_ns);
    }
    return nullptr;
}

// ---- received -------------------------------------------------------------------------------------------

TlsLayer::Opened TlsLayer::open(Session& session, std::string_view bytes) {
    TlsSession& tls = *session.tls();
    if (tls.stage() == TlsSession::Stage::under_way) return {.computing = true};
    const bool in_handshake = tls.in_handshake();
    HandshakeThread::Steps begun;
    opened_.clear(opened_bytes_kept);
    sealed_.clear(sealed_bytes_kept);
    const TlsSession::Outcome outcome =
        in_handshake ? shake_hands(session, begun) : tls.open(context_, bytes, opened_, sealed_);
    Sent sent{Sent::taken};
    if (!sealed_.empty()) sent = pass_sealed(session, /* tell= */ false);
    if (outcome == TlsSession::Outcome::no_memory) return {.fails = SessionEnd::no_memory};
    if (outcome == TlsSession::Outcome::failed) {
        (in_handshake ? context_.counters.ssl_handshake_errors : context_.counters.ssl_proto_errors).add(1);
        return {.fails = SessionEnd::tls_failed};
    }
    if (sent.how == Sent::failed) return {.fails = SessionEnd::send_failed};
    Opened opened{.plain = opened_.own(), .unsent = sent.how == Sent::part, .ended = outcome == TlsSession::Outcome::ended};
    if (!begun.empty()) {
        handshake_thread_->begin(std::move(begun));
        opened.computing = true;
    } else if (in_handshake && !tls.in_handshake()) {
        handshakes_.remove(session);
        context_.counters.tls_handshakes.add(1);
        if (tls.kernel_seals()) context_.counters.tls_kernel_handshakes.add(1);
        if (tls.is_new_session()) context_.counters.ssl_new_sessions.add(1);
        opened.handshake_ended = true;
    }
    return opened;
}

// ---- sent -----------------------------------------------------------------------------------------------

// Sends sealed_, behind what the socket has not taken yet (E4).
Sent TlsLayer::pass_sealed(Session& session, bool tell) {
    Sent sent{Sent::part};
    if (!session.tls()->has_unsent() && !session.is(SessionPhase::writing)) sent = io_.send(session, sealed_, tell);
    if (sent.how == Sent::part) session.tls()->keep_unsent(context_, sealed_.own().substr(sent.bytes));
    sealed_.clear(sealed_bytes_kept);
    return sent;
}

Sent TlsLayer::send(Session& session, const OutBuffer& out, bool tell) {
    size_t done = 0;
    for (int portion = 0; portion < portions_per_readiness; portion++) {
        sealed_.clear(sealed_bytes_kept);
        const size_t left = out.leaves() - done;
        const size_t now = session.tls()->seal(out.own(), 0, out.pieces(), done, std::min(left, sealed_at_once), sealed_);
        if (now == 0 && left != 0) return {Sent::failed};
        done += now;
        const bool last = done == out.leaves();
        const Sent sent = pass_sealed(session, tell && last);
        if (sent.how == Sent::failed) return sent;
        if (sent.how == Sent::part || (sent.how == Sent::queued && !last)) return {Sent::part, done};
        if (last) return sent;
    }
    return {Sent::part, done};
}

std::optional<SessionEnd> TlsLayer::write(Session& session) {
    TlsSession& tls = *session.tls();
    for (int i = 0; i < portions_per_readiness && !all_taken(session); i++) {
        ssize_t sent = 0;
        int error = 0;
        if (tls.has_unsent()) {
            sent = tls.send_unsent(session.state.fd);
            if (sent < 0) error = errno;
        } else {
            sealed_.clear(sealed_bytes_kept);
            if (session.unfinished->seal(sealed_at_once, sealed_) != 0) {
                sent = send_bytes(session, sealed_.own());
                if (sent < 0) error = errno;
                const size_t taken = sent > 0 ? size_t(sent) : 0;
                if (error == 0 || is_for_later(error)) tls.keep_unsent(context_, sealed_.own().substr(taken));
            } else {
                error = EPROTO;
            }
        }
        context_.counters.write_calls.add(1);
        if (sent > 0) context_.counters.bytes_written.add(uint64_t(sent));
        if (error != 0 && !is_for_later(error)) return error == EPROTO ? SessionEnd::tls_failed : SessionEnd::send_failed;
        if (tls.has_unsent()) break;
    }
    return std::nullopt;
}

WatchHub::Seal TlsLayer::sealer_of(const Session& session) {
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

void TlsLayer::end(Session& session, SessionEnd why) {
    using enum SessionEnd;
    handshakes_.remove(session);
    drop_step(*session.tls());
    session.tls()->session = nullptr;
    const bool client_ended = why == client_closed || why == peer_reset || why == send_failed;
    if (session.tls()->in_handshake()) {
        if (client_ended && session.tls()->began()) context_.counters.ssl_handshake_errors.add(1);
        return;
    }
    if (why == peer_reset || why == send_failed || why == no_memory || !all_taken(session)) return;
    OutBuffer sealed;
    session.tls()->seal_end(sealed);
    if (!sealed.empty()) (void)send_bytes(session, sealed.own());
}

}  // namespace farcached::daemon
