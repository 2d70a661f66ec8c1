// SPDX-License-Identifier: BSD-3-Clause
// EventIo: sockets by libevent (daemon/socket_io.h): one recv for a readable session, one sendmsg for its replies.
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>

#include <memory>

#include "daemon/socket_io.h"
#include "daemon/worker_counters.h"

namespace farcached::daemon {

class EventIo final : public SocketIo {
  public:
    // All are borrowed.
    EventIo(event_base* base, SocketEvents& events, WorkerCounters& counters);

    bool resume(Session& session) override;
    void pause(Session& session) override;
    bool await_room(Session& session) override;
    void leave(Session& session) override { pause(session); }
    Sent send(Session& session, OutBuffer& out, bool tell) override;
    bool receive_now(Session& session) override;
    void turn_soon() override;
    void turn(bool awake) override;

  private:
    static void on_ready(evutil_socket_t, short what, void* session);
    static void on_turn(evutil_socket_t, short, void* events);

    bool listen(Session& session, short what);

    event_base* const base_;
    SocketEvents& events_;
    WorkerCounters& counters_;
    std::unique_ptr<char[]> in_;
    event turn_event_;
};

// What either implementation shares: receives into `in`, receive_bytes_max, what is there now, and tells.
constexpr size_t receive_bytes_max = 64 << 10;  // large enough for a deep pipeline, small enough to stay in the second-level cache
bool receive_from(Session& session, char* in, SocketEvents& events, WorkerCounters& counters);

}  // namespace farcached::daemon
