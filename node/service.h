// SPDX-License-Identifier: BSD-3-Clause
// NodeService: the node's end of one connection. It greets, executes requests from frames against the node, and replies in
// frames. It handles the events of a fabric::Channel.
//
// Owner: the channel's owner, in the channel's thread. A step: channel readable -> turn(), which lets the channel receive,
// executes, and sends; then close_wanted() and turn_wanted() return the next action.
//
// N1  No call waits. A partition's lock is held for one operation at a time.
// N2  The clock is read after the bytes of the request that it serves have arrived (partition.h, P2).
// N3  ServiceLimits bounds memory. Execution pauses, even inside a frame, while more than out_bytes_mark waits to be sent, or
//     more than outgoing_bytes_max was copied out to be sent in pieces. The unexecuted bytes stay in the channel, which then
//     stops receiving.
// N4  A value in pieces never delays other frames by more than one piece, in either direction.
// N5  Every request gets one reply, in the order of execution; a request whose value follows executes when the value is
//     complete. A lent value is complete when it was READ and matches its announcement; without a buffer for it, the node
//     requests it in pieces.
// N6  A malformed frame ends the connection, with a goodbye if it was greeted. So does a protocol violation: more frames of
//     requests in flight than credits, or a chunk of an unannounced value.
// N7  A report gets report_us_max; the proxy sends the rest again. Its contents are untrusted: each record counts for the item
//     it names, if that exists, and renewals stay within the proxy's share. A report in the container (fabric/channel.h, C7) is
//     copied out first, then treated alike.
// N8  Every ending is counted once, by a ServiceEnd.
// N9  The process's budget (node/peer_budget.h) counts half frames, values and unsent replies of a connection beyond
//     ServiceLimits::free_bytes. A value that the budget refuses is not stored, or not sent.
// N10 A connection has a seat, or is at the door (node/seats.h). An ousted connection ends in its next step. A connection that
//     receives nothing for silence_s ends, too: proxies ping every 30 s (proxy/node_link.h).
#pragma once

#include <array>
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
#include "base/limits.h"
#include "base/node_clock.h"
#include "base/recorder.h"
#include "fabric/channel.h"
#include "node/fetch_pool.h"
#include "node/flush_schedule.h"
#include "node/node.h"
#include "node/node_stats.h"
#include "node/peer_budget.h"
#include "node/report_quota.h"
#include "node/seats.h"
#include "node/service_counters.h"
#include "protocol/frame.h"
#include "protocol/frame_request.h"
#include "protocol/frame_writer.h"
#include "protocol/handshake.h"

namespace farcached::node {

// The facts in the greeting that the Node does not have.
struct NodeFacts {
    std::string name;           // protocol::is_name()
    int64_t started_unix = 0;   // Unix time at clock reading 0
    uint32_t frame_bytes_max = protocol::frame_bytes_default;
    uint32_t credits = protocol::credits_default;
    Adjustable<uint32_t> connections_max = 1024;  // changed by a reload
};

// All of a welcome except the clock. `access`: how this connection's proxy may read the region.
protocol::Welcome welcome_facts(const Node& node, const NodeFacts& facts, protocol::RegionAccess access);

// Per connection.
struct ServiceLimits {
    size_t out_bytes_mark = 256 * 1024;        // below it, one more request is executed, or one more piece sent
    uint64_t outgoing_bytes_max = 4 << 20;     // values and texts waiting to be sent in pieces; below it, one more begins
    // The same two while more than half of the budget is in use (N9).
    size_t out_bytes_mark_tight = 32 * 1024;
    uint64_t outgoing_bytes_max_tight = 128 * 1024;
    uint64_t incoming_bytes_max = 64 << 20;    // values received in pieces; a single one may be larger
    uint32_t incoming_values_max = 4096;       // of them, refused ones included
    uint32_t free_bytes = 2 * 1024;            // uncounted bytes: of a half frame, and of unsent replies, each (N9)
    uint32_t silence_s = 120;                  // maximum silence of a proxy: four of its pings
    Adjustable<double> report_share = report_share_default;  // changed by a reload
    Adjustable<uint32_t> greeting_ms = 10'000;  // time from accept to greeting; memory taken before the
                                                // greeting is held for up to this time; changed by a reload
};

constexpr uint32_t report_us_max = 500;  // time limit of a report

// Shared by all connections of a node; outlives them. Only the atomics and the quotas are written.
struct ServiceShared {
    Node& node;
    FlushSchedule& flushes;
    const NodeStats& stats;
    const NodeFacts& facts;
    NodeReading (*clock)();
    ServiceLimits limits = {};
    FetchPool* fetches = nullptr;  // nullptr: no value is READ from a proxy
    uint64_t (*steady_ns)() = boottime_ns;  // monotonic; measures reports
    ReportQuotas report_quotas = {};
    Seats seats{};
    PeerBudget budget{UINT64_C(256) << 20};  // of bytes held by connections
};

// Wakes the thread of an ousted service. Any thread; only notes the request.
class OustedWaker {
  public:
    virtual void wake_for_ousted() = 0;

