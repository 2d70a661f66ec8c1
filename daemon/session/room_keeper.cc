// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/session/room_keeper.h"

#include <sys/socket.h>

#include <algorithm>

#include "base/out_buffer.h"
#include "base/recorder.h"
#include "daemon/commands/sasl.h"
#include "daemon/session/tls.h"
#include "daemon/session/tls_layer.h"

namespace farcached::daemon {

namespace {

constexpr size_t worth_bytes = 4096;  // a session that holds less does not end
constexpr uint32_t silent_s = 2;      // a second at least
constexpr uint64_t others_factor = 2; // another worker's session ends first if it holds so many times as much

// Past all queues, for a session that ends.
void send_at_once(const Context& context, const Session& session, std::string_view bytes) {
    OutBuffer sealed;
    if (session.seals()) {
        if (session.tls()->has_unsent() || !session.tls()->seal(bytes, sealed)) return;
        bytes = sealed.own();
    }
    const ssize_t sent = ::send(session.state.fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) context.counters.bytes_written.add(uint64_t(sent));
}

}  // namespace

// The bytes freed by the end of the session. It holds some if its client does not read, has sent half a request, or waits for
// room.
RoomKeeper::Held RoomKeeper::held_by(const Session& session) {
    const bool rests = session.is(SessionPhase::writing) || (session.input_want != 0 && !session.is(SessionPhase::queued));
    Held held;
    if (session.state.replies != nullptr) held.buffers = session.state.replies->charged();
    if (session.tls() != nullptr) held.buffers += session.tls()->held();
    if (session.unfinished != nullptr && session.unfinished->exchange != nullptr) held.buffers += SaslExchange::charged_bytes;
    if (!rests || session.unfinished == nullptr) return held;
    held.buffers += session.unfinished->capacity();
    held.pinned = session.unfinished->pinned_bytes();
    return held;
}

bool RoomKeeper::may_end(const Session& session) const {
    if (session.is(SessionPhase::doomed) || session.next == Next::dump) return false;
    const auto end = at_hand_.begin() + ptrdiff_t(at_hand_count_);
    return std::find(at_hand_.begin(), end, &session) == end;
}

bool RoomKeeper::is_silent(const Session& session) const {
    return seconds_since(session.last_command.load(std::memory_order_relaxed), context_.now) >= silent_s;
}

// The next session to end, among those that hold at least `least`: the largest silent one, or else the largest.
RoomKeeper::Hoarder RoomKeeper::hoarder(Lack lack, size_t least) const {
    Hoarder found;
    found.held = std::max(least, worth_bytes) - 1;
    bool found_silent = false;
    for (Session* session = sessions_.oldest(); session != nullptr; session = session->newer) {
        if (!may_end(*session)) continue;
        const Held held = held_by(*session);
        if (held.of(lack) < worth_bytes) continue;
        found.all.buffers += held.buffers;
        found.all.pinned += held.pinned;
        found.most = std::max(found.most, held.of(lack));
        const bool silent = is_silent(*session);
        if (held.of(lack) <= found.held || (found_silent && !silent)) continue;
        found.session = session;
        found.held = held.of(lack);
        found_silent = silent;
    }
    hoard_.looked(lack, found.most);
    return found;
}

// Of the embedded node; there are no other values that replies are sent from.
bool RoomKeeper::may_lend(uint64_t bytes, uint64_t freed) const {
    LocalPeer* const local = context_.router.local();
    return local != nullptr && local->node().may_lend(bytes, freed);
}

uint64_t RoomKeeper::bytes_lent() const {
    LocalPeer* const local = context_.router.local();
    return local != nullptr ? local->node().bytes_lent() : 0;
}

bool RoomKeeper::has_room(Lack lack, size_t bytes) const {
    return context_.memory->has_room(bytes) || (lack == Lack::value && may_lend(bytes));
}

// True: the end of all workers' hoarders may free enough.
bool RoomKeeper::may_suffice(Lack lack, size_t bytes, const Held& all) const {
    SessionMemory& memory = *context_.memory;
    const uint64_t buffers = all.buffers + memory.hoards().of_others(hoard_, Lack::buffer);
    if (memory.used() + bytes <= memory.limit() + buffers) return true;
    return lack == Lack::value && may_lend(bytes, all.pinned + memory.hoards().of_others(hoard_, Lack::value));
}

bool RoomKeeper::make_room(size_t bytes, Lack lack) {
    size_t own = 0;
    for (size_t i = 0; i < at_hand_count_; i++)
        if (at_hand_[i]->unfinished != nullptr) own = std::max(own, at_hand_[i]->unfinished->input_capacity());
    return end_hoarders(lack, bytes, own, /* asks= */ true);
}

// When pins are exhausted, the silent session that pins most ends, one a second. If there is none here, another worker
// searches. The cache gets its memory back, and clients that read keep their connections.
void RoomKeeper::relieve_pins(size_t bytes, bool asks) {
    const bool helps = !may_lend(bytes) && may_lend(bytes, bytes_lent());
    if (!helps || pins_sought_ == context_.now) return;
    pins_sought_ = context_.now;
    Session* found = nullptr;
    size_t most = 0;
    for (Session* session = sessions_.oldest(); session != nullptr; session = session->newer) {
        const size_t pinned = may_end(*session) && is_silent(*session) ? held_by(*session).pinned : 0;
        if (pinned <= most) continue;
        found = session;
        most = pinned;
    }
    if (found != nullptr) return end(*found);
    if (asks) context_.memory->hoards().ask(hoard_, Lack::value, {bytes, worth_bytes});
}

// Ends sessions that hold at least `from`, until there is room. asks: also those of other workers.
bool RoomKeeper::end_hoarders(Lack lack, size_t bytes, size_t from, bool asks) {
    if (lack == Lack::value) relieve_pins(bytes, asks);
    while (!has_room(lack, bytes)) {
        const Hoarder found = hoarder(lack, from);
        if (!may_suffice(lack, bytes, found.all)) return false;
        const uint64_t others_from = std::max<uint64_t>(from, others_factor * found.most);
        if (asks && context_.memory->hoards().ask(hoard_, lack, {bytes, others_from})) return false;
        if (found.session == nullptr) return false;
        const uint64_t before = context_.memory->used() + bytes_lent();
        end(*found.session);
        // Other sessions may pin the same slots: ending more would not help.
        if (context_.memory->used() + bytes_lent() >= before) return has_room(lack, bytes);
    }
    return true;
}

// Counts a session that ends because all sessions reached their limit. Sends its client the reason, unless part of a reply has
// left.
void RoomKeeper::report(const Session& session, bool writes) {
    context_.recorder->note("buffers full, ends connection", session.state.fd);
    (writes ? context_.counters.response_oom : context_.counters.read_oom).add(1);
    const bool by_sasl = session.protocol == SessionProtocol::locked && context_.options.sasl != nullptr;
    const bool binary = session.protocol == SessionProtocol::binary || by_sasl;
    if (writes || binary || io_.has_queued(session)) return;
    send_at_once(context_, session, "SERVER_ERROR out of memory reading request\r\n");
}

void RoomKeeper::report_refused(const Session& session, bool has_replies) {
    report(session, has_replies || session.is(SessionPhase::writing) || session.next == Next::dump);
}

// Frees no memory that the kernel may still use (S12). The worker sends `output`, and receives into a slot, only by calls that
// have returned (send_some(), receive_for()). A ring owns the bytes of its queued sends, and receives into its own buffers.
void RoomKeeper::end(Session& session) {
    const bool begins_record = session.tls() != nullptr && (session.tls()->kept() != 0 || session.in_tls_handshake());
    const bool attempts = session.unfinished != nullptr && session.unfinished->exchange != nullptr;
    report(session, session.is(SessionPhase::writing) || (session.input_want == 0 && !begins_record && !attempts));
    if (session.tls() != nullptr) {
        tls_.drop_buffers(session);
        session.unfinished->drop();
    } else {
        session.unfinished.reset();
    }
    session.input_want = 0;
    session.unserved = false;
    if (session.state.replies != nullptr) session.state.replies->abandon();
    session.stop_reading();
    sessions_.doom(session, SessionEnd::buffers_full);
}

void RoomKeeper::end_as_asked(FunctionRef<void()> read_clock) {
    for (const Lack lack : lacks) {
        RoomWanted wanted;
        if (!hoard_.take(lack, wanted)) [[likely]] continue;
        read_clock();
        end_hoarders(lack, wanted.bytes, wanted.from, /* asks= */ false);
        hoarder(lack, 0);  // refreshes the maximum that other workers read
    }
}

}  // namespace farcached::daemon
