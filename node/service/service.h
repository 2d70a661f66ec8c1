// SPDX-License-Identifier: BSD-3-Clause
// NodeService: the node's end of one connection. It hands the frames of the greeting to its Greeting (greeting.h), requests to its
// Execution (execution.h) and accesses to its Reports (reports.h), and ends. It handles the events of a fabric::Channel.
//
// Owner: the channel's owner, in the channel's thread. A step: channel readable -> turn(), which lets the channel receive,
// executes, and sends; then close_wanted() and turn_wanted() return the next action.
//
// N1  A malformed frame ends the connection, with a goodbye if it was greeted. So does a protocol violation: more frames of
//     requests in flight than credits, or a chunk of an unannounced value.
// N2  Every ending is counted once, by a ServiceEnd.
// N3  The process's budget (ousting.h) counts half frames and unsent replies of a connection beyond
//     ServiceLimits::free_bytes, and its values (values.h).
// N4  A connection has a seat, or is at the door (ousting.h). An ousted connection ends in its next step. A connection that
//     receives nothing for silence_s ends, too: proxies ping every 30 s (proxy/node_link.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/recorder.h"
#include "fabric/channel.h"
#include "node/service/connection.h"
#include "node/service/execution.h"
#include "node/service/greeting.h"
#include "node/service/ousting.h"
#include "node/service/reports.h"
#include "node/service/values.h"
#include "protocol/frame.h"
#include "protocol/handshake.h"

namespace farcached::node {

class NodeService final : public fabric::ChannelEvents {
  public:
    // The arguments outlive this. The counters belong to the thread that will attach.
    // away: of that thread; nullptr: the node has no tier.
    NodeService(ServiceShared& shared, ServiceCounters& counters, OustedWaker* waker = nullptr, AwayValues* away = nullptr);
    ~NodeService() override;

    // The connection arrived from that address (fabric::Channel::source()) and is at the door. Once, before attach().
    void arrive(const std::string& source);
    // Before the first step, in the thread of all steps. The channel outlives this, or its last use.
    void attach(fabric::Channel& channel, protocol::RegionAccess access);

    // For crash reports; outlives this.
    void record_in(Recorder& recorder) { execution_.record_in(recorder); }

    // The channel is ready, or another step was wanted.
    void turn();
    // More work is possible without another event: call turn() after the other connections' steps.
    bool turn_wanted() const;
    // The service has ended: destroy channel and service.
    bool close_wanted() const { return state_ == State::over; }
    // Values from a tier made replies: turn() sends them.
    bool take_late_replies() { return execution_.take_late_replies(); }

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
    // The node's keys have changed: ends a connection whose key was removed.
    void check_key();
    // Its seat or its bytes go to others: turn() ends it. oust(): any thread.
    void oust(ServiceEnd why) { ousted_.oust(why); }
    bool is_ousted() const { return ousted_.is_set(); }

    // The proxy as it greeted.
    const Greeting& greeting() const { return greeting_; }
    // The proxy has greeted, and has not proved its key yet: its name is not to be trusted.
    bool is_proving() const { return state_ == State::proving; }
    ServiceEnd end() const { return end_; }  // if close_wanted()
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
        proving,  // challenged: the proof follows (authentication.h)
        open,
        leaving,  // the proxy said goodbye: requests in flight are still answered
        closing,  // reads nothing more; offers the unsent bytes to the channel once
        over,
    };

    bool ends() const { return state_ == State::closing || state_ == State::over; }
    bool greets() const { return state_ == State::greeting || state_ == State::proving; }
    bool welcomed() const { return state_ == State::open || state_ == State::leaving; }
    size_t consume(std::string_view bytes);
    void take(const protocol::Frame& frame);
    void greeted(Greeting::Outcome outcome);
    void requests(const protocol::Frame& frame);
    protocol::FrameError goodbye(const protocol::Frame& frame);
    void say_goodbye(protocol::Goodbye why, std::string_view text);
    void end_ousted();
    void end_with(ServiceEnd why, std::string text);
    void bad(protocol::FrameError error);
    void advance();

    OustNote ousted_;
    State state_ = State::greeting;
    bool entered_ = false;  // it was at the door
    bool stalled_ = false;  // the channel may hold unparsed bytes
    ServiceEnd end_ = ServiceEnd::transport;
    std::string end_text_;
    PeerBudget::Account account_;
    Connection connection_;
    Greeting greeting_{connection_};
    Execution execution_{connection_};
    Reports reports_{connection_};
    StreamBytes unconsumed_, unsent_;
    uint64_t sent_before_ = 0;  // Channel::bytes_sent() at the end of the last step
    Seats::Seat seat_;
};

}  // namespace farcached::node