  protected:
    ~OustedWaker() = default;
};

class NodeService final : public fabric::ChannelEvents, public Oustable {
  public:
    // The arguments outlive this. The counters belong to the thread that will attach.
    NodeService(ServiceShared& shared, ServiceCounters& counters, OustedWaker* waker = nullptr);
    ~NodeService() override;
    NodeService(const NodeService&) = delete;
    NodeService& operator=(const NodeService&) = delete;

    // The connection arrived from that address (fabric::Channel::source()) and is at the door. Once, before attach().
    void arrive(const std::string& source);
    // Before the first step, in the thread of all steps. The channel outlives this, or its last use.
    void attach(fabric::Channel& channel, protocol::RegionAccess access);

    // For crash reports; outlives this.
    void record_in(Recorder& recorder) { recorder_ = &recorder; }

    // The channel is ready, or another step was wanted.
    void turn();
    // More work is possible without another event: call turn() after the other connections' steps.
    bool turn_wanted() const;
    // The service has ended: destroy channel and service.
    bool close_wanted() const { return state_ == State::over; }

    // From the next step on, no new request is executed, and a proxy not yet greeted is refused. Requests in progress continue;
    // the proxy is expected to close once it has its replies.
    void stop(protocol::Goodbye why);
    // No request is in progress.
    bool quiet() const;
    // Ends the connection at once, as `stopped`.
    void give_up();
    // Ends the connection after an allocation failure in the middle of a step. Allocates nothing.
    void starve() noexcept;
    // ServiceLimits::greeting_ms have passed since attach(): ends a connection that has not greeted.
    void greeting_is_due();
    // Ends a connection that received nothing for ServiceLimits::silence_s. Returns the milliseconds until the next call; 0:
    // never, the connection has ended or has not greeted.
    uint32_t silence_is_due();
    // Ousts the connection: turn() ends it.
    void oust(ServiceEnd why) override;
    bool is_ousted() const { return ousted_.load(std::memory_order_relaxed) != ServiceEnd::count; }

    // The proxy's name, for logs; empty before the greeting.
    const std::string& peer() const { return peer_; }
    // Welcomed, with an older protocol version: reads nothing one-sided (S18).
    bool two_sided() const { return two_sided_; }
    uint32_t version() const { return limits_.version; }  // agreed version
    ServiceEnd end() const { return end_; }              // if close_wanted()
    const std::string& end_text() const { return end_text_; }

    // fabric::ChannelEvents
    void connected() override {}
    size_t received(std::string_view bytes) override;
    void written(size_t bytes) override;
    void read_done(uint64_t token, fabric::ReadStatus status) override;
    void ended(fabric::ChannelEnd why, const std::string& text) override;

  private:
    enum class State : uint8_t {
        greeting,
        open,
        leaving,  // the proxy said goodbye: requests in flight are still answered
        closing,  // reads nothing more; offers the unsent bytes to the channel once
        over,
    };

    // A value that is received in pieces or READ, with its request.
    struct Incoming {
        std::string key;
        protocol::StoreOp op;  // without key and value
        bool admitted = false;  // false: already refused, its pieces are discarded
        protocol::RequestRefusal refusal = protocol::RequestRefusal::no_memory;  // if refused
        bool too_large = false;  // accepted, but the reply is too_large
        bool fetching = false;   // a READ is under way
        uint64_t since_ms = 0;   // time of the announcement
        uint64_t charged = 0;    // bytes of the value in the budget
        std::unique_ptr<char[]> value;  // allocated with the first piece
        protocol::ValueProgress progress;
    };
    // A value or text that is sent in pieces.
    struct Outgoing {
        uint64_t sequence = 0;
        uint32_t tag = 0;
        std::unique_ptr<char[]> value;
        uint64_t size = 0, sent = 0;
        uint64_t since_ms = 0;
    };
    // Counted bytes of a stream: received and not consumed, or produced and not sent.
    struct Held {
        uint64_t bytes = 0, since_ms = 0;
        uint64_t moved = 0;  // through the stream since then
    };
    using Address = std::pair<uint64_t, uint32_t>;  // sequence and tag
    using Incomings = std::map<Address, Incoming>;
    // A READ of a value; its buffer belongs to the channel until the completion, or until the channel is destroyed (S12).
    struct Fetch {
        Address address;
        uint64_t* landing = nullptr;
        uint64_t check = 0;
    };

