// SPDX-License-Identifier: BSD-3-Clause
// Execution::Turn: a sequence of requests of one frame, with their replies. For the sources of Execution only.
//
// Owner: a call of Execution. One thread.
#pragma once

#include <cstdint>
#include <optional>

#include "base/node_clock.h"
#include "node/service/execution.h"
#include "protocol/frame_writer.h"
#include "protocol/op.h"

namespace farcached::node {

inline protocol::ReplyOptions reply_to(uint32_t tag) {
    protocol::ReplyOptions options;
    options.tag = tag;
    return options;
}

struct Execution::Turn {
    uint64_t sequence;
    NodeSeconds now;
    protocol::ReplyWriter replies;
    Verdict verdict;
    std::optional<uint32_t> right_ms;  // as the replies tell it
    uint64_t epoch = 0;                // of the list by which the proxy chose this node
    bool serves = true;                // of requests with keys, and flushes (S17)

    // A proxy that gets a grant knows of rights, or there are none (Greeting::ignores_right()).
    bool may_grant() const { return right_ms != 0; }
    // The node's decision on a lease.
    void grant(protocol::ReplyOptions& with, const std::optional<protocol::Grant>& granted, protocol::LeaseDenial denied) const {
        with.denied = denied;
        if (may_grant()) with.grant = granted;
    }
    template <class Reply>
    protocol::ReplyOptions reply_to(uint32_t tag, const Reply& reply) const {
        protocol::ReplyOptions options = node::reply_to(tag);
        grant(options, reply.grant, reply.denied);
        return options;
    }
};

}  // namespace farcached::node
