// SPDX-License-Identifier: BSD-3-Clause
// Backend: executes a worker's operations in place of the embedded node. It may answer at once, or later and out of order; the
// engines put the replies into request order (daemon/reply_queue.h).
//
// One per worker, used by its thread only. Without one (Context::backend is null) engines call node::Node directly, with no
// virtual call.
//
// B1  An operation, its key and its value are borrowed until ask() returns. The key's hash is not set.
// B2  A ticket whose ask() returned `later` or `crowded` is answered exactly once, within a bounded time, by
//     ReplyPool::answer() or unavailable(): perhaps before ask() returns, never after ~Backend().
// B3  Operations of one worker on one key take effect in the order of their ask() calls. A get is not answered at once while an
//     earlier operation that could change its answer is unanswered.
// B4  An immediate answer is in `now`, and the ticket is void.
// B5  Mutations are never sent twice. If one is unavailable, its outcome is unknown.
#pragma once

#include <cstdint>
#include <span>

#include "base/function_ref.h"
#include "protocol/frame_request.h"
#include "protocol/op.h"

namespace farcached::daemon {

enum class Ticket : uint64_t {};

enum class Asked : uint8_t {
    now,      // `now` is the answer
    later,    // the ticket will be answered
    crowded,  // as later; and this client submits nothing more until then: its node is behind
};

// The parts of an item that a get needs.
struct Wanted {
    bool value = true;
    bool plain = false;  // nothing is wanted but value, client flags and cas, of an item without tokens: a
                         // one-sided read may answer
};

class Backend {
  public:
    virtual ~Backend() = default;

    // Called at most once, before ask() returns, as by node::Node::get(): for a hit answered at once, or for one whose checks
    // then fail. The caller undoes the latter's output.
    using ValueSink = FunctionRef<char*(const protocol::ItemMeta&)>;
    virtual Asked ask(const protocol::GetOp& op, Wanted wanted, Ticket ticket, ValueSink value,
                      protocol::GetReply& now) = 0;
    virtual Asked ask(const protocol::StoreOp& op, Ticket ticket, protocol::StoreReply& now) = 0;
    virtual Asked ask(const protocol::DeleteOp& op, Ticket ticket, protocol::DeleteReply& now) = 0;
    virtual Asked ask(const protocol::ArithOp& op, Ticket ticket, protocol::ArithReply& now) = 0;
    virtual Asked ask(const protocol::ForgetOp& op, Ticket ticket) = 0;
    // Answered once all nodes have done it.
    virtual Asked ask(const protocol::FlushOp& op, Ticket ticket) = 0;
    // Statistics of the named node, or of all if the name is empty. The answer is a StatsReply. Its value has for each node,
    // in configured order, a line "NAME BYTES\n" and so many bytes of text, lines "name value\n". "NAME -\n" stands for a
    // node that did not answer. An unknown name yields an empty value.
    virtual Asked ask(const protocol::StatsOp& op, std::string_view node, Ticket ticket) = 0;

    // Gets of these keys follow: their reads of mapped memory, a node's or the pointer table, may be prefetched. It affects no
    // answer.
    virtual void expect(std::span<const protocol::Key>) {}
    // True: an item of this size is refused as too large.
    virtual bool too_large(size_t key_bytes, uint64_t value_bytes) const = 0;
    // Accesses that the nodes did not see are sent no later than the next request or answer.
    virtual void record_accesses() {}
    // The end of a tick with possible requests: sends them.
    virtual void end_tick() = 0;
};

}  // namespace farcached::daemon