    // A delete by prefix that continues in the next steps.
    struct Walk {
        Address address;
        Node::PrefixDelete under_way;
    };

    // The unexecuted rest of a frame of requests; its bytes are the channel's first.
    struct Halted {
        uint16_t requests = 0;  // left; 0: none
        size_t bytes = 0;       // left of the body
    };

    // A parsed request that is not executed yet. Its views point into the frame.
    struct Ahead {
        protocol::NodeRequest request;
        protocol::Key* key = nullptr;  // of the request, hashed; nullptr: no key
        Halted left;                   // of the frame, behind this request
    };
    static constexpr size_t ahead_max = 8;

    size_t consume(std::string_view bytes);
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
    bool possible(const protocol::ItemAccess& record, Access& access) const;
    void accesses(const protocol::Frame& frame);
    void report(const protocol::Frame& frame, bool written = false);
    void answer_report(bool written);
    uint32_t renew(const protocol::ItemAccess& record, NodeSeconds now);

    // Memory of an announced value without its bytes, key included.
    static constexpr uint64_t incoming_record_bytes = sizeof(Incomings::value_type) + limits::key_bytes_max + 128;
    static std::unique_ptr<char[]> take_memory(uint64_t bytes);  // nullptr: no memory
    std::unique_ptr<char[]> take_memory_to_send(uint64_t bytes);  // nullptr: no memory, or no room in the budget
    bool charge_record(Incoming& incoming);
    void uncharge(Incoming& incoming);
    void drop_value(Incoming& incoming);
    void hold(Held& held, uint64_t bytes, uint64_t moved);
    size_t out_mark() const;
    uint64_t now_ms() const { return shared_.steady_ns() / 1'000'000; }
    void end_ousted();

    // node/service_ops.cc. Each adds one reply, or defers it.
    struct Turn;  // of one frame of requests
    protocol::FrameStep look_ahead(protocol::RequestReader& reader);
    bool execute_ahead(Turn& turn);
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

    // A proxy that cannot read one-sided gets no lease, which would only keep memory.
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
    OustedWaker* waker_;
    std::atomic<ServiceEnd> ousted_{ServiceEnd::count};  // count: not ousted
    bool entered_ = false;                               // it was at the door
    bool two_sided_ = false;
    std::optional<protocol::Goodbye> stopping_;
    bool stalled_ = false;  // the channel may hold unparsed bytes
    ServiceEnd end_ = ServiceEnd::transport;
    std::string end_text_, peer_;

    protocol::FrameLimits limits_;
    uint32_t credits_ = 0;
    std::shared_ptr<ReportQuota> quota_;  // once greeted
    Recorder* recorder_ = nullptr;        // the thread's; gets the key being served; null: none
    uint32_t term_ms_max_ = 0;            // from the welcome: the longest term in a report's reply
    OutBuffer answer_;                    // a report's reply under construction
    Halted halted_;
    std::array<Ahead, ahead_max> ahead_;  // used within requests()
    uint32_t ahead_count_ = 0;
    std::unordered_map<uint64_t, uint32_t> in_flight_;  // unanswered requests by sequence, of frames that were read
    Incomings incoming_;
    std::unordered_map<uint64_t, Fetch> fetches_;  // by token
    uint64_t next_fetch_ = 0;
    uint64_t incoming_bytes_ = 0;
    std::deque<Walk> walks_;
    std::deque<Outgoing> outgoing_;
    uint64_t outgoing_bytes_ = 0;  // allocated bytes, sent ones included
    uint64_t to_send_since_ms_ = 0;  // start time of the last take_memory_to_send()
    Held unconsumed_, unsent_;
    uint64_t sent_before_ = 0;  // Channel::bytes_sent() at the end of the last step
    PeerBudget::Account account_;
    Seats::Seat seat_;  // last member, so that oust() is not called while others are destroyed
};

}  // namespace farcached::node
