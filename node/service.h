// SPDX-License-Identifier: BSD-3-Clause
// NodeService: the node's side of one connection. It greets, executes what comes in frames against the node, and
// answers in frames. Beside it stands a fabric::Channel, whose events it is.
//
// Owner: whoever owns the channel, in the channel's thread. A turn: channel readable -> turn(), which lets the
// channel receive, executes, and sends; then close_wanted() and turn_wanted() say what is next.
//
// N1  Nothing here waits. A partition's lock is held for one operation at a time.
// N2  The clock is read after the bytes of the request that it serves have come (partition.h, P6).
// N3  Memory is bounded by ServiceLimits: while more than out_bytes_mark waits to be sent, or more than
//     outgoing_bytes_max was copied out to be sent in pieces, nothing more is parsed, in the middle of a frame too.
//     What was not parsed stays in the channel, which then stops receiving.
// N4  A value in pieces never keeps other frames waiting for more than one piece, in either direction.
// N5  Every request is answered once, in the order of execution; one whose value follows, when the value has come.
//     Of a value that the proxy lends, it has come when it was READ and is what was announced; one for which there is
//     no buffer is asked for in pieces instead.
// N6  What is no frame ends the connection, with a goodbye if it was greeted. So does what breaks what was agreed:
//     more frames of requests in flight than credits, a chunk of a value that was not announced.
// N7  A report takes report_us_max, and what is left of it is left to the proxy to send again. Nothing in it is believed:
//     each record counts for what it names, if that is there, and renews no more leases than the proxy's share. One that
//     lies in the container (fabric/channel.h, C7) is copied out first, and then is like any other.
// N8  Every ending is counted once, by a ServiceEnd.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/adjustable.h"
#include "base/boottime.h"
#include "base/node_clock.h"
#include "base/recorder.h"
#include "fabric/channel.h"
#include "node/fetch_pool.h"
#include "node/flush_schedule.h"
#include "node/node.h"
#include "node/node_stats.h"
#include "node/report_quota.h"
#include "node/service_counters.h"
#include "protocol/frame.h"
#include "protocol/frame_request.h"
#include "protocol/frame_writer.h"
#include "protocol/handshake.h"

namespace farcached::node {

// What a node says of itself in the greeting, beside what the Node knows.
struct NodeFacts {
    std::string name;           // protocol::is_name()
    int64_t started_unix = 0;   // Unix time at which the clock read 0
    uint32_t frame_bytes_max = protocol::frame_bytes_default;
    uint32_t credits = protocol::credits_default;
    Adjustable<uint32_t> connections_max = 1024;  // by a reload
};

// The facts of a welcome, but for the clock. `access`: how this connection's proxy may read the region.
protocol::Welcome welcome_facts(const Node& node, const NodeFacts& facts, protocol::RegionAccess access);

// Per connection.
struct ServiceLimits {
    size_t out_bytes_mark = 256 * 1024;        // below it, one more request is executed, one more piece sent
    uint64_t outgoing_bytes_max = 4 << 20;     // values and texts waiting to be sent in pieces; one more is begun below it
    uint64_t incoming_bytes_max = 64 << 20;    // values coming in pieces; a single one may be larger
    uint32_t incoming_values_max = 4096;       // of them, refused ones included
    Adjustable<double> report_share = report_share_default;  // by a reload
    Adjustable<uint32_t> greeting_ms = 10'000;  // what a connection takes before it is known whose it is, it keeps for so
                                                // long; by a reload
};

constexpr uint32_t report_us_max = 500;  // what a report may take

// What all connections of a node share; it outlives them. Only the atomics and the quotas are written.
struct ServiceShared {
    Node& node;
    FlushSchedule& flushes;
    const NodeStats& stats;
    const NodeFacts& facts;
    NodeReading (*clock)();
    ServiceLimits limits = {};
    FetchPool* fetches = nullptr;  // nullptr: no value is READ from a proxy
    uint64_t (*steady_ns)() = boottime_ns;  // never less than before: how long reports take
    ReportQuotas report_quotas = {};
    std::atomic<uint32_t> welcomed{0};  // connections that have a place among facts.connections_max
};

class NodeService final : public fabric::ChannelEvents {
  public:
    // All outlive this. The counters are those of the thread that will attach.
    NodeService(ServiceShared& shared, ServiceCounters& counters);
    ~NodeService() override;
    NodeService(const NodeService&) = delete;
    NodeService& operator=(const NodeService&) = delete;

