// SPDX-License-Identifier: BSD-3-Clause
// The interface between a worker and its links to nodes: requests, answers and failures.
//
// Times in operations and answers are this process's NodeSeconds; links convert them. A time before this process
// started becomes its start.
//
// Owner: of a ReplySink the part that asks. Threads: the link's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "protocol/frame_reply.h"
#include "protocol/frame_request.h"

namespace farcached::proxy {

// The identity of a request: its asker chooses it, and the answer brings it back. Only on the wire it has another name, the
// tag of its Exchange (proxy/exchange.h), because a tag must be small and free of meaning for the node.
enum class Ticket : uint64_t {};

//        name          help
#define ASK_FAILURES(X)                                               \
    X(node_down, "the node is down, or went down before it answered") \
    X(timed_out, "the reply timed out")                               \
    X(refused, "the node refused to execute the request")             \
    X(bad_reply, "the node's reply was invalid")                      \
    X(no_memory, "out of memory for the value")

enum class AskFailure : uint8_t {
#define X(name, help) name,
    ASK_FAILURES(X)
#undef X
        count
};

constexpr std::string_view ask_failure_name(AskFailure why) {
    constexpr std::string_view names[] = {
#define X(name, help) #name,
        ASK_FAILURES(X)
#undef X
    };
    return names[size_t(why)];
}

struct Failed {
    AskFailure why = AskFailure::node_down;
    std::optional<protocol::RequestRefusal> refusal;  // for `refused`
};

struct Answer {
    const protocol::ReplyOp& op;  // of the request's kind; never a RefusedReply
    std::string_view value;       // for a hit with a value, and for statistics; valid during the call
    bool one_sided = false;       // `op` then has only cas, flags, exptime (a lower bound) and lengths
    bool by_index = false;        // one_sided by the index, not by a remote pointer
    // The value's bytes when they arrived in pieces; the sink may take them.
    std::unique_ptr<char[]> owned;
};

// Receives exactly one call for each accepted request, from within the link's ready(), flush(), tick() or stop(). It
// may send new requests from that call. It outlives its requests, or Requests::forget_sink() detaches it first.
class ReplySink {
  public:
    virtual ~ReplySink() = default;
    virtual void answered(Ticket ticket, Answer& answer) = 0;
    // The outcome of a failed mutation is unknown, unless its node refused it.
    virtual void failed(Ticket ticket, const Failed& failed) = 0;
};

struct AskOptions {
    Ticket ticket{};
    // One number per client session of this worker. Requests of one session take effect in order (K3).
    uint64_t session = 0;
    uint64_t deadline_ns = 0;  // CLOCK_BOOTTIME
    // The node's replies to earlier requests extend the deadline to this long after the last of them (K6); 0: never.
    uint64_t patience_ns = 0;
    bool no_value = false;     // get: the answer may omit the value
    // get: the request needs only key, value, flags and cas, so a one-sided read may answer it.
    bool one_sided = false;
    uint64_t epoch = 0;  // as in protocol::EpochRecord
    bool moved = false;  // for the caller: an earlier set of nodes gave the key another node
    // store: owns op.value's bytes. Required if Requests::value_follows(op).
    std::shared_ptr<const void> value;
};

// The deadline, given that the node last answered in order at progress_ns.
inline uint64_t put_off(uint64_t deadline_ns, uint64_t patience_ns, uint64_t progress_ns) {
    return patience_ns == 0 ? deadline_ns : std::max(deadline_ns, progress_ns + patience_ns);
}

enum class AskResult : uint8_t {
    accepted,  // the answer follows
    busy,      // no room now; LinkEvents::room() signals when to try again
    ordered,   // as busy, but for this session only: its later requests wait behind this one
    down,      // no connection to the node
};

}  // namespace farcached::proxy
