// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/event_io.h"

#include <sys/socket.h>

#include <cerrno>

#include "daemon/session.h"

namespace farcached::daemon {

namespace {

constexpr timeval at_once{0, 0};

}  // namespace

EventIo::EventIo(event_base* base, SocketEvents& events, WorkerCounters& counters)
    : base_(base), events_(events), counters_(counters), in_(new char[receive_bytes_max]) {
    event_assign(&turn_event_, base_, -1, 0, on_turn, &events_);
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
    io.receive_now(session);
}

bool EventIo::receive_now(Session& session) { return receive_from(session, in_.get(), events_, counters_); }

Sent EventIo::send(Session& session, OutBuffer& out, bool) {
    iovec part{const_cast<char*>(out.data()), out.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    ssize_t sent = sendmsg(session.state.fd, &message, MSG_NOSIGNAL);
    counters_.write_calls.add(1);
    if (sent < 0) {
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return {Sent::failed};
        sent = 0;
    }
    counters_.bytes_written.add(uint64_t(sent));
    return {size_t(sent) == out.size() ? Sent::taken : Sent::part, size_t(sent)};
}

void EventIo::turn_soon() { event_add(&turn_event_, &at_once); }

void EventIo::on_turn(evutil_socket_t, short, void* argument) {
    static_cast<SocketEvents*>(argument)->turn_of_waiting();
}

void EventIo::turn(bool awake) {
    event_base_loop(base_, awake ? EVLOOP_ONCE | EVLOOP_NONBLOCK : EVLOOP_ONCE);
}

bool receive_from(Session& session, char* in, SocketEvents& events, WorkerCounters& counters) {
    const ssize_t got = recv(session.state.fd, in, receive_bytes_max, MSG_DONTWAIT);
    counters.read_calls.add(1);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return false;
    if (got <= 0) {
        events.input_ended(session, got == 0 ? 0 : errno);
        return true;
    }
    events.woke();
    events.received(session, {in, size_t(got)}, size_t(got) < receive_bytes_max);
    return true;
}

}  // namespace farcached::daemon
