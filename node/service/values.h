// SPDX-License-Identifier: BSD-3-Clause
// ReceivedValues: values that arrive behind their requests, in pieces or by READ. SentValues: values and texts that leave
// behind their replies, in pieces. StreamBytes: a connection's half frames and unsent replies. All charge the budget.
//
// Owner: a connection's Execution (execution.h); of StreamBytes its NodeService. The connection's thread.
//
// V1  A value in pieces never delays other frames by more than one piece, in either direction.
// V2  ServiceLimits bounds memory: at most incoming_values_max values are announced, and they get incoming_bytes_max. Parsing
//     stops while SentValues says so.
// V3  The process's budget (ousting.h) counts all bytes held here. A value that the budget refuses is not stored, or not
//     sent.
// V4  A lent value is complete when it was READ and matches its announcement; without a buffer for it, the node requests it in
//     pieces.
// V5  Each announced value ends once, by Ended, or with the connection.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/function_ref.h"
#include "base/limits.h"
#include "node/service/connection.h"
#include "protocol/frame_reply.h"
#include "protocol/frame_request.h"

namespace farcached::node {

// A request of a connection: the sequence of its frame, and its tag there.
struct RequestId {
    uint64_t sequence;
    uint32_t tag;
    auto operator<=>(const RequestId&) const = default;
};

class ReceivedValues {
  public:
    explicit ReceivedValues(const Connection& connection) : connection_(connection) {}
    ~ReceivedValues();

    enum class Announced : uint8_t {
        waits,
        too_many,     // values: the connection ends
        repeated,     // that id is announced: a protocol violation
        over_budget,  // the connection is ousted
    };
    Announced announce(const RequestId& id, const protocol::NodeRequest& request, bool lease);

    // The value is complete, abandoned or no longer needed; called once for each announced value.
    struct Ended {
        enum class How : uint8_t { abandoned, too_large, refused, whole } how;
        protocol::RequestRefusal refusal;  // if refused
        const protocol::StoreOp& op;       // with key and value if whole
        uint64_t epoch;                    // Connection::epoch at the announcement
    };
    using Over = FunctionRef<void(const RequestId&, const Ended&)>;
    // What a frame, or the completion of a READ, brings. An error: a protocol violation.
    protocol::FrameError chunk(const protocol::Frame& frame, Over over);
    protocol::FrameError lent(const protocol::Frame& frame, Over over);
    protocol::FrameError read_done(uint64_t token, fabric::ReadStatus status, Over over);
    // The connection ends. READs under way keep their buffers.
    void clear();

  private:
    // A value with its request.
    struct Incoming {
        std::string key;
        protocol::StoreOp op;  // without key and value
        bool admitted = false;  // false: already refused, its pieces are discarded
        protocol::RequestRefusal refusal = protocol::RequestRefusal::no_memory;  // if refused
        bool too_large = false;  // accepted, but the reply is too_large
        bool fetching = false;   // a READ is under way
        uint64_t since_ms = 0;   // time of the announcement
        uint64_t epoch = 0;
        uint64_t charged = 0;    // bytes of the value in the budget
        std::unique_ptr<char[]> value;  // allocated with the first piece
        protocol::ValueProgress progress;
    };
    using Incomings = std::map<RequestId, Incoming>;
    // A READ of a value; its buffer belongs to the channel until the completion, or until the channel is destroyed (S12).
    struct Fetch {
        RequestId id;
        uint64_t* landing;
        uint64_t check;
    };
    // Memory of an announced value without its bytes, key included.
    static constexpr uint64_t record_bytes = sizeof(Incomings::value_type) + limits::key_bytes_max + 128;

    bool fetch(Incomings::iterator found, const protocol::LentRecord& lent);
    void drop(Incoming& incoming);
    void uncharge(const Incoming& incoming);
    void end(Incomings::iterator found, bool abandoned, std::string_view value, Over over);

    const Connection& connection_;
    Incomings incoming_;
    uint64_t bytes_ = 0;  // of admitted values
    std::unordered_map<uint64_t, Fetch> fetches_;  // by token
    uint64_t next_fetch_ = 0;
};

class SentValues {
  public:
    explicit SentValues(const Connection& connection) : connection_(connection) {}

    struct Value {
        std::unique_ptr<char[]> bytes;  // nullptr: no memory, or no room in the budget
        uint64_t size = 0;
        uint64_t since_ms = 0;
    };
    // Memory to copy a value to; it is sent in any case.
    Value reserve(uint64_t bytes);
    // Its reply announces it.
    void send(const RequestId& id, Value value);
    // One more piece of a pending value, round-robin. Returns the sequence of a value that is now sent.
    std::optional<uint64_t> send_piece();
    bool empty() const { return outgoing_.empty(); }
    void clear();

    // V2: parsing may go on; one more piece may be sent.
    bool may_parse() const;
    bool may_send() const { return connection_.channel->out_pending() < out_mark(); }

  private:
    struct Outgoing {
        RequestId id;
        Value value;
        uint64_t sent = 0;
    };
    size_t out_mark() const;

    const Connection& connection_;
    std::deque<Outgoing> outgoing_;
    uint64_t bytes_ = 0;  // allocated, sent ones included
};

// Counted bytes of a stream: received and not consumed, or produced and not sent.
class StreamBytes {
  public:
    // bytes: held now. `moved`: bytes through the stream since the last call. ends: the connection ends, and takes no more.
    void hold(const Connection& connection, uint64_t bytes, uint64_t moved, bool ends);

  private:
    uint64_t bytes_ = 0, since_ms_ = 0;
    uint64_t moved_ = 0;  // through the stream since then
};

}  // namespace farcached::node
