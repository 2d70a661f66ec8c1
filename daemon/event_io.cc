// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/event_io.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "daemon/session.h"

namespace farcached::daemon {

namespace {

constexpr timeval at_once{0, 0};
constexpr size_t untold_bytes_max = 16 << 10;  // then they are told: whoever is next has at least the rest of the buffer

}  // namespace

EventIo::EventIo(event_base* base, SocketEvents& events, WorkerCounters& counters)
    : base_(base), events_(events), counters_(counters), in_(new char[receive_bytes_max]) {
    event_assign(&turn_event_, base_, -1, 0, on_turn, this);
}

bool EventIo::resume(Session& session) { return listen(session, EV_READ); }

bool EventIo::await_room(Session& session) { return listen(session, EV_WRITE); }

void EventIo::pause(Session& session) { event_del(&session.readiness); }

bool EventIo::listen(Session& session, short what) {
    event_assign(&session.readiness, base_, session.state.fd, short(what | EV_PERSIST), on_ready, &session);
    return event_add(&session.readiness, nullptr) == 0;
}

void EventIo::on_ready(evutil_socket_t, short what, void* argument) {
    Session& session = *static_cast<Session*>(argument);
    EventIo& io = static_cast<EventIo&>(session.io);
    if ((what & EV_WRITE) != 0) return io.events_.writable(session);
    if (session.queued) return;  // what was received before comes first
    io.receive(session);
}

// Ended: that is told at once, unless what came before is yet to be told. The socket says so again then (of an error only that
// it has ended).
bool EventIo::receive(Session& session) {
    const std::span<char> room(in_.get() + in_bytes_, receive_bytes_max - in_bytes_);
    const ssize_t got = receive_into(session.state.fd, room, counters_);
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

bool EventIo::receive_now(Session& session) { return receive(session) || is_untold(session); }

bool EventIo::is_untold(const Session& session) {
    return std::ranges::any_of(untold(), [&](const Received& one) { return one.session == &session; });
}

// What is queued leaves first.
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
    events_.woke();
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
    queued_bytes_ += out.size();
    if (queued->out.empty())
        queued->out.swap(out);
    else
        queued->out.append({out.data(), out.size()});
    queued->tell |= tell;
    return {Sent::queued};
}

Sent EventIo::send_now(Session& session, const OutBuffer& out) {
    ssize_t sent = ::send(session.state.fd, out.data(), out.size(), MSG_NOSIGNAL);
    counters_.write_calls.add(1);
    if (sent < 0) {
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return {Sent::failed};
        sent = 0;
    }
    counters_.bytes_written.add(uint64_t(sent));
    return {size_t(sent) == out.size() ? Sent::taken : Sent::part, size_t(sent)};
}

EventIo::Queued* EventIo::queued_of(const Session& session) {
    for (Queued& one : queued())
        if (one.session == &session) return &one;
    return nullptr;
}

// Sessions are told that all was taken when that is known of each: they may go then.
void EventIo::send_queued() {
    if (queued_count_ == 0) return;
    events_.before_sending();
    for (Queued& one : queued()) {
        if (one.session == nullptr) continue;
        const Sent sent = send_now(*one.session, one.out);
        if (sent.how == Sent::taken) continue;
        one.tell = false;
        const int error = sent.how == Sent::failed ? errno : 0;
        events_.unsent(*one.session, {one.out.data() + sent.bytes, one.out.size() - sent.bytes}, error);
    }
    const std::span<Queued> all = queued();
    queued_count_ = queued_bytes_ = 0;
    for (Queued& one : all) {
        one.out.clear(queued_bytes_kept);
        if (one.session != nullptr && one.tell) events_.sent(*one.session);
    }
}

void EventIo::turn_soon() { event_add(&turn_event_, &at_once); }

void EventIo::on_turn(evutil_socket_t, short, void* argument) {
    EventIo& io = *static_cast<EventIo*>(argument);
    io.tell_received();  // W3: whoever was ready with those who wait comes first
    io.events_.turn_of_waiting();
}

void EventIo::turn(bool awake) {
    event_base_loop(base_, awake ? EVLOOP_ONCE | EVLOOP_NONBLOCK : EVLOOP_ONCE);
    tell_received();
}

ssize_t receive_into(int socket, std::span<char> room, WorkerCounters& counters) {
    const ssize_t got = recv(socket, room.data(), room.size(), MSG_DONTWAIT);
    counters.read_calls.add(1);
    if (got >= 0) return got;
    return errno == EWOULDBLOCK || errno == EINTR ? -EAGAIN : -errno;
}

}  // namespace farcached::daemon
