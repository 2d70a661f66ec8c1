// SPDX-License-Identifier: BSD-3-Clause
// Worker, when memory is short: which session ends, and the reply to its client.
//
// A session ends for buffers (read_buf_mem_limit), or for a large value whose slot cannot be pinned. Its bytes are free at
// once; the session itself ends with the turn (W7). If another worker's session holds twice as much, that worker ends it at its
// next turn (daemon/engine/hoards.h), and this request is refused.
#include <sys/socket.h>

#include <algorithm>

#include "daemon/session/worker.h"
#include "protocol/layout.h"

namespace farcached::daemon {

namespace {

constexpr size_t worth_bytes = 4096;  // a session that holds less does not end
constexpr uint32_t silent_s = 2;      // a second at least
constexpr uint64_t others_factor = 2; // another worker's session ends first if it holds so many times as much

}  // namespace

// Counts a session that ends because all sessions reached their limit. Sends its client the reason, unless part of a reply has
// left.
void Worker::tell_full(Session& session, bool writes) {
    recorder_.note("buffers full, ends connection", session.state.fd);
    (writes ? counters_.response_oom : counters_.read_oom).add(1);
    if (writes || session.protocol == SessionProtocol::binary || io_->has_queued(session)) return;
    constexpr std::string_view words = "SERVER_ERROR out of memory reading request\r\n";
    const ssize_t sent = ::send(session.state.fd, words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) counters_.bytes_written.add(uint64_t(sent));
}

void Worker::refuse(Session& session) {
    tell_full(session, !out_.empty() || session.is(SessionPhase::writing) || session.next == Next::dump);
    out_.clear(0);
    close(session, SessionEnd::buffers_full);
}

// The bytes freed by the end of the session. It holds some if its client does not read, has sent half a request, or waits for
// room.
Worker::Held Worker::held_by(const Session& session) {
    const bool writes = session.is(SessionPhase::writing);
    const bool rests = writes || (session.input_want != 0 && !session.is(SessionPhase::queued));
    Held held;
    if (session.state.replies != nullptr) held.buffers = session.state.replies->charged();
    if (!rests || session.unfinished == nullptr) return held;
    held.buffers += session.unfinished->input.capacity() + session.unfinished->output.capacity();
    for (const OutPiece& piece : session.unfinished->output_pieces)  // a pin keeps whole pages
        held.pinned += (piece.bytes.size() + layout::page_bytes - 1) / layout::page_bytes * layout::page_bytes;
    return held;
}

// For the other workers: called where a session begins to wait, and may hold more than before.
void Worker::note_held(const Session& session) {
    if (hoard_ == nullptr) return;
    const Held held = held_by(session);
    for (const Lack lack : lacks) hoard_->note(lack, held.of(lack));
}

bool Worker::is_at_hand(const Session& session) const {
    const auto end = at_hand_.begin() + ptrdiff_t(at_hand_count_);
    return std::find(at_hand_.begin(), end, &session) != end;
}

bool Worker::may_end(const Session& session) const {
    return !session.is(SessionPhase::doomed) && session.next != Next::dump && !is_at_hand(session);
}

bool Worker::is_silent(const Session& session) const {
    return seconds_since(session.last_command.load(std::memory_order_relaxed), context_.now) >= silent_s;
}

// The next session to end, among those that hold at least `least`: the largest silent one, or else the largest.
Worker::Hoarder Worker::hoarder(Lack lack, size_t least) const {
    Hoarder found;
    found.held = std::max(least, worth_bytes) - 1;
    bool found_silent = false;
    for (Session* session = oldest_; session != nullptr; session = session->newer) {
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
    hoard_->looked(lack, found.most);
    return found;
}

// Of the embedded node; there are no other values that replies are sent from.
bool Worker::may_lend(uint64_t bytes, uint64_t freed) { return local_.has_value() && local_->node().may_lend(bytes, freed); }
uint64_t Worker::bytes_lent() { return local_.has_value() ? local_->node().bytes_lent() : 0; }

bool Worker::has_room(Lack lack, size_t bytes) {
    return options_.memory->has_room(bytes) || (lack == Lack::value && may_lend(bytes));
}

// True: the end of all workers' hoarders may free enough.
bool Worker::may_suffice(Lack lack, size_t bytes, const Held& all) {
    SessionMemory& memory = *options_.memory;
    const uint64_t buffers = all.buffers + memory.hoards().of_others(*hoard_, Lack::buffer);
    if (memory.used() + bytes <= memory.limit() + buffers) return true;
    return lack == Lack::value && may_lend(bytes, all.pinned + memory.hoards().of_others(*hoard_, Lack::value));
}

// No session ends if its bytes would not suffice, or for a session that holds more.
bool Worker::make_room(size_t bytes, Lack lack) {
    size_t own = 0;
    for (size_t i = 0; i < at_hand_count_; i++)
        if (at_hand_[i]->unfinished != nullptr) own = std::max(own, at_hand_[i]->unfinished->input.capacity());
    return end_hoarders(lack, bytes, own, /* asks= */ true);
}

// When pins are exhausted, the silent session that pins most ends, one a second. If there is none here, another worker
// searches. The cache gets its memory back, and clients that read keep their connections.
void Worker::relieve_pins(size_t bytes, bool asks) {
    const bool helps = !may_lend(bytes) && may_lend(bytes, bytes_lent());
    if (!helps || pins_sought_ == context_.now) return;
    pins_sought_ = context_.now;
    Session* found = nullptr;
    size_t most = 0;
    for (Session* session = oldest_; session != nullptr; session = session->newer) {
        const size_t pinned = may_end(*session) && is_silent(*session) ? held_by(*session).pinned : 0;
        if (pinned <= most) continue;
        found = session;
        most = pinned;
    }
    if (found != nullptr) return end_hoarder(*found);
    if (asks) options_.memory->hoards().ask(*hoard_, Lack::value, {bytes, worth_bytes});
}

// Ends sessions that hold at least `from`, until there is room. asks: also those of other workers.
bool Worker::end_hoarders(Lack lack, size_t bytes, size_t from, bool asks) {
    if (lack == Lack::value) relieve_pins(bytes, asks);
    while (!has_room(lack, bytes)) {
        const Hoarder found = hoarder(lack, from);
        if (!may_suffice(lack, bytes, found.all)) return false;
        const uint64_t others_from = std::max<uint64_t>(from, others_factor * found.most);
        if (asks && options_.memory->hoards().ask(*hoard_, lack, {bytes, others_from})) return false;
        if (found.session == nullptr) return false;
        const uint64_t before = options_.memory->used() + bytes_lent();
        end_hoarder(*found.session);
        // Other sessions may pin the same slots: ending more would not help.
        if (options_.memory->used() + bytes_lent() >= before) return has_room(lack, bytes);
    }
    return true;
}

// Frees no memory that the kernel may still use (S12). The worker sends `output`, and receives into a slot, only by calls that
// have returned (send_some(), receive_for()). A ring owns the bytes of its queued sends, and receives into its own buffers.
void Worker::end_hoarder(Session& session) {
    tell_full(session, session.is(SessionPhase::writing) || session.input_want == 0);
    if (session.is(SessionPhase::queued)) std::erase(ready_, &session);
    session.unfinished.reset();
    session.input_want = 0;
    session.unserved = false;
    if (session.state.replies != nullptr) session.state.replies->abandon();
    pause(session);
    doom(session, SessionEnd::buffers_full);
}

// Ends sessions at the request of other workers.
void Worker::end_as_asked() {
    if (hoard_ == nullptr) return;
    for (const Lack lack : lacks) {
        RoomWanted wanted;
        if (!hoard_->take(lack, wanted)) [[likely]] continue;
        read_clock();
        end_hoarders(lack, wanted.bytes, wanted.from, /* asks= */ false);
        hoarder(lack, 0);  // refreshes the maximum that other workers read
    }
}

}  // namespace farcached::daemon
