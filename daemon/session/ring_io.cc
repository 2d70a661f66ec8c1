// SPDX-License-Identifier: BSD-3-Clause
// A turn: the system call that sleeps submits the queued sends. Then unsent() runs for bytes that sockets did not take (T3),
// then received(), session by session, then callbacks of other ready descriptors, the timer, and the steps of queued sessions.
// The resulting replies are queued for the next turn.
//
//   resume()            armed                       completion without "more"
//   ---------> receive ------> received() ... ------------------------------> receive again, or, after leave(), free
//                                 pause(): continues until bytes arrive; their completion cancels it
#include "daemon/session/socket_io.h"

#ifndef FARCACHED_LIBURING

namespace farcached::daemon {

std::string try_ring() { return "this farcached was built without liburing"; }

std::unique_ptr<SocketIo> make_ring_io(SocketEvents&, TurnTimer&, WorkerCounters&, std::string& refusal) {
    refusal = try_ring();
    return nullptr;
}

}  // namespace farcached::daemon

#else

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/node_clock.h"
#include "daemon/session/ring.h"
#include "daemon/session/session.h"

namespace farcached::daemon {

// A session's receive, and its poll for room. It outlives the session until the kernel's last completion for it.
struct RingSlot {
    Session* session = nullptr;  // null: it left, or the slot is free
    struct QueuedSend* queued = nullptr;
    RingSlot* next_free = nullptr;
    bool wanted : 1 = false;      // resume()d: received() is called
    bool armed : 1 = false;       // the kernel receives, or is about to
    bool cancelled : 1 = false;   // and the cancellation was requested
    bool ended : 1 = false;       // end of input
    bool awaits_room : 1 = false;
    bool polled : 1 = false;      // the kernel polls for room, or is about to
    bool in_hand : 1 = false;     // a completion of it is being processed
    bool tell : 1 = false;        // among told_
    bool starved : 1 = false;     // among starved_: its receive ended without a free buffer
};
static_assert(sizeof(RingSlot) <= 32);  // one per idle client

// A session's sends in this turn.
struct QueuedSend {
    RingSlot* slot = nullptr;
    int fd = -1;
    OutBuffer out;
    std::vector<iovec> parts;  // of `out`, if there are pieces in it
    msghdr message{};
    bool tell = false;
    bool fell_short = false;
    size_t bytes = 0;    // that were submitted
    size_t missing = 0;  // that the socket did not take
};

namespace {

constexpr size_t sends_max = 64;  // queued sends; more are submitted early

// The type of a completion, in the low bits of its data.
enum Kind : uint64_t { receiving = 1, sending = 2, cancelling = 3, awaiting_room = 4, awaiting = 5 };
constexpr uint64_t kind_mask = (1u << RingWaits::kind_bits) - 1;
static_assert(alignof(RingSlot) > kind_mask && alignof(QueuedSend) > kind_mask);

uint64_t name_of(const void* object, Kind kind) { return reinterpret_cast<uint64_t>(object) | kind; }

template <class Object>
Object& named(uint64_t data) {
    return *reinterpret_cast<Object*>(data & ~kind_mask);
}

Ring::Counters ring_counters(WorkerCounters& counters) {
    return {counters.ring_enters, counters.ring_full, counters.ring_refused, counters.ring_overflows};
}

class RingIo final : public SocketIo {
  public:
    RingIo(std::unique_ptr<Ring> ring, SocketEvents& events, TurnTimer& timer, WorkerCounters& counters)
        : ring_(std::move(ring)),
          waits_(*ring_, awaiting, cancelling),
          events_(events),
          timer_(timer),
          counters_(counters),
          in_(new char[receive_bytes_max]) {}

    void start() override { ring_->enable(); }
    std::unique_ptr<Readiness> make_readiness(std::function<void()> ready) override { return waits_.make(std::move(ready)); }
    bool resume(Session& session) override;
    void pause(Session& session) override;
    bool await_room(Session& session) override;
    void leave(Session& session) override;
    Sent send(Session& session, OutBuffer& out, bool tell) override;
    bool has_queued(const Session& session) const override { return session.slot->queued != nullptr; }
    bool receive_now(Session& session) override;
    void relieve() override {
        if (queued_count_ >= sends_max || queued_bytes_ >= queued_bytes_max) hand_over(/* sleep= */ false, 0);
    }
    void before_giving_away() override {
        if (names_descriptors_) hand_over(/* sleep= */ false, 0);
    }
    // The kernel refuses MSG_WAITALL there, which U2 needs.
    bool knows_kernel_tls() const override { return false; }
    void turn_soon() override { turn_soon_ = true; }
    void turn(bool awake) override;

