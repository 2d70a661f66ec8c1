// SPDX-License-Identifier: BSD-3-Clause
// Worker, output: sends replies, and continues the session afterwards.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "base/check.h"
#include "daemon/session/event_io.h"
#include "daemon/session/worker.h"

namespace farcached::daemon {

namespace {

constexpr size_t out_bytes_kept = 256 << 10;  // capacity of the shared output buffer between ticks

}  // namespace

bool Worker::send_replies(Session& session) {
    const bool ends = session.next == Next::close || session.next == Next::watch || session.input == SessionInput::ended;
    const bool tell = ends || stopping_;
    if (out_.empty() && !tell) return after_sending(session);
    const size_t size = out_.leaves();
    Sent sent{Sent::failed};
    if (!take_memory(session, [&] { sent = io_->send(session, out_, tell); })) return false;
    if (sent.how == Sent::failed) {
        out_.clear(out_bytes_kept);
        close(session, SessionEnd::send_failed);
        return false;
    }
    recorder_.note(sent.how == Sent::queued ? "queued for connection, bytes:" : "sent on connection, bytes:", session.state.fd,
                   int64_t(sent.how == Sent::part ? sent.bytes : size));
    if (sent.how == Sent::part) {
        if (!take_memory(session, [&] { keep_rest(kept(session), out_, sent.bytes); })) return false;
        out_.clear(out_bytes_kept);
        if (begin_writing(session)) return true;
        close(session, SessionEnd::no_memory);
        return false;
    }
    out_.clear(out_bytes_kept);
    if (!tell || sent.how != Sent::queued) return after_sending(session);
    session.enter(SessionPhase::settling);
    return true;
}

void Worker::before_sending() { context_.router.record_accesses(context_.now); }

void Worker::sent(Session& session) {
    const AtHand at_hand(*this, session);
    if (!session.is(SessionPhase::settling)) return;
    session.enter(SessionPhase::open);
    after_sending(session);
}

// Keeps all of `out` after the first `taken` bytes: copies its own bytes, and moves the borrowed ones.
void Worker::keep_rest(Unfinished& kept, OutBuffer& out, size_t taken) {
    std::vector<OutPiece> pieces = out.take_pieces();
    const size_t start = take_front(pieces, 0, taken);
    for (OutPiece& piece : pieces) piece.at -= start;
    const std::string_view rest = out.own().substr(start);
    context_.has_room(rest.size());
    kept.output.assign(rest);
    kept.output_start = 0;
    kept.output_pieces = std::move(pieces);
}

// Marks the session doomed instead of closing it: callers may be working on it.
void Worker::unsent(Session& session, OutBuffer& out, size_t taken, int error) {
    const AtHand at_hand(*this, session);
    if (session.is(SessionPhase::doomed)) return;
    if (session.is(SessionPhase::queued)) std::erase(ready_, &session);
    if (error != 0) return doom(session, SessionEnd::send_failed);
    try {
        keep_rest(kept(session), out, taken);
    } catch (const SessionMemorySpent&) {
        counters_.response_oom.add(1);
        return doom(session, SessionEnd::buffers_full);
    } catch (const std::bad_alloc&) {
        return doom(session, SessionEnd::no_memory);
    }
    if (!begin_writing(session)) doom(session, SessionEnd::no_memory);
}

void Worker::doom(Session& session, SessionEnd why) {
    if (session.is(SessionPhase::doomed)) return;
    session.enter(SessionPhase::doomed);
    session.end = why;
    doomed_.push_back(&session);
}

// `output` waits for the socket. False: no memory for that.
bool Worker::begin_writing(Session& session) {
    session.enter(SessionPhase::writing);
    show(session, ShownState::writing);
    note_held(session);
    io_->pause(session);
    return io_->await_room(session);
}

// Stops reading the session, for a reason of await_answers() or at the end of input.
void Worker::pause(Session& session, SessionInput why) {
    if (session.input != SessionInput::ended) session.input = why;
    if (!session.is(SessionPhase::writing)) io_->pause(session);
}

bool Worker::unpause(Session& session) {
    if (session.input != SessionInput::paused) return true;
    session.input = SessionInput::open;
    return resume(session);
}

// The session's next step while some replies are missing.
bool Worker::await_answers(Session& session) {
    session.state.replies->remind();
    if (session.state.replies->due()) return true;
    if (session.next == Next::hold) {
        if (session.state.replies->slots() >= session.held_slots || !session.state.replies->has_room()) return true;
        session.follow_with(Next::more);
        if (!session.unserved && !unpause(session)) return false;
    }
    if (session.next != Next::more)
        pause(session);
    else if (session.unserved)
        queue(session);
    return true;
}

// The session's next step once the socket has all replies.
bool Worker::after_sending(Session& session) {
    if (session.state.replies != nullptr && !session.state.replies->empty()) return await_answers(session);
    if (session.next == Next::close) {
        close(session, SessionEnd::protocol_close);
        return false;
    }
    if (session.next == Next::hold) session.follow_with(Next::more);
    if (session.next == Next::watch) return become_watcher(session);
    if (session.next == Next::dump || session.unserved) {
        queue(session);
        return true;
    }
    if (session.input == SessionInput::ended) {
        close(session, stopping_ ? SessionEnd::server_stopped : session.end);
        return false;
    }
    if (!unpause(session)) return false;
    if (!stopping_) return true;
    if (!session.drained) {
        queue(session);
        return true;
    }
    close(session, SessionEnd::server_stopped);
    return false;
}

// One portion; the rest in later turns. Input behind the command waits for the end.
void Worker::stream_dump(Session& session) {
    bool more = false;
    if (!take_memory(session, [&] {
            more = session.unfinished->dump->more(out_, local_->node(), context_.now, context_.started_unix, out_bytes_kept);
        }))
        return;
    if (!more) {
        session.unfinished->dump.reset();
        session.follow_with(Next::more);
        session.release();
    }
    send_replies(session);
}

bool Worker::become_watcher(Session& session) {
    static_assert(watch_proxyevents <= UINT8_MAX, "a session keeps the flags in a byte");
    session.follow_with(Next::more);
    io_->pause(session);
    io_->before_giving_away();
    auto closed = [&events = events_, admin = session.state.admin] { events.descriptor_closed(admin); };
    bool adopted = false;
    if (!take_memory(session, [&] { adopted = watch_.adopt(session.state.fd, session.watch_flags, closed); })) return false;
    if (adopted) {
        close(session, SessionEnd::became_watcher);
        return false;
    }
    if (session.input == SessionInput::paused) session.input = SessionInput::open;
    if (!resume(session)) return false;
    if (!take_memory(session, [&] { out_.append(WatchHub::too_many); })) return false;
    return send_replies(session);
}

bool Worker::resume(Session& session) {
    if (io_->resume(session)) return true;
    close(session, SessionEnd::no_memory);
    return false;
}

bool Worker::send_pending(Session& session) {
    Unfinished& rest = *session.unfinished;
    const ssize_t sent =
        send_some(session.state.fd, rest.output, rest.output_start, rest.output_pieces, MSG_NOSIGNAL | MSG_DONTWAIT);
    counters_.write_calls.add(1);
    if (sent < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return false;
        close(session, SessionEnd::send_failed);
        return false;
    }
    counters_.bytes_written.add(uint64_t(sent));
    rest.output_start = take_front(rest.output_pieces, rest.output_start, size_t(sent));
    if (rest.output_start < rest.output.size() || !rest.output_pieces.empty()) return false;
    daemon::release(rest.output);
    rest.output_start = 0;
    return true;
}

void Worker::writable(Session& session) {
    const AtHand at_hand(*this, session);
    if (session.is(SessionPhase::doomed)) return;
    read_clock();
    touch(session);
    if (!send_pending(session)) return;
    session.enter(SessionPhase::open);
    session.release();
    show_resting(session);
    io_->pause(session);
    if (session.input != SessionInput::open || resume(session)) after_sending(session);
}

}  // namespace farcached::daemon
