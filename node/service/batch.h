// SPDX-License-Identifier: BSD-3-Clause
// Execution::Batch: a sequence of requests of one frame that execute at one time, and the ways of their replies. For the sources of
// Execution only.
//
// Owner: a call of Execution. One thread.
//
// A reply leaves in a frame of replies. A value or text that is too large for that frame leaves in pieces behind its reply
// (SentValues), and the request stays in flight until then.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

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

struct Execution::Batch {
    // The requests execute at the time `at`. All references outlive this.
    Batch(const Connection& connection, RequestsInFlight& in_flight, SentValues& sent, uint64_t number, const NodeReading& at)
        : Batch(connection, in_flight, sent, number, at.seconds, connection.told(at)) {}

    // The reply to a get, with its value. The value goes into the outgoing frame, or to its own buffer if it is too large for one.
    struct Hit {
        protocol::ReplyOptions with;
        size_t head;  // bytes in front of the value
        char* in_frame = nullptr;
        SentValues::Value apart = {};
    };
    // elsewhere: the grant will be of another node's memory.
    static Hit hit_to(uint32_t tag, bool want_grant, bool elsewhere = false) {
        Hit hit{node::reply_to(tag), protocol::hit_head_bytes(want_grant, elsewhere)};
        hit.with.grant_room = want_grant;
        return hit;
    }
    // The place for the value; nullptr: no memory. It waits outside of the channel, too, if much waits there (E3).
    char* room_for(Hit& hit, uint32_t value_len) {
        if (replies.must_follow(hit.head, value_len) || (value_len != 0 && !sent_.may_send())) {
            hit.with.value = protocol::ValueForm::follows;
            hit.apart = sent_.reserve(value_len);
            return hit.apart.bytes.get();
        }
        hit.with.value = protocol::ValueForm::here;
        hit.in_frame = replies.room(hit.head + value_len);
        return hit.in_frame + hit.head;
    }
    // After the value is there.
    void reply(Hit& hit, const protocol::GetReply& got) {
        if (hit.in_frame != nullptr) {
            protocol::write_reply_head(hit.in_frame, got, hit.with);
            return replies.commit(hit.head + got.meta.value_len);
        }
        if (hit.with.value == protocol::ValueForm::follows && hit.apart.bytes == nullptr)
            return refuse(hit.with.tag, protocol::RequestRefusal::no_memory);
        replies.add(got, hit.with);
        if (hit.apart.bytes != nullptr) send_later(hit.with.tag, std::move(hit.apart));
    }
    void reply_text(uint32_t tag, std::string_view text);
    void refuse(uint32_t tag, protocol::RequestRefusal why);
    // Why requests are refused unless `serves`. Earlier versions do not know that word.
    protocol::RequestRefusal no_right() const {
        using protocol::RequestRefusal;
        return connection_.limits.version < protocol::version_with_right ? RequestRefusal::stopping : RequestRefusal::no_right;
    }
    // A request is replied to later.
    void defer() { in_flight_.defer(sequence); }

    // Does the proxy want a lease that it can use?
    bool wants_lease(const protocol::RequestOptions& options) const {
        return options.want_grant && connection_.reads_one_sided();
    }
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

    const uint64_t sequence;
    const NodeSeconds now;
    protocol::ReplyWriter replies;
    Verdict verdict;
    const std::optional<uint32_t> right_ms;  // as in the replies; 0: no lease
    uint64_t epoch;                          // of the list by which the proxy chose this node
    const bool serves;                       // requests with keys and flushes execute (S17)

  private:
    Batch(const Connection& connection, RequestsInFlight& in_flight, SentValues& sent, uint64_t of, NodeSeconds at,
         const NodeReading& told)
        : sequence(of),
          now(at),
          replies(connection.channel->out(), connection.limits.frame_bytes_max, of, told),
          right_ms(told.right_ms),
          epoch(connection.epoch),
          serves(connection.has_right()),
          connection_(connection),
          in_flight_(in_flight),
          sent_(sent) {}
    void send_later(uint32_t tag, SentValues::Value value);

    const Connection& connection_;
    RequestsInFlight& in_flight_;
    SentValues& sent_;
};

}  // namespace farcached::node