    // Before the first turn, in the thread that will have them all. The channel outlives this, or its last use.
    void attach(fabric::Channel& channel, protocol::RegionAccess access);

    // For the report of a crash; outlives this.
    void record_in(Recorder& recorder) { recorder_ = &recorder; }

    // The channel is ready, or a turn was wanted.
    void turn();
    // Something can be done without another event: call turn() when others had theirs.
    bool turn_wanted() const;
    // Nothing more is to be done: destroy channel and service.
    bool close_wanted() const { return state_ == State::over; }

    // From the next turn on nothing new is executed, and a proxy that is not greeted yet is refused. What was
    // begun goes on; the proxy is expected to close when it has its answers.
    void stop(protocol::Goodbye why);
    // Nothing of any request is left here.
    bool quiet() const;
    // The owner's last word: over, as `stopped`.
    void give_up();
    // ServiceLimits::greeting_ms have passed since attach(): over, if nobody has greeted.
    void greeting_is_due();

    // Who is there, for logs; empty before the greeting.
    const std::string& peer() const { return peer_; }
    ServiceEnd end() const { return end_; }              // if close_wanted()
    const std::string& end_text() const { return end_text_; }

    // fabric::ChannelEvents
    void connected() override {}
    size_t received(std::string_view bytes) override;
    void read_done(uint64_t token, fabric::ReadStatus status) override;
    void ended(fabric::ChannelEnd why, const std::string& text) override;

  private:
    enum class State : uint8_t {
        greeting,
        open,
        leaving,  // the proxy said goodbye: what is in flight is answered
        closing,  // nothing more is read; what is to be sent is offered to the channel once
        over,
    };

    // A value that comes in pieces or is READ, and its request.
    struct Incoming {
        std::string key;
        protocol::StoreOp op;  // but key and value
        bool admitted = false;  // no: refused already, the pieces are thrown away
        protocol::RequestRefusal refusal = protocol::RequestRefusal::no_memory;  // if so
        bool too_large = false;  // not refused, but answered so
        bool fetching = false;   // a READ is under way
        std::unique_ptr<char[]> value;  // from the first piece on
        protocol::ValueProgress progress;
    };
    // A value or text that goes in pieces.
    struct Outgoing {
        uint64_t sequence = 0;
        uint32_t tag = 0;
        std::unique_ptr<char[]> value;
        uint64_t size = 0, sent = 0;
    };
    using Address = std::pair<uint64_t, uint32_t>;  // sequence and tag
    using Incomings = std::map<Address, Incoming>;
    // A READ of a value; its buffer is the channel's until it is told of, or the channel is destroyed (S12).
    struct Fetch {
        Address address;
        uint64_t* landing = nullptr;
        uint64_t check = 0;
    };

    // A delete by prefix that goes on in the next turns.
    struct Walk {
        Address address;
        Node::PrefixDelete under_way;
    };

    // Where a frame of requests was left; its bytes are still the channel's first.
    struct Halted {
        uint16_t requests = 0;  // left; 0: none was left
        size_t bytes = 0;       // of its body, left
    };

    bool may_go_on() const;          // parsing
    bool may_go_on_sending() const;
    void take(const protocol::Frame& frame);
    void hello(const protocol::Frame& frame);
    void requests(protocol::Frame frame);
    void chunk(const protocol::Frame& frame);
    void lent(const protocol::Frame& frame);
    bool fetch(Incomings::iterator incoming, const protocol::LentRecord& lent);
    void lease_returns(const protocol::Frame& frame);
    void goodbye(const protocol::Frame& frame);

