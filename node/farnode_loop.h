// SPDX-License-Identifier: BSD-3-Clause
// Loop: a thread of farnode with an event loop and the connections that were given to it.
//
// L1  All but give(), stop(), join(), wake(), the pulse and the counters belongs to the loop's thread.
// L2  A connection that wants another turn waits until the others that are ready had theirs.
// L3  Only when one connection alone has anything to do is it lingered at.
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/recorder.h"
#include "fabric/channel.h"
#include "node/service.h"
#include "process/log.h"
#include "process/pulse.h"

namespace farcached::node {

struct FreeEventBase {
    void operator()(event_base* base) const { event_base_free(base); }
};
using EventBase = std::unique_ptr<event_base, FreeEventBase>;
// Throws std::system_error.
EventBase make_event_base();

// A connection on its way to a loop.
struct Arrival {
    std::unique_ptr<NodeService> service;  // made for the loop that it is given to
    std::unique_ptr<fabric::Channel> channel;
    protocol::RegionAccess access = protocol::RegionAccess::none;
};

class Loop {
  public:
    // `shared` outlives this. Throws std::system_error.
    explicit Loop(ServiceShared& shared);
    ~Loop();
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;

    void start();
    std::unique_ptr<NodeService> make_service() { return std::make_unique<NodeService>(shared_, counters_); }
    void give(Arrival arrival);
    // Whoever asks it calls wake() then: the answer is that of the loop. Both from any thread.
    process::Pulse& pulse() { return pulse_; }
    void wake();
    // Tells every proxy; ends when they have gone, or after so long.
    void stop(protocol::Goodbye why, uint32_t patience_ms);
    void join();

    const ServiceCounters& counters() const { return counters_; }

  private:
    struct Connection;
    using Connections = std::list<Connection>;

    static void on_ready(evutil_socket_t, short, void* connection);
    static void on_wake(evutil_socket_t, short, void* loop);
    static void on_greeting_due(evutil_socket_t, short, void* connection);
    static void on_deadline(evutil_socket_t, short, void* loop);

    void run();
    void take_orders();
    void open(Arrival arrival);
    void begin_stop(protocol::Goodbye why, uint32_t patience_ms);
    void turn(Connection& connection);
    void settle(Connection& connection);
    void remove(Connection& connection);
    void go_on();
    bool linger();

    Recorder recorder_{"loop"};
    ServiceShared& shared_;
    ServiceCounters counters_;
    process::Pulse pulse_;
    process::LimitedLines arrivals_;
    std::array<process::LimitedLines, size_t(ServiceEnd::count)> ends_;
    EventBase base_;
    event wake_event_{}, deadline_event_{};
    int wake_fd_ = -1;
    std::thread thread_;
    Connections connections_;
    std::vector<Connection*> wanting_;   // another turn
    std::vector<Connection*> active_;    // had a turn in this pass
    bool stopping_ = false, given_up_ = false;

    struct StopOrder {
        protocol::Goodbye why;
        uint32_t patience_ms;
    };
    std::mutex lock_;
    std::vector<Arrival> arriving_;   // under lock_
    std::optional<StopOrder> order_;  // under lock_
};

}  // namespace farcached::node
