// SPDX-License-Identifier: BSD-3-Clause
// Sessions, output: sends replies, and continues the session afterwards. And what a session keeps (Unfinished).
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <optional>

#include "daemon/commands/sasl.h"
#include "daemon/session/sessions.h"
#include "protocol/layout.h"

namespace farcached::daemon {

namespace {

constexpr size_t out_bytes_kept = 256 << 10;     // capacity of the shared output buffer between ticks
constexpr size_t session_bytes_kept = 16 << 10;  // of a session's own input buffer, while in use

}  // namespace

bool Sessions::send_replies(Session& session) {
    const bool ends = session.next == Next::close || session.next == Next::watch || session.input == SessionInput::ended;
    const bool tell = ends || stopping_;
    if (out_.empty() && !tell) return after_sending(session);
    const size_t size = out_.leaves();
    Sent sent{Sent::failed};
    const auto send = [&] { sent = session.seals() ? tls_.send(session, out_, tell) : io_->send(session, out_, tell); };
    if (!take_memory(session, send)) return false;
    if (sent.how == Sent::failed) {
        out_.clear(out_bytes_kept);
        close(session, SessionEnd::send_failed);
        return false;
    }
    recorder_.note(sent.how == Sent::queued ? "queued for connection, bytes:" : "sent on connection, bytes:", session.state.fd,
                   int64_t(sent.how == Sent::part ? sent.bytes : size));
    if (sent.how == Sent::part) {
        if (!take_memory(session, [&] { session.keep(context_.memory).keep_rest(context_, out_, sent.bytes); })) return false;
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

void Sessions::sent(Session& session) {
    const RoomKeeper::AtHand at_hand(room_, session);
    if (!session.is(SessionPhase::settling)) return;
    session.enter(SessionPhase::open);
    after_sending(session);
}

// Marks the session doomed instead of closing it: callers may be working on it.
void Sessions::unsent(Session& session, OutBuffer& out, size_t taken, int error) {
    const RoomKeeper::AtHand at_hand(room_, session);
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

// `output` waits for the socket. False: no memory for that.
bool Sessions::begin_writing(Session& session) {
    list_.enter(session, SessionPhase::writing);
    session.show(ShownState::writing);
    room_.note_held(session);
    io_->pause(session);
    return io_->await_room(session);
}

// Stops reading the session, for a reason of await_answers() or at the end of input.
void Sessions::pause(Session& session, SessionInput why) {
    if (session.input != SessionInput::ended) session.input = why;
    if (!session.is(SessionPhase::writing)) io_->pause(session);
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
        pause(session);
    else if (session.unserved)
        queue(session);
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
void Sessions::stream_dump(Session& session) {
    bool more = false;
    if (!take_memory(session, [&] {
            more = session.unfinished->dump->more(out_, context_.router.local()->node(), context_.now, context_.started_unix,
                                                  out_bytes_kept);
        }))
        return;
    if (!more) {
        session.unfinished->dump.reset();
        session.follow_with(Next::more);
        session.release();
    }
    send_replies(session);
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
    if (!take_memory(session, [&] { out_.append(WatchHub::too_many); })) return false;
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
    if (session.seals()) {
        if (io_->has_queued(session)) return;  // an earlier record (T3)
        std::optional<SessionEnd> fails;
        if (!take_memory(session, [&] { fails = tls_.write(session); })) return;
        if (fails.has_value()) return close(session, *fails);
        if (TlsLayer::all_taken(session)) written(session);
        return;
    }
    const ssize_t sent = session.unfinished->send(session.state.fd);
    context_.counters.write_calls.add(1);
    if (sent < 0) {
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) close(session, SessionEnd::send_failed);
        return;
    }
    context_.counters.bytes_written.add(uint64_t(sent));
    if (session.unfinished->no_output()) written(session);
}

// The socket has taken all output of a session that was writing.
void Sessions::written(Session& session) {
    session.enter(SessionPhase::open);
    session.release();
    session.show_resting();
    io_->pause(session);
    if (session.input != SessionInput::open || resume(session)) after_sending(session);
}

// ---- when memory is short (daemon/session/room_keeper.h) ------------------------------------------------

// Counts a session that ends because all sessions reached their limit. Sends its client the reason, unless part of a reply has
// left.
void Sessions::tell_full(Session& session, bool writes) {
    recorder_.note("buffers full, ends connection", session.state.fd);
    (writes ? context_.counters.response_oom : context_.counters.read_oom).add(1);
    const bool by_sasl = session.protocol == SessionProtocol::locked && context_.options.sasl != nullptr;
    const bool binary = session.protocol == SessionProtocol::binary || by_sasl;
    if (writes || binary || io_->has_queued(session)) return;
    send_at_once(session, "SERVER_ERROR out of memory reading request\r\n");
}

// Past all queues, for a session that ends.
void Sessions::send_at_once(Session& session, std::string_view bytes) {
    OutBuffer sealed;
    if (session.seals()) {
        if (session.tls()->has_unsent() || !session.tls()->seal(bytes, sealed)) return;
        bytes = sealed.own();
    }
    const ssize_t sent = ::send(session.state.fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) context_.counters.bytes_written.add(uint64_t(sent));
}

void Sessions::refuse(Session& session) {
    tell_full(session, !out_.empty() || session.is(SessionPhase::writing) || session.next == Next::dump);
    out_.clear(0);
    close(session, SessionEnd::buffers_full);
}

// Frees no memory that the kernel may still use (S12). The worker sends `output`, and receives into a slot, only by calls that
// have returned (send_some(), receive_for()). A ring owns the bytes of its queued sends, and receives into its own buffers.
void Sessions::end_hoarder(Session& session) {
    const bool begins_record = session.tls() != nullptr && (session.tls()->kept() != 0 || session.in_tls_handshake());
    const bool attempts = session.unfinished != nullptr && session.unfinished->exchange != nullptr;
    tell_full(session, session.is(SessionPhase::writing) || (session.input_want == 0 && !begins_record && !attempts));
    if (session.tls() != nullptr) {
        tls_.drop_buffers(session);
        session.unfinished->drop();
    } else {
        session.unfinished.reset();
    }
    session.input_want = 0;
    session.unserved = false;
    if (session.state.replies != nullptr) session.state.replies->abandon();
    pause(session);
    list_.doom(session, SessionEnd::buffers_full);
}

// ---- what a session keeps -------------------------------------------------------------------------------

Unfinished::Unfinished(SessionMemory* memory)
    : input_(SessionAllocator<char>(memory)), output_(SessionAllocator<char>(memory)) {}

Unfinished::~Unfinished() = default;

void Unfinished::drop() {
    for (SessionBytes* bytes : {&input_, &output_}) daemon::release(*bytes);
    input_start_ = output_start_ = 0;
    pieces_.clear();
    dump.reset();
    exchange.reset();
}

void append_with_room(const Context& context, SessionBytes& to, std::string_view bytes) {
    const size_t needed = to.size() + bytes.size();
    if (needed > to.capacity()) context.has_room(std::max(needed, 2 * to.capacity()));
    to.append(bytes);
}

void Unfinished::append(const Context& context, std::string_view bytes) { append_with_room(context, input_, bytes); }

void Unfinished::keep_only(std::string_view rest) {
    if (rest.empty()) daemon::release(input_);
    input_start_ = input_.size() - rest.size();
    if (input_start_ <= std::max(rest.size(), session_bytes_kept)) return;
    SessionBytes(rest, input_.get_allocator()).swap(input_);
    input_start_ = 0;
}

void Unfinished::keep_rest(const Context& context, OutBuffer& out, size_t taken) {
    std::vector<OutPiece> pieces = out.take_pieces();
    const size_t start = take_front(pieces, 0, taken);
    for (OutPiece& piece : pieces) piece.at -= start;
    const std::string_view rest = out.own().substr(start);
    context.has_room(rest.size());
    output_.assign(rest);
    output_start_ = 0;
    pieces_ = std::move(pieces);
}

ssize_t Unfinished::send(int socket) {
    const ssize_t sent = send_some(socket, output_, output_start_, pieces_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) output_taken(size_t(sent));
    return sent;
}

size_t Unfinished::seal(size_t most, OutBuffer& sealed) {
    const size_t done = tls->seal(output_, output_start_, pieces_, 0, most, sealed);
    output_taken(done);
    return done;
}

void Unfinished::output_taken(size_t bytes) {
    output_start_ = take_front(pieces_, output_start_, bytes);
    if (!no_output()) return;
    daemon::release(output_);
    output_start_ = 0;
}

size_t Unfinished::pinned_bytes() const {
    size_t bytes = 0;
    for (const OutPiece& piece : pieces_)
        bytes += (piece.bytes.size() + layout::page_bytes - 1) / layout::page_bytes * layout::page_bytes;
    return bytes;
}

}  // namespace farcached::daemon
