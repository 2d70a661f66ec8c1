// SPDX-License-Identifier: BSD-3-Clause
// EventIo: sockets by libevent (daemon/session/socket_io.h): one recv for a readable session, one send for its replies.
//
// E1  Sessions that are ready together are received from, then served, then sent to: a phase each, in the same order. Serving
//     the first overlaps with prefetches for the next; the accesses of all are handed over together. All of it ends within the
//     turn.
// E2  Callbacks of one session have the order of its receives.
#include <event2/event.h>
#include <event2/event_struct.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/node_clock.h"
#include "daemon/session/session.h"
#include "daemon/session/socket_io.h"
#include "daemon/session/tls.h"
#include "daemon/stats/worker_counters.h"

namespace farcached::daemon {

namespace {

// The result of receive_into() for that of a system call.
ssize_t answer_of(ssize_t got, WorkerCounters& counters) {
    counters.read_calls.add(1);
    if (got >= 0) return got;
    return errno == EWOULDBLOCK || errno == EINTR ? -EAGAIN : -errno;
}

constexpr size_t head_bytes = 2048;  // received at first of a likely large set: the rest of its value is received in place
constexpr timeval at_once{0, 0};
constexpr size_t untold_bytes_max = 16 << 10;  // then they are delivered: leaves the next receive the rest of the buffer

event_base* make_base() {
    std::unique_ptr<event_config, decltype(&event_config_free)> config(event_config_new(), &event_config_free);
    CHECK(config != nullptr);
    event_config_set_flag(config.get(), EVENT_BASE_FLAG_NOLOCK);
    event_base* base = event_base_new_with_config(config.get());
    if (base == nullptr) throw std::system_error(errno, std::generic_category(), "event_base_new");
    return base;
}

class EventReadiness final : public Readiness {
  public:
    EventReadiness(event_base* base, std::function<void()> ready) : ready_(std::move(ready)) {
        event_assign(&event_, base, -1, 0, on_ready, this);
    }
    ~EventReadiness() override { event_del(&event_); }
    void await(int fd, bool writable) override {
        event_base* const base = event_get_base(&event_);
        event_del(&event_);
        event_assign(&event_, base, fd, short(EV_READ | EV_PERSIST | (writable ? EV_WRITE : 0)), on_ready, this);
        CHECK(event_add(&event_, nullptr) == 0);
    }
    void stop() override { event_del(&event_); }

  private:
    static void on_ready(evutil_socket_t, short, void* readiness) { static_cast<EventReadiness*>(readiness)->ready_(); }

    const std::function<void()> ready_;
    event event_;
};

class EventIo final : public SocketIo {
  public:
    // All are borrowed.
    EventIo(SocketEvents& events, TurnTimer& timer, WorkerCounters& counters);

    std::unique_ptr<Readiness> make_readiness(std::function<void()> ready) override {
        return std::make_unique<EventReadiness>(base_.get(), std::move(ready));
    }
    bool resume(Session& session) override { return listen(session, EV_READ); }
    void pause(Session& session) override { event_del(&session.readiness); }
    bool await_room(Session& session) override { return listen(session, EV_WRITE); }
    void leave(Session& session) override;
    Sent send(Session& session, OutBuffer& out, bool tell) override;
    bool has_queued(const Session& session) const override { return queued_of(session) != nullptr; }
    bool receive_now(Session& session) override { return receive(session) || is_untold(session); }
    void catch_up() override { tell_received(); }
    void turn_soon() override { event_add(&turn_event_, &at_once); }
    void turn(bool awake) override;

  private:
    struct FreeBase {
        void operator()(event_base* base) const { event_base_free(base); }
    };
    struct Received {
        Session* session;  // null: it has left
        std::string_view bytes;
        bool all;
    };
    struct Queued {
        Session* session = nullptr;  // null: it has left
        OutBuffer out;
        bool tell = false;
    };

    static void on_ready(evutil_socket_t, short what, void* session);
    static void on_turn(evutil_socket_t, short, void* io);
    static void on_timer(evutil_socket_t, short, void* io);

    bool listen(Session& session, short what);
    void set_timer();
    bool receive(Session& session);
    std::span<Received> untold() { return std::span(received_).first(received_count_); }
    bool is_untold(const Session& session);
    void tell_received();
    Sent send_now(Session& session, const OutBuffer& out);
    std::span<Queued> queued() { return std::span(queued_).first(queued_count_); }
    const Queued* queued_of(const Session& session) const;
    Queued* queued_of(const Session& session) { return const_cast<Queued*>(std::as_const(*this).queued_of(session)); }
    void send_queued();

