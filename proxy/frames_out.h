// SPDX-License-Identifier: BSD-3-Clause
// FramesOut: the frames of requests of one connection, from the first request in them to the last answer to them,
// and large values that follow, in pieces or lent.
//
// Owner: a NodeLink, one per connection. Requests are written into memory of its own and handed to the channel as
// whole frames by send(), so that nothing leaves before its time is noted.
// O1  sent_ns() of a frame is a moment before its first byte could leave (S3).
// O2  No more frames are unanswered than the node gave credits for; a frame counts until its last request's reply
//     has come, pieces and all.
// O3  A value's pieces go out in order, behind the frame that announced it, and no further ahead of the transport
//     than two frames: a small request never waits behind more.
//     A value for which there is a buffer is copied there for the node to READ, and told of in one frame instead.
// O4  add() that finds no memory throws, and has done nothing.
#pragma once

#include <cstdint>
#include <deque>
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
    // Could any request without a large value be added?
    bool room() const { return room_for(request_bytes_most); }

    // Adds one request; false: there is no credit for the frame that it would need.
    // On success `place` is where: the exchange keeps it.
    struct Place {
        uint64_t sequence = 0;
        uint32_t frame = 0;
    };
    template <class Op>
    bool add(const Op& op, const protocol::RequestOptions& options, Place& place);
    // Values of up to so many bytes are lent, in buffers of the pool, which outlives this.
    void lend(fabric::BufferPool& pool, uint64_t bytes_max) {
        lending_ = &pool;
        lent_bytes_max_ = bytes_max;
    }
    // `exchange.value` follows; it stays there until it was sent or dropped.
    void follow(Exchange& exchange) { following_.push_back(&exchange); }
    // What it lent is nobody's any more: the node has answered, or the channel was destroyed.
    void take_back(Exchange& exchange);
    // The node does not READ what was lent. Unless the exchange is late, its value follows in chunks. False: nothing was
    // lent.
    bool unlent(Exchange& exchange);
    // Of values that were lent, from this connection's beginning.
    uint64_t values_lent() const { return values_lent_; }
    // No more of its value is sent; the node is told if it knew of it.
    void stop_following(Exchange& exchange);

    // Frames of no requests: pings and the like.
    OutBuffer& small() { return small_; }

    // Everything that can go now, to the end of `out`. Returns the number of frames of requests.
    uint32_t send(OutBuffer& out, uint64_t now_ns);
    bool requests_to_send() const { return !unsent_.empty(); }
    bool anything_to_send() const { return writer_.open() || !building_.empty() || !small_.empty(); }
    bool anything_follows() const { return !following_.empty(); }
    // More of the values that follow, to the end of `out`, while less than 2 frames are there or were taken from there
    // and are `unsent`. False: nothing was added.
    bool feed(OutBuffer& out, size_t unsent);

    uint64_t sent_ns(uint32_t frame) const { return frames_[frame].sent_ns; }
    bool was_sent(uint32_t frame) const { return frames_[frame].sent; }
    void answered(uint32_t frame);
    uint32_t frames_unanswered() const { return uint32_t(unanswered_.size()); }
    // Of the frames that are not answered wholly; that of the next one if there are none.
    uint64_t oldest_sequence() const { return unanswered_.empty() ? sequence_ + 1 : unanswered_.front(); }

  private:
    // Head of the largest request, rounded up.
    static constexpr size_t request_bytes_most = 512;

    struct Frame {
        uint64_t sequence = 0;
        uint64_t sent_ns = 0;
        uint32_t requests = 0;  // not answered
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
    size_t current_start_ = 0;      // in building_, of the open frame
    std::vector<Frame> frames_;         // in this and the next three there is room for credits_ from the start
    std::vector<uint32_t> free_;
    std::vector<uint32_t> unsent_;      // in building_
    std::vector<uint64_t> unanswered_;  // sequences, ascending
    std::deque<Exchange*> following_;
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
