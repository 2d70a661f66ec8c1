// SPDX-License-Identifier: BSD-3-Clause
// FramesOut: one connection's frames of requests, from the first request written to the last answer. It also sends the
// large values that follow requests, in pieces or lent.
//
// Owner: a NodeLink, one per connection. Requests are written into a buffer of this object; send() passes whole frames
// to the channel after it noted the time.
// O1  sent_ns() of a frame is a moment before its first byte could leave (S3).
// O2  The number of unanswered frames never exceeds the node's credits. A frame counts until the reply to its last
//     request arrived, with all pieces.
// O3  A value's pieces leave in order, behind the frame that announced it. They stay at most two frames ahead of the
//     transport, so that a small request waits behind no more. If a buffer is free, the value is copied there for the
//     node to READ, and one frame announces the buffer instead.
// O4  If add() finds no memory, it throws and changes nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/out_buffer.h"
#include "fabric/buffer_pool.h"
#include "protocol/frame_writer.h"
#include "proxy/exchange.h"

namespace farcached::proxy {

class FramesOut {
  public:
    FramesOut(uint32_t frame_bytes_max, uint32_t credits);
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

}  // namespace farcached::proxy