  private:
    struct Completion {
        uint64_t data;
        int result;
        unsigned flags;
    };

    RingSlot* take_slot();
    void free_if_done(RingSlot& slot);
    void make_room(size_t slots);
    void arm(RingSlot& slot);
    void arm_starved();
    void cancel(RingSlot& slot);
    void poll_for_room(RingSlot& slot);
    QueuedSend& queue(RingSlot& slot, size_t pieces);
    static void make_parts(QueuedSend& queued, size_t pieces);
    void hand_over(bool sleep, int64_t sleep_ns);
    void send_parts(QueuedSend& queued);
    void fell_short(QueuedSend& queued, int result);
    void tell_sent();
    void tell_received();
    size_t announce(size_t first);
    // taken: number of processed entries of taking_, this one included.
    void take(const Completion& completion, size_t taken);
    void take_receive(RingSlot& slot, const Completion& completion, size_t taken);
    void take_room(RingSlot& slot);
    void receive_value(RingSlot& slot, size_t taken);
    void told_of_receive(RingSlot& slot, const Completion& completion);
    void note(const io_uring_cqe& cqe);

    const std::unique_ptr<Ring> ring_;
    RingWaits waits_;
    SocketEvents& events_;
    TurnTimer& timer_;
    WorkerCounters& counters_;

