// SPDX-License-Identifier: BSD-3-Clause
// EventIo: sockets by libevent (daemon/session/socket_io.h): one recv for a readable session, one send for its replies.
//
// E1  Sessions that are ready together are received from, then served, then sent to: a phase each, in the same order. Serving
//     the first overlaps with prefetches for the next; the accesses of all are handed over together. All of it ends within the
//     turn.
// E2  Callbacks of one session have the order of its receives.
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>

#include <array>
#include <memory>

#include "daemon/session/socket_io.h"
#include "daemon/stats/worker_counters.h"

namespace farcached::daemon {

// Bounds of both implementations.
constexpr size_t receive_bytes_max = 64 << 10;  // large enough for a deep pipeline, small enough for the second-level cache
constexpr size_t together_max = 16;             // sessions: prefetched data of the last is still cached when it is served
constexpr size_t queued_bytes_max = 256 << 10;  // above it queued replies leave early: bounds their delay and memory
constexpr size_t queued_bytes_kept = 64 << 10;  // capacity that a queue's buffer keeps

class EventIo final : public SocketIo {
  public:
    // All are borrowed.
    EventIo(SocketEvents& events, TurnTimer& timer, WorkerCounters& counters);

    std::unique_ptr<Readiness> make_readiness(std::function<void()> ready) override;
    bool resume(Session& session) override;
    void pause(Session& session) override;
    bool await_room(Session& session) override;
    void leave(Session& session) override;
    Sent send(Session& session, OutBuffer& out, bool tell) override;
    bool receive_now(Session& session) override;
    void catch_up() override { tell_received(); }
    void turn_soon() override;
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
    Queued* queued_of(const Session& session);
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

// send() of the rest: own bytes from `start`, and the pieces between them (base/out_buffer.h).
ssize_t send_some(int socket, std::string_view own, size_t start, std::span<const OutPiece> pieces, int flags);

// One receive of either implementation, into `room`. Not positive: 0: the client closed its side; else the system's error,
// negated. -EAGAIN stands for every error that means "nothing now".
ssize_t receive_into(int socket, std::span<char> room, WorkerCounters& counters);

// The same for a session that may wait for a value: its bytes go to their place, and `events` run.
ssize_t receive_for(Session& session, std::span<char> room, SocketEvents& events, WorkerCounters& counters);

}  // namespace farcached::daemon
