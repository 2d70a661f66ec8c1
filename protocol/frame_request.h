// SPDX-License-Identifier: BSD-3-Clause
// Requests of a frame: the operations of protocol/op.h one to one, and a proxy's other requests to a node.
//
// The key's hash is not sent: a parsed request has hash 0, and the node hashes with its own seed. Times are on the node's
// clock.
//
// Pure. Owner: of a RequestReader the caller; one thread.
//
// R1  next() returns requests that a node can rely on: keys of 1 to key_bytes_max bytes, a cas with a number to compare
//     with, a known mode, only the flags of the operation.
// R2  value_bytes announces a value that follows in chunks; `value` of its StoreOp is empty until then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "base/node_clock.h"
#include "protocol/frame.h"
#include "protocol/op.h"
#include "protocol/wire.h"

namespace farcached::protocol {

// Removes the old item after a set whose value was refused unread (node::Node::forget).
struct ForgetOp {
    Key key;
};

// Of FlushOp::kept, which is in one frame with its request: at most this, and what the agreed frames can hold.
constexpr size_t kept_bytes_max = 32 * 1024;

// flush_all, at once or at a later moment; or an immediate delete of some items, without `at`.
struct FlushOp {
    std::optional<NodeSeconds> at;
    std::string_view prefix = {};  // empty: all items; else 1 to key_bytes_max bytes: those whose keys begin with it
    std::string_view kept = {};    // not empty: those that these KeptKeys do not keep; at most kept_bytes_max bytes
};

// The statistics of a group, as text; the empty name is the general one.
struct StatsOp {
    std::string_view group;
};

// Of the copies of items (replicas). The reply is a StatsReply; to next_keys, with a list of keys (protocol/key_list.h).
struct CopiesOp {
    enum class What : uint8_t {
        next_keys,   // of a pass over the node's items (node/service/key_pass.h)
        begin_pass,  // the list of nodes has changed
        close,       // a flush follows: until `open`, for closed_s at most, the node stores no copy and no item of another one
        open
    };
    static constexpr uint32_t closed_s = 15;

    What what = What::next_keys;
    uint32_t name = 0;  // of close: `open` with the same one ends it; 0: of a proxy before version_with_moved
};

using RequestOp = std::variant<GetOp, StoreOp, DeleteOp, ArithOp, ForgetOp, FlushOp, StatsOp, HoldOp, CopiesOp>;

// Fields sent beside an operation.
struct RequestOptions {
    uint32_t tag = 0;
    bool no_value = false;       // get: the reply may leave the value out
    bool want_grant = false;     // get, store, arith: the reply may have pointer and lease
    bool value_follows = false;  // store: only the value's length is sent, the bytes follow in chunks
};

struct NodeRequest {
    RequestOptions options;
    uint32_t value_bytes = 0;  // store: of its value, here or in chunks
    RequestOp op;
};

// ---- writing ----------------------------------------------------------------------------------------
//
// The head is all but the value of a store. A key or a value that the protocols refuse is our own bug (CHECK).

size_t request_head_bytes(const GetOp& op);
size_t request_head_bytes(const StoreOp& op);
size_t request_head_bytes(const DeleteOp& op);
size_t request_head_bytes(const ArithOp& op);
size_t request_head_bytes(const ForgetOp& op);
size_t request_head_bytes(const FlushOp& op);
size_t request_head_bytes(const StatsOp& op);
size_t request_head_bytes(const HoldOp& op);
size_t request_head_bytes(const CopiesOp& op);

// Write exactly request_head_bytes(op) at `to`; return the end.
char* write_request_head(char* to, const GetOp& op, const RequestOptions& options);
char* write_request_head(char* to, const StoreOp& op, const RequestOptions& options);
char* write_request_head(char* to, const DeleteOp& op, const RequestOptions& options);
char* write_request_head(char* to, const ArithOp& op, const RequestOptions& options);
char* write_request_head(char* to, const ForgetOp& op, const RequestOptions& options);
char* write_request_head(char* to, const FlushOp& op, const RequestOptions& options);
char* write_request_head(char* to, const StatsOp& op, const RequestOptions& options);
char* write_request_head(char* to, const HoldOp& op, const RequestOptions& options);
char* write_request_head(char* to, const CopiesOp& op, const RequestOptions& options);

// The whole request, with a store's value unless it follows.
template <class Op>
size_t request_bytes(const Op& op, const RequestOptions&) {
    return request_head_bytes(op);
}
inline size_t request_bytes(const StoreOp& op, const RequestOptions& options) {
    return request_head_bytes(op) + (options.value_follows ? 0 : op.value.size());
}

template <class Op>
char* write_request(char* to, const Op& op, const RequestOptions& options) {
    return write_request_head(to, op, options);
}
inline char* write_request(char* to, const StoreOp& op, const RequestOptions& options) {
    to = write_request_head(to, op, options);
    return options.value_follows ? to : wire::put_bytes(to, op.value);
}

// ---- reading ----------------------------------------------------------------------------------------

enum class FrameStep : uint8_t {
    entry,  // the next request or reply
    end,    // `count` entries were read, and no byte is left
    bad,    // error() has the cause
};

// The common part of the readers of requests and of replies.
class EntryReader {
  public:
    FrameError error() const { return error_; }

  protected:
    EntryReader(const Frame& frame, const FrameLimits& limits)
        : at_(frame.body), value_bytes_max_(limits.value_bytes_max), version_(limits.version), left_(frame.count) {}

    // read(): the next entry.
    template <class Read>
    FrameStep step(Read read) {
        if (error_ == FrameError::none && left_ == 0) {
            if (at_.left() == 0) return FrameStep::end;
            error_ = FrameError::body_excess;
        }
        if (error_ == FrameError::none) error_ = read();
        if (error_ != FrameError::none) return FrameStep::bad;
        left_--;
        return FrameStep::entry;
    }

    wire::Cursor at_;
    uint64_t value_bytes_max_;
    uint32_t version_;
    uint32_t left_;
    FrameError error_ = FrameError::none;
};

// Over the requests of one frame, which outlives it. Views point into the frame's body.
class RequestReader : public EntryReader {
  public:
    RequestReader(const Frame& frame, const FrameLimits& limits);

    FrameStep next(NodeRequest& request);
    // Bytes of the frame's body after the last request read, and the number of requests in them. A caller that stops in
    // the middle continues with a reader over a frame of just these.
    size_t bytes_left() const { return at_.left(); }
    uint16_t requests_left() const { return uint16_t(left_); }

  private:
    FrameError read(NodeRequest& request);
};

}  // namespace farcached::protocol
