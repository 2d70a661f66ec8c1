// SPDX-License-Identifier: BSD-3-Clause
// SocketIo: moves bytes between a worker's sessions and their sockets. EventIo (daemon/session/event_io.cc) waits for ready sockets
// with libevent, and makes a system call per receive and per send. RingIo (daemon/session/ring_io.cc) lets the kernel receive into
// the worker's buffers. It submits the sends of a whole tick with the system call that waits. Both wait for all else within turn():
// other descriptors (daemon/engine/readiness.h), and the worker's next timer.
//
// Owner: a worker, whose thread alone calls it, except the constructor.
//
// T1  Callbacks about a session run from its first resume() to leave(); after that its descriptor may be closed.
// T2  After pause() bytes under way may still arrive: the worker keeps them. One turn's bytes bound them.
// T3  Bytes of one session leave in the order of send(). If the socket does not take all of them, unsent() runs before any
//     other callback of that session.
// T4  Bytes handed to the kernel are not touched until it has taken them (S12).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/out_buffer.h"
#include "daemon/engine/readiness.h"
#include "daemon/stats/worker_counters.h"

namespace farcached::daemon {

struct Session;

// Bounds of both implementations.
constexpr size_t receive_bytes_max = 64 << 10;  // large enough for a deep pipeline, small enough for the second-level cache
constexpr size_t together_max = 16;             // sessions: prefetched data of the last is still cached when it is served
constexpr size_t queued_bytes_max = 256 << 10;  // above it queued replies leave early: bounds their delay and memory
constexpr size_t queued_bytes_kept = 64 << 10;  // capacity that a queue's buffer keeps

// An implementation's callbacks to the worker's Sessions.
class SocketEvents {
  public:
    virtual ~SocketEvents() = default;
    // Bytes have arrived. Runs before the first received() of a batch.
    virtual void read_clock() = 0;
    // Inputs that received() passes next, of several sessions: prefetch for their requests.
    virtual void coming(std::span<const std::string_view> inputs) = 0;
    // bytes: valid until return. The session may be gone on return. all: the socket held no more.
    virtual void received(Session& session, std::string_view bytes, bool all) = 0;
    // `bytes` bytes of the value that the session waits for (SessionState::pending) were received in place.
    virtual void received_in_place(Session& session, size_t bytes) = 0;
    // End of input. 0: the client closed its side; else the system's error.
    virtual void input_ended(Session& session, int error) = 0;
    virtual void writable(Session& session) = 0;
    // Before replies leave (W2).
    virtual void before_sending() = 0;
    // Of `queued` bytes, now in `out`: the socket took the first `taken` bytes, or failed. Leaves `out` in any state. Never
    // closes a session.
    virtual void unsent(Session& session, OutBuffer& out, size_t taken, int error) = 0;
    // The socket has taken bytes that were queued with `tell`.
    virtual void sent(Session& session) = 0;
    // Follows turn_soon().
    virtual void turn_of_waiting() = 0;
};

// The worker's next timer.
class TurnTimer {
  public:
    virtual ~TurnTimer() = default;
    // When timer_due() is to run, on boottime_ns(); UINT64_MAX: never. Read at the beginning of each turn.
    virtual uint64_t timer_at_ns() = 0;
    // Follows received() and all callbacks of ready descriptors. May run too early.
    virtual void timer_due() = 0;
};

struct Sent {
    enum How : uint8_t {
        taken,   // all of it
        part,    // `bytes` of it, perhaps none
        failed,
        queued,  // leaves at the end of the turn; unsent() reports a failure
    };
    How how;
    size_t bytes = 0;
};

class SocketIo : public Waits {
  public:
    // In the worker's thread, first of all calls but resume() and make_readiness().
    virtual void start() {}

    // Starts received(), and ends await_room(). False: no memory.
    virtual bool resume(Session& session) = 0;
    // Stops both.
    virtual void pause(Session& session) = 0;
    // Stops received(); writable() runs when the socket takes more. False: no memory.
    virtual bool await_room(Session& session) = 0;
    virtual void leave(Session& session) = 0;

    // Takes the bytes of `out`, and leaves it in any state if they are queued. tell: sent() follows then.
    virtual Sent send(Session& session, OutBuffer& out, bool tell) = 0;
    // True: `queued` bytes of the session are not submitted yet.
    virtual bool has_queued(const Session&) const = 0;
    // Receives all bytes available now; received() runs at once or in the next turn. False: no bytes. The session may be gone.
    virtual bool receive_now(Session& session) = 0;
    // Delivers received bytes now: before a stop, which they precede.
    virtual void catch_up() {}
    // Between two sessions of a turn: bounds the queue.
    virtual void relieve() {}
    // False: it does not send at sockets whose data the kernel encrypts.
    virtual bool knows_kernel_tls() const { return true; }
    // A descriptor moves to another thread: submits all queued operations that name it.
    virtual void before_giving_away() {}

    // turn_of_waiting() runs in this turn if it has not ended, or in the next.
    virtual void turn_soon() = 0;
    // One iteration. Sleeps until there is work, unless awake is set.
    virtual void turn(bool awake) = 0;
};

// send() of the rest: own bytes from `start`, and the pieces between them (base/out_buffer.h).
ssize_t send_some(int socket, std::string_view own, size_t start, std::span<const OutPiece> pieces, int flags);

// One receive of either implementation, into `room`. Not positive: 0: the client closed its side; else the system's error,
// negated. -EAGAIN stands for every error that means "nothing now".
ssize_t receive_into(int socket, std::span<char> room, WorkerCounters& counters);

// The same for a session that may wait for a value: its bytes go to their place, and `events` run.
ssize_t receive_for(Session& session, std::span<char> room, SocketEvents& events, WorkerCounters& counters);

// An EventIo; all are borrowed.
std::unique_ptr<SocketIo> make_event_io(SocketEvents& events, TurnTimer& timer, WorkerCounters& counters);
// Tests io_uring on sockets of its own, once per process. Returns an empty string, or why there is no io_uring here, with the
// call and the system's reason.
std::string try_ring();
// A RingIo; all are borrowed. nullptr: `refusal` has the reason.
std::unique_ptr<SocketIo> make_ring_io(SocketEvents& events, TurnTimer& timer, WorkerCounters& counters, std::string& refusal);

}  // namespace farcached::daemon
