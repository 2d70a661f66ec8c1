// SPDX-License-Identifier: BSD-3-Clause
// What a worker and its links to nodes say to one another: how something is asked, and how it is answered.
//
// Times in operations and answers are this process's NodeSeconds; links convert them. What lies before this process
// was started reads as its start.
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

//        name          help
#define ASK_FAILURES(X)                                                                 \
    X(node_down, "the node is down, or went down before it answered")                   \
    X(timed_out, "the answer did not come in time")                                     \
    X(refused, "the node refused to execute the request")                               \
    X(bad_reply, "the node's answer was none that can be")                              \
    X(no_memory, "there was no memory for the value")

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
    std::optional<protocol::RequestRefusal> refusal;  // of `refused`
};

struct Answer {
    const protocol::ReplyOp& op;  // of the kind that was asked; never a RefusedReply
    std::string_view value;       // of a hit that brings one, and of statistics; valid during the call
    bool one_sided = false;       // of `op`, only cas, flags, exptime (a lower bound) and lengths are known
    bool by_index = false;        // then the index led the way, and no remote pointer
    // The value's bytes when they came in pieces; whoever wants to keep them may take them.
    std::unique_ptr<char[]> owned;
};

// Is told of each accepted request exactly once, by one of both, from within the link's ready(), flush(), tick() or
// stop(). It may ask again at once. It outlives its requests, or is forgotten (NodeLink::forget_sink) before.
class ReplySink {
  public:
    virtual ~ReplySink() = default;
    virtual void answered(uint64_t cookie, Answer& answer) = 0;
    // Whether a mutation that failed was carried out is not known, unless its node refused it.
    virtual void failed(uint64_t cookie, const Failed& failed) = 0;
};

struct AskOptions {
    uint64_t cookie = 0;       // the asker's own
    uint64_t deadline_ns = 0;  // CLOCK_BOOTTIME
    // The deadline is no earlier than so long after the node answered something that was asked before (K6); 0: it stands.
    uint64_t patience_ns = 0;
    bool no_value = false;     // get: the answer need not bring the value
    // get: nothing is asked but key, value, flags and cas, so that a one-sided read may answer.
    bool one_sided = false;
    // store: keeps op.value's bytes alive. Needed if NodeLink::value_follows(op).
    std::shared_ptr<const void> value;
};

// A deadline as it is when the node answered last, in order, at progress_ns.
inline uint64_t put_off(uint64_t deadline_ns, uint64_t patience_ns, uint64_t progress_ns) {
    return patience_ns == 0 ? deadline_ns : std::max(deadline_ns, progress_ns + patience_ns);
}

enum class Asked : uint8_t {
    accepted,  // its answer follows
    busy,      // not now: LinkEvents::room() says when to try again
    down,      // the node is not there
};

}  // namespace farcached::proxy