    const std::unique_ptr<event_base, FreeBase> base_;
    SocketEvents& events_;
    TurnTimer& timer_;
    WorkerCounters& counters_;
    const std::unique_ptr<char[]> in_;
    size_t in_bytes_ = 0;  // of it, received and not delivered
    std::array<Received, together_max> received_;
    size_t received_count_ = 0;
    bool together_ = false;  // several are being delivered: their sends are queued
    std::array<Queued, together_max> queued_;
    size_t queued_count_ = 0, queued_bytes_ = 0;
    event turn_event_, timer_event_;
    uint64_t timer_at_ns_ = UINT64_MAX;  // for which timer_event_ is set
};

EventIo::EventIo(SocketEvents& events, TurnTimer& timer, WorkerCounters& counters)
    : base_(make_base()), events_(events), timer_(timer), counters_(counters), in_(new char[receive_bytes_max]) {
    event_assign(&turn_event_, base_.get(), -1, 0, on_turn, this);
    event_assign(&timer_event_, base_.get(), -1, 0, on_timer, this);
}

bool EventIo::listen(Session& session, short what) {
    event_assign(&session.readiness, base_.get(), session.state.fd, short(what | EV_PERSIST), on_ready, &session);
    return event_add(&session.readiness, nullptr) == 0;
}

void EventIo::on_ready(evutil_socket_t, short what, void* argument) {
    Session& session = *static_cast<Session*>(argument);
    EventIo& io = static_cast<EventIo&>(session.io);
    if ((what & EV_WRITE) != 0) return io.events_.writable(session);
    if (session.is(SessionPhase::queued)) return;  // earlier bytes come first
    io.receive(session);
}

// The end of input is reported at once, or after earlier bytes are delivered: the socket reports it again then (an error only
// as an end).
bool EventIo::receive(Session& session) {
    std::span<char> room(in_.get() + in_bytes_, receive_bytes_max - in_bytes_);
    if (session.state.line.sends_values && session.tls() == nullptr) room = room.first(std::min(room.size(), head_bytes));
    const ssize_t got = is_untold(session) ? receive_into(session.state.fd, room, counters_)
                                           : receive_for(session, room, events_, counters_);
    if (got == -EAGAIN) return false;
    if (got <= 0) {
        if (!is_untold(session)) events_.input_ended(session, int(-got));
        return true;
    }
    received_[received_count_++] = {&session, {room.data(), size_t(got)}, size_t(got) < room.size()};
    in_bytes_ += size_t(got);
    if (received_count_ == together_max || in_bytes_ > untold_bytes_max) tell_received();
    return true;
}

bool EventIo::is_untold(const Session& session) {
    return std::ranges::any_of(untold(), [&](const Received& one) { return one.session == &session; });
}

// Sends queued bytes first.
void EventIo::leave(Session& session) {
    pause(session);
    for (Received& one : untold())
        if (one.session == &session) one.session = nullptr;
    Queued* queued = queued_of(session);
    if (queued == nullptr) return;
    events_.before_sending();
    send_now(session, queued->out);
    queued->session = nullptr;
}

void EventIo::tell_received() {
    if (received_count_ == 0) return;
    events_.read_clock();
    together_ = received_count_ > 1;
    if (together_) {
        std::array<std::string_view, together_max> inputs;
        std::ranges::transform(untold(), inputs.begin(), &Received::bytes);
        events_.coming(std::span(inputs).first(received_count_));
    }
    for (const Received& one : untold()) {
        if (one.session != nullptr) events_.received(*one.session, one.bytes, one.all);
        if (queued_bytes_ > queued_bytes_max) send_queued();
    }
    together_ = false;
    received_count_ = in_bytes_ = 0;
    send_queued();
}

Sent EventIo::send(Session& session, OutBuffer& out, bool tell) {
    Queued* queued = queued_of(session);
    if (queued == nullptr) {
        if (out.empty()) return {Sent::taken};
        if (!together_) {
            events_.before_sending();
            return send_now(session, out);
        }
        CHECK(queued_count_ < queued_.size());
        queued = &queued_[queued_count_++];
        queued->session = &session;
        queued->tell = false;
    }
    queued_bytes_ += out.leaves();
    if (queued->out.empty())
        queued->out.swap(out);
    else
        queued->out.take(out);
    queued->tell |= tell;
    return {Sent::queued};
}

Sent EventIo::send_now(Session& session, const OutBuffer& out) {
    ssize_t sent = send_some(session.state.fd, out.own(), 0, out.pieces(), MSG_NOSIGNAL);
    counters_.write_calls.add(1);
    if (sent < 0) {
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return {Sent::failed};
        sent = 0;
    }
    counters_.bytes_written.add(uint64_t(sent));
    return {size_t(sent) == out.leaves() ? Sent::taken : Sent::part, size_t(sent)};
}

const EventIo::Queued* EventIo::queued_of(const Session& session) const {
    for (const Queued& one : std::span(queued_).first(queued_count_))
        if (one.session == &session) return &one;
    return nullptr;
}

// sent() runs after all results are known: sessions may end in it.
void EventIo::send_queued() {
    if (queued_count_ == 0) return;
    events_.before_sending();
    for (Queued& one : queued()) {
        if (one.session == nullptr) continue;
        const Sent sent = send_now(*one.session, one.out);
        if (sent.how == Sent::taken) continue;
        one.tell = false;
        const int error = sent.how == Sent::failed ? errno : 0;
        events_.unsent(*one.session, one.out, sent.bytes, error);
    }
    const std::span<Queued> all = queued();
    queued_count_ = queued_bytes_ = 0;
    for (Queued& one : all) {
        one.out.clear(queued_bytes_kept);
        if (one.session != nullptr && one.tell) events_.sent(*one.session);
    }
}

void EventIo::on_turn(evutil_socket_t, short, void* argument) {
    EventIo& io = *static_cast<EventIo*>(argument);
    io.tell_received();  // W3: sessions that became ready together come first
    io.events_.turn_of_waiting();
}

void EventIo::set_timer() {
    const uint64_t at_ns = timer_.timer_at_ns();
    if (at_ns == timer_at_ns_) [[likely]] return;
    timer_at_ns_ = at_ns;
    if (at_ns == UINT64_MAX) {
        event_del(&timer_event_);
        return;
    }
    const uint64_t now_ns = boottime_ns();
    const uint64_t us = at_ns > now_ns ? (at_ns - now_ns + 999) / 1000 : 0;
    const timeval after{time_t(us / 1'000'000), suseconds_t(us % 1'000'000)};
    CHECK(event_add(&timer_event_, &after) == 0);
}

void EventIo::on_timer(evutil_socket_t, short, void* argument) {
    EventIo& io = *static_cast<EventIo*>(argument);
    io.tell_received();
    io.timer_at_ns_ = UINT64_MAX;
    io.timer_.timer_due();
}

void EventIo::turn(bool awake) {
    set_timer();
    event_base_loop(base_.get(), awake ? EVLOOP_ONCE | EVLOOP_NONBLOCK : EVLOOP_ONCE);
    tell_received();
}

}  // namespace

std::unique_ptr<SocketIo> make_event_io(SocketEvents& events, TurnTimer& timer, WorkerCounters& counters) {
    return std::make_unique<EventIo>(events, timer, counters);
}

// Receives the missing part of a value in place, and the rest into `room`: the terminator, or without one the last byte. That
// byte makes the worker call the engine.
ssize_t receive_for(Session& session, std::span<char> room, SocketEvents& events, WorkerCounters& counters) {
    const PendingSet* const set = session.state.pending.get();
    const bool goes_there = set != nullptr && session.tls() == nullptr && !session.busy() && session.unread().empty();
    std::span<char> value = goes_there ? set->upload->room() : std::span<char>();
    if (!value.empty() && set->tail_bytes == 0) value = value.first(value.size() - 1);
    if (value.empty()) [[likely]] return receive_into(session.state.fd, room, counters);
    iovec parts[] = {{value.data(), value.size()}, {room.data(), room.size()}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = std::size(parts);
    const ssize_t got = answer_of(recvmsg(session.state.fd, &message, MSG_DONTWAIT), counters);
    if (got <= 0) return got;
    const size_t of_value = std::min(size_t(got), value.size());
    events.received_in_place(session, of_value);
    return size_t(got) == of_value ? -EAGAIN : got - ssize_t(of_value);
}

ssize_t send_some(int socket, std::string_view own, size_t start, std::span<const OutPiece> pieces, int flags) {
    if (pieces.empty()) [[likely]] return ::send(socket, own.data() + start, own.size() - start, flags);
    std::array<iovec, out_parts_max> parts;
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = describe_parts(own, start, pieces, parts);
    return ::sendmsg(socket, &message, flags);
}

ssize_t receive_into(int socket, std::span<char> room, WorkerCounters& counters) {
    return answer_of(recv(socket, room.data(), room.size(), MSG_DONTWAIT), counters);
}

}  // namespace farcached::daemon
