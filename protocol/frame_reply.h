// SPDX-License-Identifier: BSD-3-Clause
// Replies of a frame: those of protocol/op.h one to one, each with the tag of its request. A hit's value follows its
// head, so that a sender can gather it from elsewhere and a receiver copy it to the client's reply. Replies to one frame
// of requests may come in any order and in several frames; each request gets one.
//
// Every frame of replies opens with the node's clock. A proxy sends the requests at s and reads the clock c at r. At any
// t >= r the node's clock has not passed c + 1 + (t - s), rounded up (S13). If the frame has the fraction, c includes it,
// and a microsecond replaces the 1.
//
// Pure. Owner: of a ReplyReader the caller; one thread.
//
// Q1  next() returns consistent replies: a value is as long as its item, and a grant describes a possible item.
// Q2  The reader does not know the regions: call grant_fits() before keeping a pointer (S9).
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

// For forget and flush.
struct DoneReply {
    bool done = true;  // false: the node in this process could not delete by prefix; others reply RefusedReply
};

// The text is the value.
struct StatsReply {};

//        name             help
#define REQUEST_REFUSALS(X)                                       \
    X(stats_unknown, "there is no such group of statistics")      \
    X(stopping, "the node stops")                                 \
    X(no_memory, "the node has no memory for the request itself") \
    X(abandoned, "the proxy gave the request's value up")         \
    X(not_allowed, "the key of the proxy does not allow it")      \
    X(no_right, "the node is not registered in etcd")             \
    X(old_list, "the proxy has an old list of nodes")

enum class RequestRefusal : uint8_t {
#define X(name, help) name,
    REQUEST_REFUSALS(X)
#undef X
        count
};
inline constexpr EnumText request_refusal_texts[] = {
#define X(name, help) {#name, help},
    REQUEST_REFUSALS(X)
#undef X
};
constexpr std::string_view request_refusal_name(RequestRefusal value) { return text_of(request_refusal_texts, value).name; }

// The node parsed the request but did not execute it.
struct RefusedReply {
    RequestRefusal reason = RequestRefusal::stopping;
};

using ReplyOp = std::variant<GetReply, StoreReply, DeleteReply, ArithReply, DoneReply, StatsReply,
                             RefusedReply>;

// For a grant of the replying node's own memory.
inline bool grant_fits(const Grant& grant, uint64_t region_bytes) {
    return grant.capacity <= region_bytes && grant.offset <= region_bytes - grant.capacity;
}

enum class ValueForm : uint8_t {
    none,  // the reply has no value, or leaves it out
    here,
    follows,  // in chunks
};

// ---- writing ----------------------------------------------------------------------------------------

// Fields sent beside a reply.
struct ReplyOptions {
    uint32_t tag = 0;
    ValueForm value = ValueForm::none;  // of a hit and of statistics
    std::optional<Grant> grant;         // of a hit, a stored item, or a changed number; of another node's memory: of a get's hit
    LeaseDenial denied = LeaseDenial::none;  // why the grant is missing
    bool grant_room = false;            // leave room for a grant that is missing (yet)

    bool has_grant_record() const { return grant.has_value() || grant_room; }
    bool elsewhere() const { return grant.has_value() && grant->incarnation != 0; }
};

// The head is all but the value. A hit's size depends on these two only, so that its value can be copied in place before the
// reply is complete.
// elsewhere: the grant is of another node's memory; only from version_with_spilled on.
constexpr size_t hit_head_bytes(bool grant_record, bool elsewhere = false) {
    return sizeof(ReplyHeader) + sizeof(MetaRecord) + (grant_record ? sizeof(GrantRecord) : 0) +
           (elsewhere ? sizeof(Grant::incarnation) : 0);
}
size_t reply_head_bytes(const GetReply& reply, const ReplyOptions& options);
size_t reply_head_bytes(const StoreReply& reply, const ReplyOptions& options);
size_t reply_head_bytes(const DeleteReply& reply, const ReplyOptions& options);
size_t reply_head_bytes(const ArithReply& reply, const ReplyOptions& options);
size_t reply_head_bytes(const DoneReply& reply, const ReplyOptions& options);
size_t reply_head_bytes(const StatsReply& reply, const ReplyOptions& options);
size_t reply_head_bytes(const RefusedReply& reply, const ReplyOptions& options);

// Write exactly reply_head_bytes(reply, options) at `to`; return the end. A value that is `here` follows directly. A get's
// meta is sent with a hit only.
char* write_reply_head(char* to, const GetReply& reply, const ReplyOptions& options);
char* write_reply_head(char* to, const StoreReply& reply, const ReplyOptions& options);
char* write_reply_head(char* to, const DeleteReply& reply, const ReplyOptions& options);
char* write_reply_head(char* to, const ArithReply& reply, const ReplyOptions& options);
char* write_reply_head(char* to, const DoneReply& reply, const ReplyOptions& options);
char* write_reply_head(char* to, const RefusedReply& reply, const ReplyOptions& options);
// text_bytes: of the text, which is here or follows; an empty text is ValueForm::none.
char* write_stats_head(char* to, uint32_t text_bytes, const ReplyOptions& options);

// ---- reading ----------------------------------------------------------------------------------------

struct NodeReply {
    uint32_t tag = 0;
    ValueForm form = ValueForm::none;
    uint32_t value_bytes = 0;  // here or in chunks
    std::string_view value;    // when it is here
    std::optional<Grant> grant;
    LeaseDenial denied = LeaseDenial::none;  // why a wanted grant is missing
    ReplyOp op;
};

// Over the replies of one frame, which outlives it. Views point into the frame's body.
class ReplyReader : public EntryReader {
  public:
    ReplyReader(const Frame& frame, const FrameLimits& limits);

    const NodeReading& now() const { return now_; }  // the node's

    FrameStep next(NodeReply& reply);

  private:
    FrameError read(NodeReply& reply);

    NodeReading now_;
};

}  // namespace farcached::protocol