    // node/service_reports.cc.
    bool possible(const protocol::AccessRecord& record, Access& access) const;
    void accesses(const protocol::Frame& frame);
    void report(const protocol::Frame& frame, bool written = false);
    void report_written(const protocol::Frame& notice);
    void answer_report(uint64_t sequence, bool written);
    uint32_t renew(const protocol::AccessRecord& record, NodeSeconds now);

    static std::unique_ptr<char[]> take_memory(uint64_t bytes);  // nullptr: there is none

    // node/service_ops.cc. They add one reply each, or none yet.
    struct Turn;  // of one frame of requests
    void execute(Turn& turn, protocol::NodeRequest& request);
    void run(Turn& turn, const protocol::RequestOptions& options, protocol::GetOp& op);
    void run(Turn& turn, const protocol::RequestOptions& options, protocol::StoreOp& op);
    void run(Turn& turn, const protocol::RequestOptions& options, protocol::DeleteOp& op);
    void run(Turn& turn, const protocol::RequestOptions& options, protocol::ArithOp& op);
    void run(Turn& turn, const protocol::RequestOptions& options, protocol::ForgetOp& op);
    void run(Turn& turn, const protocol::RequestOptions& options, protocol::FlushOp& op);
    void run(Turn& turn, const protocol::RequestOptions& options, protocol::StatsOp& op);
    void refuse(Turn& turn, uint32_t tag, protocol::RequestRefusal why);
    void store(Turn& turn, uint32_t tag, const protocol::StoreOp& op);
    void announce(Turn& turn, const protocol::NodeRequest& request);
    void value_over(Incomings::iterator incoming, bool abandoned, std::string_view value);
    void delete_prefix(Turn& turn, uint32_t tag, std::string_view prefix);
    void walk();
    void send_later(Turn& turn, uint32_t tag, std::unique_ptr<char[]> value, uint64_t size);

    // A lease for who cannot read one-sided would keep memory for nothing.
    bool grants(const protocol::RequestOptions& options) const {
        return options.want_grant && access_ != protocol::RegionAccess::none;
    }
    NodeReading told(NodeReading now) const;
    void in_flight(uint64_t sequence);
    void answered(uint64_t sequence);
    bool send_piece();
    void end_with(ServiceEnd why, std::string text);
    void bad(protocol::FrameError error);
    void advance();

    ServiceShared& shared_;
    ServiceCounters& counters_;
    fabric::Channel* channel_ = nullptr;
    protocol::RegionAccess access_ = protocol::RegionAccess::none;
    State state_ = State::greeting;
    bool seated_ = false;
    std::optional<protocol::Goodbye> stopping_;
    bool stalled_ = false;  // there may be more to parse
    ServiceEnd end_ = ServiceEnd::transport;
    std::string end_text_, peer_;

    protocol::FrameLimits limits_;
    uint32_t credits_ = 0;
    std::shared_ptr<ReportQuota> quota_;  // once greeted
    Recorder* recorder_ = nullptr;        // the thread's, which is told whose key is at hand; null: nobody is
    uint32_t term_ms_max_ = 0;            // as the welcome said: a report's answer has no longer one
    OutBuffer answer_;                    // to a report, while it is made
    Halted halted_;
    std::unordered_map<uint64_t, uint32_t> in_flight_;  // unanswered requests by sequence, of frames that were read
    Incomings incoming_;
    std::unordered_map<uint64_t, Fetch> fetches_;  // by token
    uint64_t next_fetch_ = 0;
    uint64_t incoming_bytes_ = 0;
    std::deque<Walk> walks_;
    std::deque<Outgoing> outgoing_;
    uint64_t outgoing_bytes_ = 0;  // allocated, not what is left of it
};

}  // namespace farcached::node
