// SPDX-License-Identifier: BSD-3-Clause
// BorrowedLink: a worker's use of another worker's link to a node (links_per_node). Its requests travel in letters
// (daemon/engine/mailroom.h); the owner's link executes them as its own, one-sided GETs included.
//
// Owner: a LinkPeer. The worker's thread.
//
// Its requests under way are bounded in number and bytes: beyond that, and while the owner's link is not up, clients wait
// (SubmitResult::crowded). The owner answers each within its deadline (L1). Requests that wait for start() fail at theirs. If the
// owner's thread does not run for a whole timeout, all fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "daemon/engine/link_shared.h"
#include "daemon/engine/mailroom.h"
#include "daemon/engine/reply_queue.h"
#include "daemon/remote/nodes.h"

namespace farcached::daemon {

class LinkPeer;

class BorrowedLink {
  public:
    static constexpr uint32_t requests_max = 1024;
    static constexpr size_t bytes_max = size_t(8) << 20;

    // Both outlive this.
    BorrowedLink(LinkShared& shared, LinkPeer& peer, uint32_t owner);
    ~BorrowedLink();
    BorrowedLink(const BorrowedLink&) = delete;
    BorrowedLink& operator=(const BorrowedLink&) = delete;

    void start();
    // Fails all unanswered requests.
    void stop();
    bool reachable() const { return state() != LentLink::State::down; }
    bool has_answered() const { return under_way_ == 0; }
    uint64_t next_tick_ns() const;
    void tick(uint64_t now_ns);
    template <class Op>
    SubmitResult ask(const Op& op, proxy::AskOptions options, proxy::ReplySink& sink);

    // From the Courier: a request of so many bytes is answered.
    void repaid(size_t bytes);

  private:
    LentLink::State state() const;
    LentLink& lent() const;
    uint64_t held_until_ns() const;
    void fail_held(uint64_t before_ns);
    void fail_all(proxy::AskFailure why);
    void watch_owner(uint64_t now_ns);
    bool crowded() const;

    LinkShared& shared_;
    LinkPeer& peer_;
    const uint32_t owner_;
    LetterQueue held_;        // until start(): behind the connection before it (M6)
    uint32_t under_way_ = 0;  // requests, those held included
    size_t bytes_ = 0;        // of these
    uint64_t timeout_ns_ = 0;
    uint64_t look_at_ns_ = UINT64_MAX;  // when the owner must have taken letters once more; UINT64_MAX: it need not
    uint32_t takes_seen_ = 0;           // of its desk, before that
};

}  // namespace farcached::daemon
