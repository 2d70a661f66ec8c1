// SPDX-License-Identifier: BSD-3-Clause
// Sessions, except for their output (daemon/session/sessions_replies.cc).
#include "daemon/session/sessions.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/node_clock.h"
#include "daemon/commands/sasl.h"
#include "process/node_time.h"
#include "protocol/binary.h"
#include "protocol/text_keys.h"

namespace farcached::daemon {

using process::node_now;

namespace {

constexpr size_t ahead_bytes_max = 64 << 10;      // input of a busy session; above this it is not read
constexpr size_t handshake_bytes_max = 64 << 10;  // of a client ahead of its TLS handshake; above this it is not read

// Bytes of the value that the session waits for.
uint64_t missing_of(const Session& session) {
    return session.state.pending == nullptr ? 0 : session.state.pending->upload->missing();
}

// Its last bytes may still be under way to the client.
bool has_reply_under_way(SessionEnd why) {
    using enum SessionEnd;
    constexpr SessionEnd ends[] = {protocol_close, server_stopped, buffers_full, tls_failed};
    return std::ranges::find(ends, why) != std::end(ends);
}

std::unique_ptr<SocketIo> make_io(SocketEvents& events, TurnTimer& timer, WorkerCounters& counters, bool ring,
                                  std::string& refusal) {
    std::unique_ptr<SocketIo> io;
    if (ring) io = make_ring_io(events, timer, counters, refusal);
    return io != nullptr ? std::move(io) : make_event_io(events, timer, counters);
}

// The session keeps its exchange between the steps.
Progress serve_locked(Context& context, RoomKeeper& room, Session& session, std::string_view input, OutBuffer& out,
                      uint32_t requests_max) {
    std::unique_ptr<SaslExchange> exchange;
    if (session.unfinished != nullptr) exchange = std::move(session.unfinished->exchange);
    const Progress progress = run_locked(context, session.state, input, out, requests_max, exchange);
    if (exchange == nullptr) {
        session.release();
        return progress;
    }
    session.keep(context.memory).exchange = std::move(exchange);
    room.note_held(session);
    return progress;
}

// By SessionProtocol.
constexpr std::string_view new_connection_words[] = {
    "new auto-negotiating client connection", "new ascii client connection.", "new binary client connection.",
    "new ascii client connection."};

}  // namespace

Sessions::Sessions(Context& context, const WorkerLive& live, SessionEvents& events, WatchHub& watch, ReplyPool& replies,
                   TurnTimer& timer, bool ring, std::string& refusal, std::function<void()> wake, const TlsKeys* tls)
    : context_(context),
      recorder_(*context.recorder),
      live_(live),
      events_(events),
      watch_(watch),
      replies_(replies),
      io_(make_io(*this, timer, context.counters, ring, refusal)),
      tls_(context, live, *io_, tls, wake),
      room_(context, list_, *io_, tls_, std::move(wake)),
      output_(context, *io_, tls_, list_, room_) {
    context.room = &room_;
}

void Sessions::end_doomed() {
    while (Session* const session = list_.doomed()) close(*session, session->end);
}

void Sessions::end_all() {
    while (Session* const session = list_.oldest()) close(*session, SessionEnd::server_stopped);
}

void Sessions::grant_all() noexcept {
    for (Session* session = list_.oldest(); session != nullptr; session = session->newer) grant_rights(context_, session->state);
}

void Sessions::read_clock() {
    const process::Moment moment = process::node_moment();
    context_.now = moment.seconds;
    context_.out_bytes_max = context_.memory->short_of_room() ? out_bytes_short_max : out_bytes_soft_max;
    if (context_.latencies != nullptr) context_.latencies->reading(moment.ns);
    recorder_.clock(moment.ns);
}

void Sessions::deliver(Session& session) {
    const RoomKeeper::AtHand at_hand(room_, session);
    if (session.is(SessionPhase::queued)) return session.state.replies->remind();
    if (!session.is(SessionPhase::open)) return room_.note_held(session);
    recorder_.take(session.state.fd, session.address, {});
    const bool written = take_memory(session, [&] { session.state.replies->emit(output_.replies()); });
    recorder_.put_down();
    if (written) send_replies(session);
}

void Sessions::open(NewConnection connection) {
    try {
        list_.reserve();
        auto session = std::make_unique<Session>(*io_, connection.fd, connection.protocol);
        session->address = std::move(connection.address);
        if (connection.tls != TlsMode::plain) tls_.greet(*session, connection.tls);
        session->state.admin = connection.admin;
        session->state.own = connection.own;
        grant_rights(context_, session->state);
        const bool known = connection.admin || connection.own;
        if (context_.options.locks_clients() && !known) session->protocol = SessionProtocol::locked;
        if (!context_.router.has_items() || context_.disk != nullptr || context_.steps != nullptr)
            session->state.replies = new ReplyQueue(replies_, connection.fd, session.get());
        recorder_.note("opened connection", connection.fd);
        context_.now = node_now();
        session->last_command.store(context_.now, std::memory_order_relaxed);
        events_.opened(*session);
        if (session->tls() != nullptr) tls_.begin(*session);
        list_.add(*session.release());
    } catch (const std::bad_alloc&) {
        ::close(connection.fd);
        events_.not_opened();
        if (!connection.own) events_.descriptor_closed(connection.admin);
        return;
    }
    if (context_.options.trace) trace_connection(connection.fd, new_connection_words[size_t(connection.protocol)]);
    resume(*list_.newest());
}

// Unread input is discarded first: closing over it makes the kernel send a reset, and the last answer may be lost.
void Sessions::close(Session& session, SessionEnd why) {
    if (!session.is(SessionPhase::doomed)) list_.enter(session, SessionPhase::doomed);  // make_room() must not end it once more
    recorder_.put_down();
    recorder_.note(session_end_name(why).data(), session.state.fd);
    io_->leave(session);
    if (session.tls() != nullptr) tls_.end(session, why);
    list_.remove(session);
    events_.closed(session, why);
    if (context_.options.trace) trace_connection(session.state.fd, "connection closed.");
    if (has_reply_under_way(why)) {
        ::shutdown(session.state.fd, SHUT_WR);
        constexpr int reads_max = 64;
        char thrown_away[8 << 10];
        for (int i = 0; i < reads_max; i++)
            if (recv(session.state.fd, thrown_away, sizeof thrown_away, MSG_DONTWAIT) <= 0) break;
    }
    if (why != SessionEnd::became_watcher) {
        ::close(session.state.fd);
        if (!session.state.own) events_.descriptor_closed(session.state.admin);
    }
    delete &session;
}

void Sessions::begin_stop() {
    io_->catch_up();
    stopping_ = true;
    for (Session* session = list_.oldest(); session != nullptr; session = session->newer)
        if (session->is(SessionPhase::open)) list_.queue(*session);
}

void Sessions::end_idle() {
    const NodeSeconds now = node_now();
    const uint32_t limit = live_.idle_timeout_s;
    for (;;) {
        io_->relieve();
        if (list_.oldest() == nullptr) return;
        Session& session = *list_.oldest();
        const NodeSeconds last = session.last_command.load(std::memory_order_relaxed);
        if (last >= now || now - last <= limit) return;  // later than now: it was just served
        context_.now = now;
        list_.touch(session, context_.now);
        // A client with a request in the socket or in the queue is not idle: this turn may have begun long before the request
        // came. Nor is one whose value arrives in its slot, which receive_now() does not return.
        const uint64_t missing = missing_of(session);
        const bool computes = session.in_tls_handshake() && session.unserved;
        const bool asks = session.is(SessionPhase::queued) || computes || (!session.busy() && io_->receive_now(session));
        if (asks || missing_of(session) != missing) continue;
        context_.counters.idle_kicks.add(1);
        close(session, SessionEnd::idle_timeout);
    }
}

void Sessions::end_slow_handshakes() {
    const uint64_t now_ns = boottime_ns();
    while (Session* const session = tls_.slow_handshake(now_ns)) close(*session, SessionEnd::tls_timeout);
}

void Sessions::continue_handshakes() {
    tls_.take_computed([this](Session& session) { list_.queue(session); });
}

// As in a multi-get: prefetches for all before the first is read.
void Sessions::coming(std::span<const std::string_view> inputs) {
    std::array<protocol::Key, proxy::LocalGet::prefetch_window> keys;
    for (size_t i = 0; i < inputs.size();) {
        size_t count = 0;
        for (; i < inputs.size() && count < keys.size(); i++) {
            const std::string_view key = protocol::likely_key(inputs[i]);
            if (!key.empty()) keys[count++] = context_.router.key(key);
        }
        context_.router.expect(std::span(keys).first(count));
    }
}

void Sessions::received(Session& session, std::string_view bytes, bool all) {
    const RoomKeeper::AtHand at_hand(room_, session);
    context_.counters.bytes_read.add(bytes.size());
    recorder_.note("received on connection, bytes:", session.state.fd, int64_t(bytes.size()));
    session.drained = stopping_ && all;
    if (session.tls() != nullptr) [[unlikely]] return received_sealed(session, bytes);
    take_input(session, bytes);
}

// A handshake continues in the next turn, behind the sessions that are ready with it.
void Sessions::received_sealed(Session& session, std::string_view bytes) {
    if (session.is(SessionPhase::doomed) || session.next == Next::close) return;
    if (!session.tls()->in_handshake()) return open_records(session, bytes);
    if (!take_memory(session, [&] { session.tls()->keep(context_, bytes); })) return;
    session.unserved = true;
    room_.note_held(session);
    if (session.tls()->kept() > handshake_bytes_max && session.input == SessionInput::open) session.stop_reading();
    if (session.is(SessionPhase::open) && session.tls()->stage() == TlsSession::Stage::none) list_.queue(session);
}

void Sessions::open_records(Session& session, std::string_view bytes) {
    const bool in_handshake = session.in_tls_handshake();
    TlsLayer::Opened opened;
    if (!take_memory(session, [&] { opened = tls_.open(session, bytes); })) return;
    if (opened.fails.has_value()) return close(session, *opened.fails);
    if (opened.unsent && !session.is(SessionPhase::writing) && !output_.begin_writing(session))
        return close(session, SessionEnd::no_memory);
    if (opened.computing) return;
    const auto identify_client = [&] {
        const std::string name = session.tls()->client_name();
        if (!name.empty()) identify(context_, session.state, name);
    };
    if (opened.handshake_ended && !take_memory(session, identify_client)) return;
    const bool may_resume = in_handshake && session.is(SessionPhase::open) && session.next == Next::more;
    if (may_resume && !unpause(session)) return;
    room_.note_held(session);
    if (!opened.plain.empty() && !take_input(session, opened.plain)) return;
    if (opened.ended) return input_ended(session, 0);
    continue_ended(session, opened.plain.empty());
}

// After records were opened: the next step of a session that waits for no further bytes.
void Sessions::continue_ended(Session& session, bool nothing_opened) {
    if (!session.is(SessionPhase::open)) return;
    if (session.input == SessionInput::ended) {
        if (session.unserved)
            list_.queue(session);
        else
            send_replies(session);
    } else if (nothing_opened && stopping_ && !session.busy()) {
        send_replies(session);
    }
}

bool Sessions::take_input(Session& session, std::string_view bytes) {
    list_.touch(session, context_.now);
    const auto append = [&] { session.keep(context_.memory).append(context_, bytes); };
    if (session.busy()) {  // kept for its next turn (T2)
        if (session.next == Next::close || session.is(SessionPhase::doomed)) return true;
        if (!take_memory(session, append)) return false;
        if (session.unread().size() >= session.input_want) session.unserved = true;
        if (session.unread().size() > ahead_bytes_max && session.input == SessionInput::open) session.stop_reading();
        return true;
    }
    std::string_view input = bytes;
    const bool stashed = !session.unread().empty();
    if (stashed) {
        if (!take_memory(session, append)) return false;
        input = session.unread();
    }
    if (input.size() >= session.input_want) return serve(session, input, stashed);
    if (!take_memory(session, [&] { session.stash(context_, input, stashed); })) return false;
    room_.note_held(session);
    return stopping_ ? send_replies(session) : after_sending(session);  // no new ones, but queued ones leave before it ends
}

void Sessions::received_in_place(Session& session, size_t bytes) {
    read_clock();
    context_.counters.bytes_read.add(bytes);
    recorder_.note("received a value on connection, bytes:", session.state.fd, int64_t(bytes));
    list_.touch(session, context_.now);
    session.state.pending->upload->advance(bytes);
}

void Sessions::input_ended(Session& session, int error) {
    const RoomKeeper::AtHand at_hand(room_, session);
    if (session.is(SessionPhase::doomed)) return;
    session.end = error == 0 ? SessionEnd::client_closed : SessionEnd::peer_reset;
    const bool answers_come = session.state.replies != nullptr && !session.state.replies->empty();
    const bool now = !session.busy() && !answers_come;
    if (error != 0 && !session.busy()) return close(session, session.end);
    session.stop_reading(SessionInput::ended);
    if (now) send_replies(session);  // no new ones, but queued ones leave before it ends
}

bool Sessions::serve(Session& session, std::string_view input, bool stashed) {
    if (session.protocol == SessionProtocol::any) {
        bool binary = uint8_t(input[0]) == protocol::binary_request_magic;
        session.protocol = binary ? SessionProtocol::binary : SessionProtocol::text;
    }
    auto* const engine = session.protocol == SessionProtocol::binary ? run_binary : run_text;
    const bool locked = session.protocol == SessionProtocol::locked;
    // No passwords in a crash report, nor among slow requests.
    const bool secret = locked || (context_.options.sasl != nullptr && protocol::binary_may_authenticate(input));
    session.show(ShownState::parsing);
    if (context_.latencies != nullptr && context_.latencies->lists_slow() && !secret) {
        const PendingSet* const pending = session.state.pending.get();  // then `input` is in the middle of its value
        context_.latencies->begin_batch(session.state.fd, pending != nullptr ? std::string_view(pending->head) : input);
    }
    Progress progress;
    const bool waited = session.state.pending != nullptr;
    recorder_.take(session.state.fd, session.address, secret ? std::string_view() : input);
    if (!take_memory(session, [&] {
            OutBuffer& out = output_.replies();
            const uint32_t requests_max = live_.requests_per_event;
            progress = locked ? serve_locked(context_, room_, session, input, out, requests_max)
                              : engine(context_, session.state, input, out, requests_max);
            if (session.state.replies != nullptr) session.state.replies->settle(out);
        }))
        return false;
    recorder_.put_down();
    if (!waited && session.state.pending == nullptr) session.state.line.sends_values = false;
    CHECK(progress.consumed <= input.size());
    if (progress.unlocked)
        session.protocol = context_.options.sasl != nullptr ? SessionProtocol::binary : SessionProtocol::text;
    if (progress.locked) session.protocol = SessionProtocol::locked;
    session.input_want = progress.next == Next::more ? progress.want : 0;
    session.unserved = progress.next != Next::more && progress.consumed < input.size();
    bool stashes = false;
    if (!take_memory(session, [&] { stashes = session.stash(context_, input.substr(progress.consumed), stashed); })) return false;
    if (stashes) room_.note_held(session);
    switch (progress.next) {
        case Next::more: break;
        case Next::yield: context_.counters.conn_yields.add(1); break;
        case Next::hold:
            if (!session.unserved) break;
            session.follow_with(Next::hold);
            session.held_slots = session.state.replies->slots();
            session.stop_reading();
            break;
        case Next::dump: {
            const auto begin = [&] {
                session.keep(context_.memory).dump = std::make_unique<DumpWalk>(progress.mgdump, progress.dump_classes);
            };
            if (!take_memory(session, begin)) return false;
            session.follow_with(Next::dump);
            break;
        }
        case Next::watch: session.watch_flags = progress.watch_flags; [[fallthrough]];
        case Next::close: session.follow_with(progress.next);
    }
    return send_replies(session);
}

// A step of each queued session, after the sockets that were ready with them.
void Sessions::turn_of_waiting() {
    read_clock();
    bool handshake = false;  // one a turn: its computation takes longer than many requests
    list_.take_turns([&](Session& session) {
        io_->relieve();
        if (!session.is(SessionPhase::queued)) return;  // waits for its socket
        session.enter(SessionPhase::open);
        if (session.in_tls_handshake() && session.unserved && std::exchange(handshake, true)) return list_.queue(session);
        take_turn(session);
    });
}

void Sessions::take_turn(Session& session) {
    const RoomKeeper::AtHand at_hand(room_, session);
    if (session.state.replies != nullptr && session.state.replies->due()) return deliver(session);
    if (session.next == Next::dump) {  // input behind the command waits for the end
        const auto write = [&] { session.write_dump(context_, output_.replies(), SessionOutput::bytes_kept); };
        if (take_memory(session, write)) send_replies(session);
        return;
    }
    if (session.in_tls_handshake() && session.unserved) {
        open_records(session, {});
    } else if (session.next == Next::more && session.unserved) {
        serve(session, session.unread(), true);
    } else if (session.next != Next::more || session.input == SessionInput::ended) {
        after_sending(session);
    } else if (unpause(session) && !io_->receive_now(session)) {  // the worker stops, and has served what was in the socket
        session.end = SessionEnd::server_stopped;
        session.stop_reading(SessionInput::ended);
        if (session.state.replies == nullptr || session.state.replies->empty()) send_replies(session);
    }
}

}  // namespace farcached::daemon
