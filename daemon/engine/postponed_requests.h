// SPDX-License-Identifier: BSD-3-Clause
// PostponedRequests: one node's requests that wait for room, for the connection, for an earlier one of their session, or for the
// rejoin fence (daemon/remote/fence.h).
//
// Owner: an OwnLink. The worker's thread.
//
// R1  The requests of a session leave in the order of their addition. While one waits for room or the connection, all new ones
//     queue behind it. One that waits for its session delays that session only (M1).
// R2  A request owns what its views show (OwnedRequest).
// R3  All have the same time limit, so the first one's deadline is the earliest (M2), but for a letter's way to this worker.
//     Replies do not put off the deadline of a request of a key that moved.
// R4  While the node joins, all requests of keys wait. While keys move to or from it, those of keys that moved do.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <list>
#include <type_traits>
#include <utility>

#include "daemon/engine/link_shared.h"
#include "daemon/engine/owned_request.h"
#include "daemon/remote/fence.h"
#include "proxy/ask.h"
#include "proxy/requests.h"

namespace farcached::daemon {

// To a link that may be used now.
template <class Op>
proxy::AskResult submit_to(proxy::Requests& to, const Op& op, const proxy::AskOptions& options, proxy::ReplySink& sink,
                           uint64_t now_ns) {
    if constexpr (std::is_same_v<Op, protocol::GetOp>)
        return to.get(op, options, sink, now_ns);
    else
        return to.ask(op, options, sink);
}

class PostponedRequests {
  public:
    struct Postponed : OwnedRequest {
        template <class Op>
        Postponed(const Op& from, proxy::AskOptions&& with, proxy::ReplySink& its_sink)
            : OwnedRequest(from, std::move(with)), sink(&its_sink) {}
        proxy::ReplySink* sink;
    };
    using List = std::list<Postponed>;  // a list: they cannot move

    // Both outlive this.
    PostponedRequests(LinkShared& shared, proxy::Requests& requests) : shared_(shared), requests_(requests) {}

    bool empty() const { return list_.empty(); }
    // One of this session waits, or one of another session with an equal remainder.
    bool any_of(uint64_t session) const { return waiting_[session % waiting_.size()] != 0; }
    // Must a new request of the session wait, too?
    bool must_queue(uint64_t session) const { return for_room_ || any_of(session); }
    void wait_for_room() { for_room_ = true; }
    // Throws std::bad_alloc, and then has changed nothing.
    template <class Op>
    void add(const Op& op, proxy::AskOptions options, proxy::ReplySink& sink) {
        const Postponed& added = list_.emplace_back(op, std::move(options), sink);
        waiting_[added.options.session % waiting_.size()]++;
        if (added.options.moved) moved_deadline_ns_ = std::min(moved_deadline_ns_, added.options.deadline_ns);
    }
    // They can be sent, or must fail: send() is to try.
    void retry() { retry_ = true; }
    // After retry(): sends them while there is room. Fails them if the node is not reachable.
    void send(bool reachable, bool up);
    // Fails those whose deadline is at or before this time; UINT64_MAX: all.
    void fail(uint64_t before_ns);
    // UINT64_MAX: none.
    uint64_t deadline_ns() const { return empty() ? UINT64_MAX : std::min(deadline_of(list_.front()), moved_deadline_ns_); }

    // ---- the rejoin fence
    FenceState fence() const { return fence_; }
    bool holds() const { return fence_ == FenceState::joining; }  // all requests of keys wait
    // Requests of keys that moved do (Fences, F7).
    bool holds_moved() const { return holds() || fence_ == FenceState::moving || shared_.moving; }
    // A new state: they fail when the node leaves, and wait while it joins.
    void follow(FenceState next);
    // LinkShared::moving has changed. lost: the former home of some of the keys has no connection.
    void follow_moving(bool lost);
    // The caller asks these elsewhere: those of keys that moved, or of all keys if they wait for the node to join; all: those of
    // all keys. Later requests of their sessions come with them. The rest no longer waits for the fence.
    List withdraw(bool all) noexcept;

  private:
    using Place = List::iterator;

    void send_all();
    proxy::AskResult ask(const Postponed& request);
    List take(bool all) noexcept;
    void fail_moved(uint64_t before_ns, proxy::AskFailure why);
    static void fail(const Postponed& request, proxy::AskFailure why);
    Place erase(Place at);
    Place move_to(List& other, Place at) noexcept;
    uint64_t deadline_of(const Postponed& request) const {
        return request.options.moved ? request.options.deadline_ns : requests_.deadline_ns(request.options);
    }

    LinkShared& shared_;
    proxy::Requests& requests_;
    FenceState fence_ = FenceState::in_use;
    bool retry_ = false;
    bool for_room_ = false;  // one waits for room or the connection
    uint64_t moved_deadline_ns_ = UINT64_MAX;  // of the first one of a key that moved
    List list_;
    std::array<uint32_t, 256> waiting_{};  // by session number
};

}  // namespace farcached::daemon
