// SPDX-License-Identifier: BSD-3-Clause
// SocketIo: the way between a worker's sessions and their sockets. There are two. EventIo (daemon/event_io.h) is told by libevent
// which sockets are ready, and makes a system call for each receive and each send. RingIo (daemon/ring_io.h) has the kernel
// receive into buffers of the worker, and hands it the sends of a whole tick with the system call in which it sleeps.
//
// Owner: a worker, whose thread alone calls it, but for the making. Either way libevent's loop goes round within turn(): timers,
// what wakes the worker, and links to nodes are there.
//
// T1  A session is told of from the first resume() to leave(); after that its descriptor may be closed.
// T2  Behind pause() what was under way may still come: the worker keeps it. It is bounded by what one turn brings.
// T3  Bytes of one session leave in the order of send(). If the socket does not take all of them, the worker is told before it
//     is told of anything else of that session.
// T4  Bytes that were handed to the kernel are not touched until it has taken them (S12).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/out_buffer.h"

namespace farcached::daemon {

struct Session;

// What an implementation tells its worker.
class SocketEvents {
  public:
    virtual ~SocketEvents() = default;
    // Something was received: the clock is due. Before the first received() of those that are told together.
    virtual void woke() = 0;
    // This will be received next, by several sessions: what it asks for may be brought nearer.
    virtual void coming(std::span<const std::string_view> inputs) = 0;
    // Valid until return. The session may be gone then. all: its socket held no more.
    virtual void received(Session& session, std::string_view bytes, bool all) = 0;
    // Nothing more will come: 0, the client has ended its side; else the system's error.
    virtual void input_ended(Session& session, int error) = 0;
    virtual void writable(Session& session) = 0;
    // Before replies leave (W2).
    virtual void before_sending() = 0;
    // Of what was `queued`: the socket took all but `rest`, valid until return, or failed. Never closes a session.
    virtual void unsent(Session& session, std::string_view rest, int error) = 0;
    // Of what was queued with `tell`: the socket has taken it.
    virtual void sent(Session& session) = 0;
    // As asked for by turn_soon().
    virtual void turn_of_waiting() = 0;
    // Until a timer of libevent's is due, by the wall clock, in nanoseconds: 0 or less, it is; INT64_MAX: there is none.
    virtual int64_t timer_due_ns() = 0;
};

struct Sent {
    enum How : uint8_t {
        taken,   // all of it
        part,    // `bytes` of it, perhaps none
        failed,
        queued,  // it leaves at the end of the turn; unsent() tells otherwise
    };
    How how;
    size_t bytes = 0;
};

class SocketIo {
  public:
    virtual ~SocketIo() = default;
    // In the worker's thread, before all but resume().
    virtual void start() {}

    // The session is told what it receives, and no longer waits for room. False: there is no memory for that.
    virtual bool resume(Session& session) = 0;
    // Neither of the two.
    virtual void pause(Session& session) = 0;
    // Instead: it is told when its socket takes more. False: there is no memory for that.
    virtual bool await_room(Session& session) = 0;
    virtual void leave(Session& session) = 0;

    // Takes the bytes of `out`, which it leaves in any state if they are queued. tell: sent() is to follow then.
    virtual Sent send(Session& session, OutBuffer& out, bool tell) = 0;
    // Receives what the socket holds now, or has been received of it: that is told at once, or in the next turn. False: nothing.
    // The session may be gone.
    virtual bool receive_now(Session& session) = 0;
    // What was received is told now: before timers and a stop, for which it counts.
    virtual void catch_up() {}
    // Between two sessions of a turn: not too much is queued.
    virtual void relieve() {}
    // A descriptor will be another thread's: nothing that is yet to be handed over names it.
    virtual void before_giving_away() {}

    // turn_of_waiting() is to be called in this turn if it is not over, or in the next.
    virtual void turn_soon() = 0;
    // Once round, asleep until there is something to do unless awake is set.
    virtual void turn(bool awake) = 0;
};

}  // namespace farcached::daemon
