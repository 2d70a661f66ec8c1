// SPDX-License-Identifier: BSD-3-Clause
// Replies of a frame: those of protocol/op.h one to one, each with the tag of its request. A hit's
// value follows its head, so that a sender can gather it from elsewhere and a receiver copy it to
// the client's reply. Replies to one frame of requests may come in any order and in several frames;
// each request gets one.
//
// Every frame of replies opens with the node's clock. A proxy that sent the requests at s and reads
// the clock c at r knows: at any t >= r it has not passed c + 1 + (t - s) on the node, rounded up
// (S13); where the fraction is told, c with it and a microsecond in place of c + 1.
//
// Q1  What next() hands out is consistent: a value is as long as its item, a grant is for an item
//     that can be.
// Q2  Whether a grant lies in its region is not known here: grant_fits() says so, to be asked
//     before the pointer is kept (S9).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "base/node_clock.h"
#include "protocol/frame.h"
#include "protocol/frame_request.h"
#include "protocol/layout.h"
#include "protocol/op.h"
#include "protocol/wire.h"

namespace farcached::protocol {

// forget and flush: it is done.
struct DoneReply {};

// The text is the value.
struct StatsReply {};

//        name             help
#define REQUEST_REFUSALS(X)                                       \
    X(stats_unknown, "there is no such group of statistics")      \
    X(stopping, "the node stops")                                 \
    X(no_memory, "the node has no memory for the request itself") \
    X(abandoned, "the proxy gave the request's value up")

enum class RequestRefusal : uint8_t {
#define X(name, help) name,
    REQUEST_REFUSALS(X)
#undef X
        count
};
std::string_view request_refusal_name(RequestRefusal reason);

// The request was understood and not executed.
struct RefusedReply {
    RequestRefusal reason = RequestRefusal::stopping;
};

using ReplyOp = std::variant<GetReply, StoreReply, DeleteReply, ArithReply, DoneReply, StatsReply,
                             RefusedReply>;

inline bool grant_fits(const Grant& grant, uint64_t region_bytes) {
    return grant.length <= region_bytes && grant.offset <= region_bytes - grant.length;
}

enum class ValueForm : uint8_t {
    none,  // the reply has no value, or leaves it out
    here,
    follows,  // in chunks
};

// ---- writing ----------------------------------------------------------------------------------------

// What is sent beside a reply.
struct ReplyOptions {
    uint32_t tag = 0;
    ValueForm value = ValueForm::none;  // of a hit and of statistics
    std::optional<Grant> grant;         // hit, stored
    bool grant_room = false;            // leave room for a grant although there is none (yet)

    bool has_grant_record() const { return grant.has_value() || grant_room; }
};

// The head is all but the value. A hit's depends on grant_record only, so that its value can be
// copied in place before the reply is known in full.
constexpr size_t hit_head_bytes(bool grant_record) {
    return sizeof(ReplyHeader) + sizeof(MetaRecord) + (grant_record ? sizeof(GrantRecord) : 0);
}
size_t reply_head_bytes(const GetReply& reply, const ReplyOptions& options);
size_t reply_head_bytes(const StoreReply& reply, const ReplyOptions& options);
size_t reply_head_bytes(const DeleteReply& reply, const ReplyOptions& options);
size_t reply_head_bytes(const ArithReply& reply, const ReplyOptions& options);
size_t reply_head_bytes(const DoneReply& reply, const ReplyOptions& options);
size_t reply_head_bytes(const StatsReply& reply, const ReplyOptions& options);
size_t reply_head_bytes(const RefusedReply& reply, const ReplyOptions& options);

// Write exactly reply_head_bytes(reply, options) at `to`; return the end. The value, when it is
// `here`, comes directly behind. A get's meta is sent with a hit only.
char* write_reply_head(char* to, const GetReply& reply, const ReplyOptions& options);
char* write_reply_head(char* to, const StoreReply& reply, const ReplyOptions& options);
char* write_reply_head(char* to, const DeleteReply& reply, const ReplyOptions& options);
char* write_reply_head(char* to, const ArithReply& reply, const ReplyOptions& options);
char* write_reply_head(char* to, const DoneReply& reply, const ReplyOptions& options);
char* write_reply_head(char* to, const RefusedReply& reply, const ReplyOptions& options);
// text_bytes: of the text, which is here or follows; none at all is ValueForm::none.
char* write_stats_head(char* to, uint32_t text_bytes, const ReplyOptions& options);

// ---- reading ----------------------------------------------------------------------------------------

struct NodeReply {
    uint32_t tag = 0;
    ValueForm form = ValueForm::none;
    uint32_t value_bytes = 0;  // here or in chunks
    std::string_view value;    // when it is here
    std::optional<Grant> grant;
    ReplyOp op;
};

// Over the replies of one frame, which outlives it. Views point into the frame's body.
class ReplyReader {
  public:
    ReplyReader(const Frame& frame, const FrameLimits& limits);

    const NodeReading& now() const { return now_; }  // the node's clock

    FrameStep next(NodeReply& reply);
    FrameError error() const { return error_; }

  private:
    FrameError read(NodeReply& reply);

    wire::Cursor at_;
    uint64_t value_bytes_max_;
    uint32_t left_;
    NodeReading now_;
    FrameError error_ = FrameError::none;
};

}  // namespace farcached::protocol
