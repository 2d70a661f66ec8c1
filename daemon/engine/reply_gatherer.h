// SPDX-License-Identifier: BSD-3-Clause
// ReplyGatherer: the requests that go to several nodes. Each has one answer, which it makes of the nodes' replies (links.h, M5).
//
// Owner: Links. The worker's thread.
//
// G1  A request is answered once, after the last of its nodes has replied or failed. A node without a connection fails at once.
// G2  It is unavailable if one of its nodes failed. Statistics are answered all the same.
// G3  The nodes' replies arrive at parts that do not move. The peers end before it does, so each of them has answered.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string_view>

#include "daemon/engine/link_peer.h"
#include "daemon/engine/link_shared.h"
#include "daemon/engine/reply_queue.h"
#include "protocol/op.h"
#include "proxy/ask.h"

namespace farcached::daemon {

class ReplyGatherer {
  public:
    using Peers = std::span<const std::unique_ptr<LinkPeer>>;

    explicit ReplyGatherer(LinkShared& shared);  // which outlives this
    ~ReplyGatherer();
    ReplyGatherer(const ReplyGatherer&) = delete;
    ReplyGatherer& operator=(const ReplyGatherer&) = delete;

    // Answered once all peers have executed it. Throws std::bad_alloc, and then has asked none.
    template <class Op>
    SubmitResult ask(const Op& op, Peers peers, const proxy::AskOptions& options) {
        return gather(op, peers, options, /* stats= */ false);
    }
    // Asks the peer of the named node, or all if the name is empty. The answer is a StatsReply. Its value has an entry for each of
    // them, in their order. That is a line "NAME BYTES\n", then so many bytes of text, lines "name value\n". A node that did not
    // answer has the line "NAME -\n". An unknown name yields an empty value.
    SubmitResult ask_stats(const protocol::StatsOp& op, std::string_view name, Peers peers, const proxy::AskOptions& options);
    // Has each request its answer?
    bool empty() const { return gathers_.empty(); }

  private:
    struct Gather;

    template <class Op>
    SubmitResult gather(Op op, Peers peers, const proxy::AskOptions& options, bool stats);
    void one_ended(Ticket ticket);
    void answer_stats(Ticket ticket, const Gather& done);

    LinkShared& shared_;
    std::map<Ticket, Gather> gathers_;
};

}  // namespace farcached::daemon
