// SPDX-License-Identifier: BSD-3-Clause
// NodeLink: the link between one thread and one node, from the proxy's side. It connects, reconnects after a delay, handles
// timeouts, and fails the requests of a lost connection.
//
// Owner: one thread, a worker's or SpillLink's; all calls come from it. The link never waits or sleeps, and reads no clock but the
// given one.
//
//   idle --start()--> connecting --connected--> greeting --welcome--> up --goodbye--> leaving
//                        ^  |                      |                  |                 |
//          tick(): it    |  +----------------------+------------------+-----------------+
//          is time again |                         | go_down(): all requests under way fail
//                        +------- waiting <--------+                      stop(): from anywhere to idle
//   greeting --refused for its versions--> connecting: once, to be greeted as the version before (Greeting::as_older())
//   connecting, greeting --a Shortcut failed--> connecting: once, without it
//
// The connection itself is in link_connection.h (K5, K7), what it carries in requests.h (K1 to K4, K6), and the other parts in
// link_parts.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "fabric/buffer_pool.h"
#include "fabric/channel.h"
#include "protocol/handshake.h"
#include "proxy/access_notes.h"
#include "proxy/link_connection.h"
#include "proxy/link_counters.h"
#include "proxy/link_parts.h"
#include "proxy/node_clock_estimate.h"
#include "proxy/pointer_table.h"
#include "proxy/requests.h"

namespace farcached::proxy {

struct LinkConfig : Requests::Config {
    protocol::Hello hello;
    std::shared_ptr<const protocol::AuthKey> key;         // nullptr: no authentication (S16)
    uint64_t connect_timeout_ns = 2'000'000'000;  // until the node has greeted
    ReconnectConfig reconnect;
    uint64_t steady_ns = 5'000'000'000;   // up for this long: the next failure counts as the first again
    uint64_t silence_ns = 3'000'000'000;  // no bytes for this long while replies are due: the node counts as dead
    uint64_t ping_ns = 30'000'000'000;    // idle for this long: send a ping; 0: never
    uint64_t report_interval_ns = 0;                     // of access reports; 0: accesses travel with requests
    uint32_t report_items = limits::report_items_default;  // keys classified for reports
    bool share_reports = false;                          // with all processes that share the table
    int64_t host_zero_ns = 0;                            // when this process's NodeSeconds read 0
    uint64_t seed = 0;                                   // for jitter; differs by link
};

class NodeLink final {
  public:
    using MakeChannel = LinkConnection::MakeChannel;
    using Clock = LinkConnection::Clock;

    // Objects that the link uses and does not own; all outlive the link.
    struct Dependencies {
        MakeChannel make_channel;  // a problem without a descriptor or memory
        Clock clock;               // the source of every `now_ns`
        LinkEvents& events;
        PointerTable* table = nullptr;   // nullptr: no remote pointers
        fabric::BufferPool* landing = nullptr;  // nullptr: no one-sided reads
        fabric::BufferPool* lending = nullptr;  // nullptr: no values that the node READs
        Shortcut* shortcut = nullptr;           // nullptr: the link has none
    };
    NodeLink(const LinkConfig& config, const Dependencies& deps);
    ~NodeLink();
    NodeLink(const NodeLink&) = delete;
    NodeLink& operator=(const NodeLink&) = delete;

    // now_ns: read before the call; never decreases between calls.
    void start(uint64_t now_ns);
    // Sends a goodbye if the transport takes it at once; all requests under way fail.
    void stop(uint64_t now_ns) noexcept;
    // The key of later connections. Only while idle.
    void use_key(std::shared_ptr<const protocol::AuthKey> key);
    // Ends the connection and fails the requests under way. no_memory: any of its calls threw std::bad_alloc.
    void drop(LinkDown why, uint64_t now_ns) noexcept;

    // The descriptor is ready. The worker calls flush() afterwards, before it sleeps.
    void ready(uint64_t now_ns);
    // Ends and sends the tick's frame. Called at the end of every tick with requests or a call of ready(). True:
    // sinks were called or more can be sent, so the worker calls it again before it sleeps.
    bool flush(uint64_t now_ns);
    // Before the worker sleeps: polls for completions for a moment. True: ready() has work to do.
    bool linger() { return connection_.channel() != nullptr && connection_.channel()->linger(); }
    // Do only devices have work under way: READs, of items or of replies? Then linger() may pay.
    bool only_reads() const {
        return requests_.only_reads() || (connection_.channel() != nullptr && connection_.channel()->looks());
    }
    // Handles timeouts, reconnects and pings. Returns the time of the next call, UINT64_MAX for never; other calls may
    // make that earlier (next_tick_ns()).
    uint64_t tick(uint64_t now_ns);
    uint64_t next_tick_ns() const;
    bool wants_write() const { return connection_.channel() != nullptr && connection_.channel()->wants_write(); }

    // To ask, while up; down otherwise.
    Requests& requests() { return requests_; }
    // Only while up: records a hit in mapped memory, on the item `offset` bytes behind the region's start. The access
    // travels before the next requests or in a report. True: reports had nothing due, and next_tick_ns() may be
    // earlier.
    bool note_access(uint64_t key_hash, uint64_t generation, uint64_t offset, uint32_t region) {
        return notes_.note(key_hash, offset, region, generation);
    }

    LinkState state() const { return connection_.state(); }
    bool up() const { return connection_.up(); }
    // As Liveness has it.
    uint64_t quiet_ns(uint64_t now_ns) const { return connection_.liveness().quiet_ns(now_ns); }
    // From the last greeting; never log its secrets.
    const protocol::Welcome& welcome() const { return connection_.greeting().welcome(); }
    const NodeClockEstimate& clock() const { return clock_; }
    // The region mapped into this process, while up; nullptr if the node does not share its memory or is older (S18).
    const fabric::RegionView* mapped_region() const {
        return up() && connection_.greeting().one_sided() ? connection_.channel()->mapped_region(0) : nullptr;
    }
    // nullptr unless up.
    const fabric::Channel* channel() const { return up() ? connection_.channel() : nullptr; }
    const LinkCounters& counters() const { return counters_; }
    // A GET found mapped memory, and the node's serving right was over (S17).
    void count_right_over() { counters_.right_over.add(1); }
    // A request of another worker than the link's.
    void count_borrowed() { counters_.requests_borrowed.add(1); }
    // Requests under way when the connection was last lost.
    uint32_t requests_lost() const { return requests_lost_; }

  private:
    void connect(uint64_t now_ns);
    void open_channel(uint64_t now_ns);
    bool leaves_shortcut(const Down& down);
    void settle(uint64_t now_ns);
    void go_down(uint64_t now_ns);
    void fail_requests(AskFailure why);

    const Dependencies deps_;
    const uint64_t connect_timeout_ns_;
    LinkCounters counters_;
    NodeClockEstimate clock_;
    AccessNotes notes_;
    Requests requests_;
    AccessReports reports_;
    WayDown way_down_;
    LinkConnection connection_;

    uint64_t deadline_ns_ = 0;  // connecting, greeting: give up then; waiting: reconnect then
    uint32_t requests_lost_ = 0;
};

}  // namespace farcached::proxy
