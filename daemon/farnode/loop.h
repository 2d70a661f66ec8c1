// SPDX-License-Identifier: BSD-3-Clause
// Loop: a thread of farnode with an event loop and the connections assigned to it.
//
// Owner: a FarnodeServer.
// L1  Only the loop's thread uses a Loop, except for inbox(), start(), join(), make_service() and the counters.
// L2  A connection that wants another step waits until all other ready connections had theirs.
// L3  The loop polls (lingers) while exactly one connection is active, and those whose channel looks for input (looking_).
// L4  Each pass serves all ready connections, each that wants a step, and one of those that look. The next pass begins behind that
//     one.
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/recorder.h"
#include "daemon/farnode/loop_inbox.h"
#include "fabric/channel.h"
#include "node/service/away_values.h"
#include "node/service/service.h"
#include "process/log.h"
#include "process/supervisor.h"

namespace farcached::node {

struct FreeEventBase {
    void operator()(event_base* base) const { event_base_free(base); }
};
using EventBase = std::unique_ptr<event_base, FreeEventBase>;
// Throws std::system_error.
EventBase make_event_base();

class Loop final {
  public:
    // `shared` outlives this. Throws std::system_error.
    explicit Loop(ServiceShared& shared);
    ~Loop();
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;

    void start();
    LoopInbox& inbox() { return inbox_; }
    std::unique_ptr<NodeService> make_service() {
        return std::make_unique<NodeService>(shared_, counters_, &inbox_, away_.get());
    }
    void join();

    const ServiceCounters& counters() const { return counters_; }

  private:
    struct Connection;
    using Connections = std::list<Connection>;

    static void on_ready(evutil_socket_t, short, void* connection);
    static void on_wake(evutil_socket_t, short, void* loop);
    static void on_due(evutil_socket_t, short, void* connection);
    static void on_deadline(evutil_socket_t, short, void* loop);
    static void on_away(evutil_socket_t, short, void* loop);

    void run();
    void end_ousted();
    void end_revoked();
    void open(Arrival arrival);
    void begin(Arrival arrival);
    void say_no_memory() noexcept;
    template <class Do>
    void with_memory(Connection& connection, Do&& body) noexcept;
    void begin_stop(protocol::Goodbye why, uint32_t patience_ms);
    void turn(Connection& connection);
    void settle(Connection& connection);
    void introduce(Connection& connection);
    void remove(Connection& connection);
    void go_on();
    bool linger();
    bool look(int rounds);

    Recorder recorder_{"loop"};
    ServiceShared& shared_;
    ServiceCounters counters_;
    LoopInbox inbox_;
    process::LimitedLines arrivals_, older_, no_memory_lines_;
    std::string older_told_;  // the last proxy of an older version that was logged
    std::array<process::LimitedLines, size_t(ServiceEnd::count)> ends_;
    EventBase base_;
    event wake_event_{}, deadline_event_{}, away_event_{};
    std::unique_ptr<AwayValues> away_;  // nullptr: the node has no tier
    std::thread thread_;
    Connections connections_;
    std::vector<Connection*> wanting_;   // wait for another step; capacity for all connections, as in the next one
    std::vector<Connection*> going_on_;  // their steps run now
    std::vector<Connection*> active_;    // had a step in this pass
    std::vector<Connection*> looking_;   // input may arrive without an event (fabric::Channel::looks())
    size_t look_next_ = 0;               // in looking_
    bool stopping_ = false, given_up_ = false;
};

}  // namespace farcached::node