    std::deque<RingSlot> slots_;
    RingSlot* free_ = nullptr;
    std::vector<std::unique_ptr<QueuedSend>> sends_;  // the first queued_count_ are queued
    size_t queued_count_ = 0, queued_bytes_ = 0;
    bool must_tell_ = false;          // for one of them
    bool names_descriptors_ = false;  // a request not yet submitted does, for a session
    std::vector<Completion> completions_;  // for the next turn
    std::vector<Completion> taking_;       // for this turn: a bound on its length
    std::vector<std::string_view> coming_;
    std::vector<RingSlot*> told_;
    std::vector<RingSlot*> starved_;       // those whose `starved` is set
    const std::unique_ptr<char[]> in_;     // of receive_now()
    bool turn_soon_ = false;
};

// ---- slots ----------------------------------------------------------------------------------------------

RingSlot* RingIo::take_slot() {
    if (free_ == nullptr) {
        try {
            make_room(slots_.size() + 1);
            return &slots_.emplace_back();
        } catch (const std::bad_alloc&) {
            return nullptr;
        }
    }
    RingSlot* slot = free_;
    free_ = slot->next_free;
    *slot = RingSlot();
    return slot;
}

// Reserves for the largest number of completions, as processing cannot handle a lack of memory. Per slot: one ended receive and
// one poll; and one receive per buffer.
void RingIo::make_room(size_t slots) {
    const size_t most = 2 * slots + Ring::buffers;
    if (completions_.capacity() >= most && told_.capacity() >= slots) return;
    for (std::vector<Completion>* all : {&completions_, &taking_}) all->reserve(2 * most);
    for (std::vector<RingSlot*>* all : {&told_, &starved_}) all->reserve(2 * most);
    coming_.reserve(together_max);
}

// After its session has left.
void RingIo::free_if_done(RingSlot& slot) {
    if (slot.armed || slot.polled || slot.in_hand) return;
    slot.next_free = free_;
    free_ = &slot;
}

void RingIo::arm(RingSlot& slot) {
    slot.armed = true;
    slot.cancelled = slot.starved = false;
    names_descriptors_ = true;
    ring_->receive(slot.session->state.fd, name_of(&slot, receiving));
}

// At most as many as there are free buffers: more would end at once, in each turn.
void RingIo::arm_starved() {
    size_t armed = 0, seen = 0;
    for (; seen < starved_.size() && armed < ring_->free_buffers(); seen++) {
        RingSlot& slot = *starved_[seen];
        const bool starved = slot.starved;
        slot.starved = false;
        if (!starved || !slot.wanted) continue;
        arm(slot);
        armed++;
    }
    starved_.erase(starved_.begin(), starved_.begin() + ptrdiff_t(seen));
}

void RingIo::cancel(RingSlot& slot) {
    if (!slot.armed || slot.cancelled) return;
    slot.cancelled = true;
    counters_.ring_receives_cancelled.add(1);
    ring_->cancel(name_of(&slot, receiving), name_of(&slot, cancelling));
}

bool RingIo::resume(Session& session) {
    if (session.slot == nullptr) {
        session.slot = take_slot();
        if (session.slot == nullptr) return false;
        session.slot->session = &session;
    }
    RingSlot& slot = *session.slot;
    slot.awaits_room = false;
    slot.wanted = true;
    if (!slot.armed && !slot.ended) arm(slot);
    return true;
}

void RingIo::pause(Session& session) {
    session.slot->wanted = session.slot->awaits_room = false;
}

// A poll for room goes on until the kernel completes it, or the session leaves: it may be of use again.
bool RingIo::await_room(Session& session) {
    session.slot->awaits_room = true;
    if (!session.slot->polled) poll_for_room(*session.slot);
    return true;
}

void RingIo::poll_for_room(RingSlot& slot) {
    slot.polled = true;
    names_descriptors_ = true;
    ring_->poll(slot.session->state.fd, POLLOUT, name_of(&slot, awaiting_room));
}

// Submits queued sends first, and every request that names the descriptor: its number will be reused.
void RingIo::leave(Session& session) {
    if (session.slot == nullptr) return;
    RingSlot& slot = *session.slot;
    session.slot = nullptr;
    slot.session = nullptr;
    slot.tell = slot.starved = slot.wanted = slot.awaits_room = false;
    cancel(slot);
    if (slot.polled) ring_->cancel(name_of(&slot, awaiting_room), name_of(&slot, cancelling));
    if (slot.queued != nullptr || names_descriptors_) hand_over(/* sleep= */ false, 0);
    free_if_done(slot);
}

// ---- sending --------------------------------------------------------------------------------------------

// Reserves for send_parts(), which cannot handle a lack of memory.
void RingIo::make_parts(QueuedSend& queued, size_t pieces) {
    if (pieces != 0) queued.parts.reserve(2 * pieces + 1);
}

QueuedSend& RingIo::queue(RingSlot& slot, size_t pieces) {
    if (queued_count_ == sends_.size()) sends_.push_back(std::make_unique<QueuedSend>());
    make_parts(*sends_[queued_count_], pieces);
    QueuedSend& queued = *sends_[queued_count_++];
    queued.slot = &slot;
    queued.fd = slot.session->state.fd;
    slot.queued = &queued;
    return queued;
}

Sent RingIo::send(Session& session, OutBuffer& out, bool tell) {
    RingSlot& slot = *session.slot;
    if (out.empty() && slot.queued == nullptr) return {Sent::taken};
    const size_t size = out.leaves();
    if (slot.queued != nullptr) {
        make_parts(*slot.queued, slot.queued->out.pieces().size() + out.pieces().size());
        slot.queued->out.take(out);
    } else {
        queue(slot, out.pieces().size()).out.swap(out);
    }
    queued_bytes_ += size;
    slot.queued->tell |= tell;
    must_tell_ |= tell;
    return {Sent::queued};
}

// Submits with all sends, whose completions are processed first: only short sends have one (U2).
void RingIo::hand_over(bool sleep, int64_t sleep_ns) {
    if (queued_count_ != 0) events_.before_sending();
    for (size_t i = 0; i < queued_count_; i++) {
        QueuedSend& queued = *sends_[i];
        queued.bytes = queued.out.leaves();
        if (queued.out.pieces().empty()) [[likely]]
            ring_->send(queued.fd, queued.out.own(), name_of(&queued, sending));
        else
            send_parts(queued);
    }
    counters_.ring_sends.add(queued_count_);
    names_descriptors_ = false;
    ring_->enter(sleep, sleep_ns, [this](const io_uring_cqe& cqe) { note(cqe); });
    for (size_t i = 0; i < queued_count_; i++) {
        QueuedSend& queued = *sends_[i];
        queued.slot->queued = nullptr;
        counters_.bytes_written.add(queued.bytes - queued.missing);
        if (queued.tell && !queued.fell_short && queued.slot->session != nullptr && !queued.slot->tell) {
            queued.slot->tell = true;
            told_.push_back(queued.slot);
        }
        queued.out.clear(queued_bytes_kept);
        queued.tell = queued.fell_short = false;
        queued.missing = 0;
    }
    queued_count_ = queued_bytes_ = 0;
    must_tell_ = false;
}

// A failed cancellation needs nothing: its request had ended before.
void RingIo::note(const io_uring_cqe& cqe) {
    switch (cqe.user_data & kind_mask) {
        case sending: return fell_short(named<QueuedSend>(cqe.user_data), cqe.res);
        case awaiting: return waits_.note(cqe.user_data);
        case cancelling: return;
        default: completions_.push_back({cqe.user_data, cqe.res, cqe.flags});
    }
}

void RingIo::send_parts(QueuedSend& queued) {
    queued.parts.resize(2 * queued.out.pieces().size() + 1);
    queued.message.msg_iov = queued.parts.data();
    queued.message.msg_iovlen = describe_parts(queued.out.own(), 0, queued.out.pieces(), queued.parts);
    ring_->send(queued.fd, queued.message, name_of(&queued, sending));
}

void RingIo::fell_short(QueuedSend& queued, int result) {
    queued.fell_short = true;
    const bool later = result >= 0 || result == -EAGAIN || result == -EINTR;
    const size_t taken = result > 0 ? size_t(result) : 0;
    (later ? counters_.ring_sends_short : counters_.ring_sends_failed).add(1);
    CHECK(taken <= queued.bytes);
    queued.missing = queued.bytes - taken;
    if (queued.slot->session == nullptr) return;
    events_.unsent(*queued.slot->session, queued.out, taken, later ? 0 : -result);
}

void RingIo::tell_sent() {
    for (size_t i = 0; i < told_.size(); i++) {
        RingSlot& slot = *told_[i];
        if (!slot.tell) continue;
        slot.tell = false;
        events_.sent(*slot.session);
    }
    told_.clear();
}

// ---- receiving ------------------------------------------------------------------------------------------

bool ended_early(int result) {
    return result == -ECANCELED || result == -ENOBUFS || result == -EAGAIN || result == -EINTR;
}

// Bytes that the ring received earlier come first, in the next turn. taking_ is empty here.
bool RingIo::receive_now(Session& session) {
    const auto tells_more = [&](const Completion& one) {
        return one.data == name_of(session.slot, receiving) && !ended_early(one.result);
    };
    if (std::ranges::any_of(completions_, tells_more)) return true;
    const std::span<char> room(in_.get(), receive_bytes_max);
    const ssize_t got = receive_for(session, room, events_, counters_);
    if (got == -EAGAIN) return false;
    if (got <= 0) {
        events_.input_ended(session, int(-got));
    } else {
        events_.read_clock();
        events_.received(session, {room.data(), size_t(got)}, size_t(got) < room.size());
    }
    return true;
}

// When most of a value is missing, receives the socket's bytes in place, past the ring's buffers. Not if the ring holds more of
// the value; it receives nothing while this thread makes no call.
void RingIo::receive_value(RingSlot& slot, size_t taken) {
    constexpr uint64_t worth_bytes = 16 << 10;
    if (slot.session == nullptr || slot.ended || slot.session->state.pending == nullptr) return;
    if (slot.session->state.pending->upload->missing() < worth_bytes) return;
    const auto is_its = [&](const Completion& one) { return one.data == name_of(&slot, receiving); };
    if (std::any_of(taking_.begin() + ptrdiff_t(taken), taking_.end(), is_its)) return;
    if (std::ranges::any_of(completions_, is_its)) return;
    receive_now(*slot.session);
}

void RingIo::tell_received() {
    size_t announced = 0;
    bool woken = false;
    taking_.swap(completions_);
    for (size_t i = 0; i < taking_.size(); i++) {
        if (i == announced) {
            announced = announce(i);
            if (!coming_.empty() && !std::exchange(woken, true)) events_.read_clock();
        }
        const Completion completion = taking_[i];  // a copy: make_room() moves the entries
        take(completion, i + 1);
        relieve();
    }
    taking_.clear();
}

// Prefetches for up to together_max completions from `first` on; returns their end.
size_t RingIo::announce(size_t first) {
    const size_t end = std::min(first + together_max, taking_.size());
    coming_.clear();
    for (size_t i = first; i < end; i++) {
        const Completion& one = taking_[i];
        if (one.result > 0 && (one.data & kind_mask) == receiving)
            coming_.emplace_back(ring_->buffer(Ring::buffer_of(one.flags)), size_t(one.result));
    }
    if (coming_.size() > 1) events_.coming(coming_);
    return end;
}

void RingIo::take(const Completion& completion, size_t taken) {
    switch (completion.data & kind_mask) {
        case receiving: return take_receive(named<RingSlot>(completion.data), completion, taken);
        case awaiting_room: return take_room(named<RingSlot>(completion.data));
        default: CHECK(false);
    }
}

void RingIo::take_receive(RingSlot& slot, const Completion& completion, size_t taken) {
    if ((completion.flags & IORING_CQE_F_MORE) == 0) slot.armed = false;
    if (slot.session != nullptr) {
        slot.in_hand = true;
        told_of_receive(slot, completion);
        if (completion.result > 0) receive_value(slot, taken);
        slot.in_hand = false;
    }
    if ((completion.flags & IORING_CQE_F_BUFFER) != 0) ring_->give_back(Ring::buffer_of(completion.flags));
    if (slot.armed) return;
    if (slot.session == nullptr)
        free_if_done(slot);
    else if (slot.wanted && !slot.ended && !slot.starved)
        arm(slot);
}

void RingIo::take_room(RingSlot& slot) {
    slot.polled = false;
    if (slot.awaits_room) {
        slot.in_hand = true;
        events_.writable(*slot.session);
        slot.in_hand = false;
    }
    if (slot.session == nullptr)
        free_if_done(slot);
    else if (slot.awaits_room && !slot.polled)
        poll_for_room(slot);
}

void RingIo::told_of_receive(RingSlot& slot, const Completion& completion) {
    const int result = completion.result;
    if (result > 0) {
        counters_.ring_receives.add(1);
        if (!slot.wanted) cancel(slot);
        events_.received(*slot.session, {ring_->buffer(Ring::buffer_of(completion.flags)), size_t(result)}, false);
    } else if (!ended_early(result)) {
        slot.ended = true;
        events_.input_ended(*slot.session, -result);
    } else if (result == -ENOBUFS) {
        counters_.ring_buffers_exhausted.add(1);
        slot.starved = true;
        starved_.push_back(&slot);
    } else if (result != -ECANCELED || !slot.cancelled) {
        counters_.ring_receives_broken.add(1);
    }
}

// ---- the turn -------------------------------------------------------------------------------------------

void RingIo::turn(bool awake) {
    const uint64_t at_ns = timer_.timer_at_ns();
    const int64_t sleep_ns = at_ns == UINT64_MAX ? INT64_MAX : int64_t(at_ns - boottime_ns());
    waits_.arm();
    arm_starved();
    const bool something_to_do = must_tell_ || waits_.any_ready() || !told_.empty() || !completions_.empty() || !starved_.empty();
    hand_over(!awake && !turn_soon_ && sleep_ns > 0 && !something_to_do, sleep_ns);
    tell_sent();
    tell_received();
    if (waits_.any_ready()) waits_.tell();
    if (sleep_ns <= 0) timer_.timer_due();
    if (!turn_soon_) return;
    turn_soon_ = false;
    events_.turn_of_waiting();
}

}  // namespace

std::string try_ring() {
    WorkerCounters counters;
    std::string refusal;
    const std::unique_ptr<Ring> ring = Ring::make(ring_counters(counters), refusal);
    return ring == nullptr ? refusal : ring->check();
}

std::unique_ptr<SocketIo> make_ring_io(SocketEvents& events, TurnTimer& timer, WorkerCounters& counters, std::string& refusal) {
    std::unique_ptr<Ring> ring = Ring::make(ring_counters(counters), refusal);
    if (ring == nullptr) return nullptr;
    return std::make_unique<RingIo>(std::move(ring), events, timer, counters);
}

}  // namespace farcached::daemon

#endif
