// SPDX-License-Identifier: BSD-3-Clause
// Backend: who executes what a worker's clients ask for when that is not the embedded node. It may answer at once,
// or later, and out of order; the engines put the replies into the order of the requests (daemon/reply_queue.h).
//
// One per worker, used by its thread only. A worker without one asks its node::Node directly, as engines do that see
// Context::backend is null: no virtual call is on that way.
//
// B1  An operation, its key and its value are borrowed until ask() returns. The key's hash is not set.
// B2  A ticket whose ask() said `later` or `crowded` is answered exactly once, within a bounded time, by
//     ReplyPool::answer() or unavailable(): perhaps before ask() returns, never after ~Backend().
// B3  Operations of one worker on one key take effect in the order in which they were asked. Hence a get is not
//     answered at once while something that was asked before it, and could change its answer, is unanswered.
// B4  What is answered at once is in `now`, and the ticket is void.
// B5  Who answers a mutation as unavailable does not know, or say, that it was not carried out; it is never sent
//     twice.
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
    crowded,  // as later; and until then this client is to ask for nothing more: its node is behind
};

// What a get is to bring.
struct Wanted {
    bool value = true;
    bool plain = false;  // nothing is wanted but value, client flags and cas, of an item without tokens: a
                         // one-sided read may answer
};

class Backend {
  public:
    virtual ~Backend() = default;

    // Called at most once, before ask() returns, as node::Node::get() calls it: for a hit that is answered at once, or
    // for one that proves to be none. Then what it wrote is taken back.
    using ValueSink = FunctionRef<char*(const protocol::ItemMeta&)>;
    virtual Asked ask(const protocol::GetOp& op, Wanted wanted, Ticket ticket, ValueSink value,
                      protocol::GetReply& now) = 0;
    virtual Asked ask(const protocol::StoreOp& op, Ticket ticket, protocol::StoreReply& now) = 0;
    virtual Asked ask(const protocol::DeleteOp& op, Ticket ticket, protocol::DeleteReply& now) = 0;
    virtual Asked ask(const protocol::ArithOp& op, Ticket ticket, protocol::ArithReply& now) = 0;
    virtual Asked ask(const protocol::ForgetOp& op, Ticket ticket) = 0;
    // Done when it is done everywhere.
    virtual Asked ask(const protocol::FlushOp& op, Ticket ticket) = 0;
    // Statistics of the node of that name, or, with none, of all. Answered by a StatsReply whose value has for each
    // node, in the order in which they are configured, a line "NAME BYTES\n" and so many bytes of text, lines
    // "name value\n"; "NAME -\n" for one that did not answer. A name that no node has: an empty value.
    virtual Asked ask(const protocol::StatsOp& op, std::string_view node, Ticket ticket) = 0;

    // Gets of these keys are asked for next: what they will read of memory that is mapped here may be set on its way. No answer
    // depends on it.
    virtual void expect(std::span<const protocol::Key>) {}
    // Would an item of this size be refused as too large?
    virtual bool too_large(size_t key_bytes, uint64_t value_bytes) const = 0;
    // Accesses that it saw and the nodes did not are to be sent no later than what is asked or answered next.
    virtual void record_accesses() {}
    // The end of a tick in which something may have been asked: send it.
    virtual void end_tick() = 0;
};

}  // namespace farcached::daemon
