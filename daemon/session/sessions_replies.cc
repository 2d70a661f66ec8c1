// SPDX-License-Identifier: BSD-3-Clause
// Sessions, output: sends replies, and continues the session afterwards.
#include "daemon/session/sessions.h"

namespace farcached::daemon {

bool Sessions::send_replies(Session& session) {
    const bool ends = session.next == Next::close || session.next == Next::watch || session.input == SessionInput::ended;
    const bool tell = ends || stopping_;
    if (output_.replies().empty() && !tell) return after_sending(session);
    Sent sent{Sent::failed};
    if (!take_memory(session, [&] { sent = output_.send(session, tell); })) return false;
    if (sent.how == Sent::failed) {
        close(session, SessionEnd::send_failed);
        return false;
    }
    if (sent.how == Sent::part) {
        if (output_.begin_writing(session)) return true;
        close(session, SessionEnd::no_memory);
        return false;
    }
    if (!tell || sent.how != Sent::queued) return after_sending(session);
    session.enter(SessionPhase::settling);
    return true;
}

void Sessions::sent(Session& session) {
    const RoomKeeper::AtHand at_hand(room_, session);
    if (!session.is(SessionPhase::settling)) return;
    session.enter(SessionPhase::open);
    after_sending(session);
}

void Sessions::unsent(Session& session, OutBuffer& out, size_t taken, int error) {
    const RoomKeeper::AtHand at_hand(room_, session);
    output_.unsent(session, out, taken, error);
}

bool Sessions::unpause(Session& session) {
    if (session.input != SessionInput::paused) return true;
    session.input = SessionInput::open;
    return resume(session);
}

// The session's next step while some replies are missing.
bool Sessions::await_answers(Session& session) {
    session.state.replies->remind();
    if (session.state.replies->due()) return true;
    if (session.next == Next::hold) {
        if (session.state.replies->slots() >= session.held_slots || !session.state.replies->has_room()) return true;
        session.follow_with(Next::more);
        if (!session.unserved && !unpause(session)) return false;
    }
    if (session.next != Next::more)
        session.stop_reading();
    else if (session.unserved)
        list_.queue(session);
    return true;
}

// The session's next step once the socket has all replies.
bool Sessions::after_sending(Session& session) {
    if (session.state.replies != nullptr && !session.state.replies->empty()) return await_answers(session);
    if (session.next == Next::close) {
        close(session, SessionEnd::protocol_close);
        return false;
    }
    if (session.next == Next::hold) session.follow_with(Next::more);
    if (session.next == Next::watch) return become_watcher(session);
    if (session.next == Next::dump || session.unserved) {
        list_.queue(session);
        return true;
    }
    if (session.input == SessionInput::ended) {
        close(session, stopping_ ? SessionEnd::server_stopped : session.end);
        return false;
    }
    if (!unpause(session)) return false;
    if (!stopping_) return true;
    if (!session.drained) {
        list_.queue(session);
        return true;
    }
    close(session, SessionEnd::server_stopped);
    return false;
}

bool Sessions::become_watcher(Session& session) {
    static_assert(watch_refusals <= UINT16_MAX, "a session keeps the flags in 16 bits");
    session.follow_with(Next::more);
    io_->pause(session);
    io_->before_giving_away();
    auto closed = [&events = events_, admin = session.state.admin] { events.descriptor_closed(admin); };
    bool adopted = false;
    const auto give = [&] { adopted = watch_.adopt(session.state.fd, session.watch_flags, closed, TlsLayer::sealer_of(session)); };
    if (!take_memory(session, give)) return false;
    if (adopted) {
        if (session.tls() != nullptr) session.unfinished->tls.reset();  // the watcher's from here on
        close(session, SessionEnd::became_watcher);
        return false;
    }
    if (session.input == SessionInput::paused) session.input = SessionInput::open;
    if (!resume(session)) return false;
    if (!take_memory(session, [&] { output_.replies().append(WatchHub::too_many); })) return false;
    return send_replies(session);
}

bool Sessions::resume(Session& session) {
    if (io_->resume(session)) return true;
    close(session, SessionEnd::no_memory);
    return false;
}

void Sessions::writable(Session& session) {
    const RoomKeeper::AtHand at_hand(room_, session);
    if (session.is(SessionPhase::doomed)) return;
    read_clock();
    list_.touch(session, context_.now);
    SessionOutput::Written written;
    if (!take_memory(session, [&] { written = output_.write(session); })) return;
    if (written.fails.has_value()) return close(session, *written.fails);
    if (!written.all) return;
    session.enter(SessionPhase::open);
    session.release();
    session.show_resting();
    io_->pause(session);
    if (session.input != SessionInput::open || resume(session)) after_sending(session);
}

}  // namespace farcached::daemon
