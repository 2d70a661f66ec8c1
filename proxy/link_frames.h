// SPDX-License-Identifier: BSD-3-Clause
// The frames of one connection: requests out, replies in.
// Owner: a Requests, on its worker's thread; one of each per connection.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/out_buffer.h"
#include "fabric/buffer_pool.h"
#include "protocol/frame.h"
#include "protocol/frame_writer.h"
#include "proxy/exchange.h"
#include "proxy/link_counters.h"
#include "proxy/node_clock_estimate.h"
#include "proxy/onesided_gets.h"

namespace farcached::proxy {

// FramesOut: one connection's frames of requests, from the first request written to the last answer. It also sends the
// large values that follow requests, in pieces or lent.
//
// Requests are written into a buffer of this object; send() passes whole frames
// to the channel after it noted the time.
// O1  sent_ns() of a frame is a moment before its first byte could leave (S3).
// O2  The number of unanswered frames never exceeds the node's credits. A frame counts until the reply to its last
//     request arrived, with all pieces.
// O3  A value's pieces leave in order, behind the frame that announced it. They stay at most two frames ahead of the
//     transport, so that a small request waits behind no more. If a buffer is free, the value is copied there for the
//     node to READ, and one frame announces the buffer instead.
// O4  If add() or name_epoch() finds no memory, it throws and changes nothing.
// O5  A node that knows epochs has received that of each request, in front of it (protocol/frame.h).
class FramesOut {
  public:
    FramesOut(uint32_t frame_bytes_max, uint32_t credits, bool knows_epochs = false);
    FramesOut(const FramesOut&) = delete;
    FramesOut& operator=(const FramesOut&) = delete;

    uint32_t frame_bytes_max() const { return frame_bytes_max_; }
    // Is there room for any request without a large value?
    bool room() const { return room_for(request_bytes_most); }

    // Adds one request and fills `place`, which the exchange keeps. False: the node's credits allow no further frame.
    struct Place {
        uint64_t sequence = 0;
        uint32_t frame = 0;
    };
    template <class Op>
    bool add(const Op& op, const protocol::RequestOptions& options, Place& place);
    // Lends values of up to bytes_max bytes in buffers of the pool, which outlives this.
    void lend(fabric::BufferPool& pool, uint64_t bytes_max) {
        lending_ = &pool;
        lent_bytes_max_ = bytes_max;
    }
    // After this, one follow() allocates nothing.
    void reserve_following() {
        if (following_.size() == following_.capacity()) following_.reserve(std::max<size_t>(16, 2 * following_.size()));
    }
    // Sends `exchange.value`, which stays valid until it is sent or dropped.
    void follow(Exchange& exchange) { following_.push_back(&exchange); }
    // Frees the lent buffer: the node answered, or the channel was destroyed.
    void take_back(Exchange& exchange);
    // The node did not READ the lent value. Unless the exchange is late, its value follows in chunks. False: no buffer
    // was lent.
    bool unlent(Exchange& exchange);
    // Number of values lent since the connection began.
    uint64_t values_lent() const { return values_lent_; }
    // Stops sending its value; if a part is unsent, the node receives `abandoned`.
    void stop_following(Exchange& exchange);

    // Frames without requests, such as pings.
    OutBuffer& small() { return small_; }
    // For such a frame behind all requests added so far. Up to `bytes` allocate nothing then.
    OutBuffer& behind_requests(size_t bytes) {
        building_.reserve(bytes);
        if (writer_.open()) writer_.end();
        return building_;
    }

    // The next requests are routed by the list of this epoch. Only a node that knows epochs gets it.
    void name_epoch(uint64_t epoch) {
        if (epoch == named_epoch_ || !knows_epochs_) [[likely]] return;
        protocol::append_epoch(behind_requests(sizeof(protocol::FrameHeader) + sizeof(protocol::EpochRecord)), epoch);
        named_epoch_ = epoch;
    }

    // Appends all frames that can leave now to `out`. Returns the number of frames of requests.
    uint32_t send(OutBuffer& out, uint64_t now_ns);
    bool requests_to_send() const { return !unsent_.empty(); }
    bool anything_to_send() const { return writer_.open() || !building_.empty() || !small_.empty(); }
    bool anything_follows() const { return !following_.empty(); }
    // Appends more of the following values to `out`, until 2 frames are there or still `unsent` in the transport.
    // False: added nothing.
    bool feed(OutBuffer& out, size_t unsent);

    uint64_t sent_ns(uint32_t frame) const { return frames_[frame].sent_ns; }
    bool was_sent(uint32_t frame) const { return frames_[frame].sent; }
    void answered(uint32_t frame);
    uint32_t frames_unanswered() const { return uint32_t(unanswered_.size()); }
    // Sequence of the oldest frame with open replies; without one, that of the next frame.
    uint64_t oldest_sequence() const { return unanswered_.empty() ? sequence_ + 1 : unanswered_.front(); }

  private:
    // Size of the largest request without its value, rounded up.
    static constexpr size_t request_bytes_most = 512;

    struct Frame {
        uint64_t sequence = 0;
        uint64_t sent_ns = 0;
        uint32_t requests = 0;  // not answered yet
        bool sent = false;
    };

    bool room_for(size_t bytes) const;
    bool begin_frame();
    Place place_of_current();
    bool lend_value(Exchange& exchange, OutBuffer& out);
    void feed_chunk(Exchange& exchange, OutBuffer& out);

    uint32_t frame_bytes_max_;
    uint32_t credits_;
    bool knows_epochs_;
    uint64_t named_epoch_ = 0;  // 0: none
    OutBuffer building_;
    OutBuffer small_;
    protocol::FrameWriter writer_;  // into building_
    size_t current_start_ = 0;      // start of the open frame in building_
    std::vector<Frame> frames_;         // this and the next three reserve credits_ entries at the start
    std::vector<uint32_t> free_;
    std::vector<uint32_t> unsent_;      // in building_
    std::vector<uint64_t> unanswered_;  // sequences, ascending
    std::vector<Exchange*> following_;
    fabric::BufferPool* lending_ = nullptr;
    uint64_t lent_bytes_max_ = 0, values_lent_ = 0;
    uint32_t current_ = 0;
    uint64_t sequence_ = 0;
};

template <class Op>
bool FramesOut::add(const Op& op, const protocol::RequestOptions& options, Place& place) {
    building_.reserve(sizeof(protocol::FrameHeader) + protocol::request_bytes(op, options));  // O4
    if (!writer_.open() && !begin_frame()) return false;
    if (!writer_.add(op, options)) {
        writer_.end();
        if (!begin_frame()) return false;
        const bool added = writer_.add(op, options);
        CHECK(added);  // an empty frame holds any request whose value need not follow
    }
    place = place_of_current();
    return true;
}

// RepliesIn: one connection's frames of replies and pieces of values, matched with the exchanges that they answer.
//
// A1  A reply is accepted only if it is the first to a request that was sent, and of its kind. Otherwise the connection
//     ends (reply_stranger).
// A2  A value in pieces is assembled here and passed on whole. Its memory is allocated when its first piece arrives.
//     All such values take at most large_bytes_max beyond one value; a value without room fails, and its pieces are
//     discarded.
// A3  Sinks are called from within; their new requests are only queued.
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
