// SPDX-License-Identifier: BSD-3-Clause
// Writers of frames with entries, into an OutBuffer. While a frame is open, only its writer appends to the OutBuffer.
// Owner: the owner of the OutBuffer, in its thread.
//
// W1  No frame is longer than frame_bytes_max.
// W2  The bytes in the OutBuffer are a frame only after end().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/out_buffer.h"
#include "protocol/frame.h"
#include "protocol/frame_reply.h"
#include "protocol/frame_request.h"
#include "protocol/wire.h"

namespace farcached::protocol {

class FrameWriter {
  public:
    // `out` outlives this.
    FrameWriter(OutBuffer& out, uint32_t frame_bytes_max)
        : out_(out), frame_bytes_max_(frame_bytes_max) {
        CHECK(frame_bytes_max >= frame_bytes_lowest);
        CHECK(frame_bytes_max <= frame_bytes_highest);
    }

    // kind: requests, lease_returns, accesses or report.
    void begin(FrameKind kind, uint64_t sequence);
    void begin_replies(uint64_t sequence, const NodeReading& now);
    bool open() const { return open_; }
    uint16_t count() const { return header_.count; }

    // Room for one more entry; nullptr: the frame is full. Write and commit it before the next call.
    char* room(size_t bytes);
    void commit(size_t bytes);

    // Adds one more request; false: the frame is full, end it and begin another.
    template <class Op>
    bool add(const Op& op, const RequestOptions& options) {
        const size_t bytes = request_bytes(op, options);
        char* to = room(bytes);
        if (to == nullptr) return false;
        write_request(to, op, options);
        commit(bytes);
        return true;
    }
    bool add(const LeaseReturnRecord& entry) { return add_record(entry); }
    bool add(const ItemAccess& entry) { return add_record(record_of(entry)); }

    // Completes the frame, which has at least one entry.
    void end();

  private:
    template <class Record>
    bool add_record(const Record& entry) {
        char* to = room(sizeof entry);
        if (to == nullptr) return false;
        wire::put(to, entry);
        commit(sizeof entry);
        return true;
    }

    OutBuffer& out_;
    uint32_t frame_bytes_max_;
    bool open_ = false;
    size_t start_ = 0;  // of the frame in out_
    FrameHeader header_{};
};

// Must the value of this request follow in chunks, even in an empty frame?
inline bool must_follow(const StoreOp& op, uint32_t frame_bytes_max) {
    return sizeof(FrameHeader) + request_head_bytes(op) + op.value.size() > frame_bytes_max;
}

// The replies to one frame of requests: begins frames as they fill.
class ReplyWriter {
  public:
    // now: the node's clock, read after the requests had arrived, as in append_pong().
    ReplyWriter(OutBuffer& out, uint32_t frame_bytes_max, uint64_t sequence, const NodeReading& now)
        : frame_(out, frame_bytes_max),
          frame_bytes_max_(frame_bytes_max),
          sequence_(sequence),
          now_(now) {}

    // Must the value of a reply with such a head follow in chunks?
    bool must_follow(size_t head_bytes, uint64_t value_bytes) const {
        return sizeof(FrameHeader) + clock_bytes(now_) + head_bytes + value_bytes > frame_bytes_max_;
    }

    // Room for one more reply that need not follow. Write and commit it before the next call.
    char* room(size_t bytes);
    void commit(size_t bytes) { frame_.commit(bytes); }

    // Adds one more reply. `value`: copied after it if options.value is `here`.
    template <class Reply>
    void add(const Reply& reply, const ReplyOptions& options, std::string_view value = {}) {
        const size_t head = reply_head_bytes(reply, options);
        const bool here = options.value == ValueForm::here;
        const size_t bytes = head + (here ? value.size() : 0);
        char* to = write_reply_head(room(bytes), reply, options);
        if (here) wire::put_bytes(to, value);
        commit(bytes);
    }
    // Adds the text, or, if it must follow, its announcement: the caller sends the chunks after end().
    void add_stats(uint32_t tag, std::string_view text);

    // Completes the last frame, if there is one.
    void end();

  private:
    FrameWriter frame_;
    uint32_t frame_bytes_max_;
    uint64_t sequence_;
    NodeReading now_;
};

}  // namespace farcached::protocol
