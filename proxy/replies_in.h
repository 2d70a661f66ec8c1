// SPDX-License-Identifier: BSD-3-Clause
// RepliesIn: one connection's frames of replies and pieces of values, matched with the exchanges that they answer.
//
// Owner: a NodeLink, one per connection.
// A1  A reply is accepted only if it is the first to a request that was sent, and of its kind. Otherwise the connection
//     ends (reply_stranger).
// A2  A value in pieces is assembled here and passed on whole. Its memory is allocated when its first piece arrives.
//     All such values take at most large_bytes_max beyond one value; a value without room fails, and its pieces are
//     discarded.
// A3  Sinks are called from within; their new requests are only queued.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "protocol/frame.h"
#include "proxy/exchange.h"
#include "proxy/frames_out.h"
#include "proxy/link_counters.h"
#include "proxy/node_clock_estimate.h"
#include "proxy/pointer_get.h"

namespace farcached::proxy {

class RepliesIn {
  public:
    // All members outlive this.
    struct Parts {
        Exchanges& exchanges;
        FramesOut& frames;
        PointerGets& pointers;
        KeyOrder& order;
        NodeClockEstimate& clock;
        LinkCounters& counters;
    };
    RepliesIn(const Parts& parts, const protocol::FrameLimits& limits, uint64_t large_bytes_max)
        : parts_(parts), limits_(limits), large_bytes_max_(large_bytes_max) {}
    RepliesIn(const RepliesIn&) = delete;
    RepliesIn& operator=(const RepliesIn&) = delete;

    // now_ns: read after the frame arrived.
    protocol::FrameError replies(const protocol::Frame& frame, uint64_t now_ns);
    protocol::FrameError chunk(const protocol::Frame& frame);
    protocol::FrameError unlent(const protocol::Frame& frame);

    // Ends an exchange without an answer: calls its sink, unless it is late. The exchange stays, late.
    void fail(Exchange& exchange, const Failed& why);

    uint64_t large_bytes() const { return large_bytes_; }

  private:
    Exchange* answered_exchange(const protocol::NodeReply& reply, uint64_t sequence);
    void note_pointer(Exchange& exchange, const protocol::NodeReply& reply, uint64_t now_ns);
    void settle(Exchange& exchange, protocol::NodeReply& reply);
    void to_host_times(protocol::ReplyOp& op) const;
    bool take_room(Exchange& exchange);
    void drop_received(Exchange& exchange);
    void tell(Exchange& exchange, protocol::ReplyOp&& op, std::string_view value,
              std::unique_ptr<char[]> owned);
    void close(Exchange& exchange);

    Parts parts_;
    protocol::FrameLimits limits_;
    uint64_t large_bytes_max_;
    uint64_t large_bytes_ = 0;
};

}  // namespace farcached::proxy
