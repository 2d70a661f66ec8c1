// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/session/session_output.h"

#include <cerrno>
#include <new>

#include "base/recorder.h"
#include "daemon/session/tls.h"

namespace farcached::daemon {

Sent SessionOutput::send(Session& session, bool tell) {
    const size_t size = out_.leaves();
    const Sent sent = session.seals() ? tls_.send(session, out_, tell) : io_.send(session, out_, tell);
    if (sent.how != Sent::failed) {
        context_.recorder->note(sent.how == Sent::queued ? "queued for connection, bytes:" : "sent on connection, bytes:",
                                session.state.fd, int64_t(sent.how == Sent::part ? sent.bytes : size));
        if (sent.how == Sent::part) session.keep(context_.memory).keep_rest(context_, out_, sent.bytes);
    }
    out_.clear(bytes_kept);
    return sent;
}

bool SessionOutput::begin_writing(Session& session) {
    list_.enter(session, SessionPhase::writing);
    session.show(ShownState::writing);
    room_.note_held(session);
    io_.pause(session);
    return io_.await_room(session);
}

SessionOutput::Written SessionOutput::write(Session& session) {
    if (session.seals()) {
        if (io_.has_queued(session)) return {};  // an earlier record (T3)
        const std::optional<SessionEnd> fails = tls_.write(session);
        return {fails, !fails.has_value() && TlsLayer::all_taken(session)};
    }
    const ssize_t sent = session.unfinished->send(session.state.fd);
    context_.counters.write_calls.add(1);
    if (sent < 0) {
        const bool later = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
        return later ? Written{} : Written{.fails = SessionEnd::send_failed};
    }
    context_.counters.bytes_written.add(uint64_t(sent));
    return {std::nullopt, session.unfinished->no_output()};
}

void SessionOutput::unsent(Session& session, OutBuffer& out, size_t taken, int error) {
    if (session.is(SessionPhase::doomed)) return;
    if (error != 0) return list_.doom(session, SessionEnd::send_failed);
    try {
        if (session.seals())
            session.tls()->keep_unsent(context_, out.own().substr(taken));
        else
            session.keep(context_.memory).keep_rest(context_, out, taken);
    } catch (const SessionMemorySpent&) {
        context_.counters.response_oom.add(1);
        return list_.doom(session, SessionEnd::buffers_full);
    } catch (const std::bad_alloc&) {
        return list_.doom(session, SessionEnd::no_memory);
    }
    if (!session.is(SessionPhase::writing) && !begin_writing(session)) list_.doom(session, SessionEnd::no_memory);
}

}  // namespace farcached::daemon
