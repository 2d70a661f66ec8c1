// SPDX-License-Identifier: BSD-3-Clause
// OwnLink: a worker's own link to one node: the node's memory where it is mapped, the connection, and the requests that are
// postponed. A get tries mapped memory first: mapped_memory(), then confirms(). Then ask() tries pointer, index and RPC
// (proxy/requests.h). proxy/onesided_share.h counts why a step was left for the next.
//
// Owner: a LinkPeer. daemon/engine/links.h states the rules M1 to M6. One thread, the worker's.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/engine/link_shared.h"
#include "daemon/engine/owned_request.h"
#include "daemon/engine/readiness.h"
#include "daemon/engine/reply_queue.h"
#include "daemon/remote/nodes.h"
#include "proxy/local_get.h"
#include "proxy/node_link.h"

namespace farcached::daemon {

// PostponedRequests: one node's requests that wait for room, for the connection, or for an earlier one of their session.
//
// Owner: an OwnLink.
// R1  The requests of a session leave in the order in which they were added. While one waits for room or the connection, all
//     new ones queue behind it; one that waits for its session delays that session only (M1).
// R2  A request owns what its views show (OwnedRequest).
// R3  All have the same time limit, so the first one's deadline is the earliest (M2), but for a letter's way to this worker.
//     Replies do not put off the deadline of one of a key that moved: that one does not wait for its turn.
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
    void add(const Op& op, proxy::AskOptions options, proxy::ReplySink& sink);
    // holds_moved: those of keys that moved wait on.
    void send(bool holds_moved);
    // Fails those of keys that moved, as fail().
    void fail_moved(uint64_t before_ns = UINT64_MAX, proxy::AskFailure why = proxy::AskFailure::node_down);
    // The caller asks them elsewhere: those of keys that moved, or of all keys. Later requests of their sessions come with them.
    List take(bool all) noexcept;
    // Fails those whose deadline is at or before this time; UINT64_MAX: all.
    void fail(uint64_t before_ns);
    // UINT64_MAX: none.
    uint64_t deadline_ns() const { return empty() ? UINT64_MAX : std::min(deadline_of(list_.front()), moved_deadline_ns_); }

  private:
    using Place = List::iterator;

    proxy::SubmitResult ask(const Postponed& request);
    static void fail(const Postponed& request, proxy::AskFailure why);
    Place erase(Place at);
    Place move_to(List& other, Place at) noexcept;
    uint64_t deadline_of(const Postponed& request) const {
        return request.options.moved ? request.options.deadline_ns : requests_.deadline_ns(request.options);
    }

    LinkShared& shared_;
    proxy::Requests& requests_;
    bool for_room_ = false;  // one waits for room or the connection
    uint64_t moved_deadline_ns_ = UINT64_MAX;  // of the first one of a key that moved
    List list_;
    std::array<uint32_t, 256> waiting_{};  // by session number
};

class OwnLink final : private proxy::LinkEvents {
  public:
    // Both outlive this.
    OwnLink(LinkShared& shared, LinkPeer& peer, const NodeOptions& options);
    ~OwnLink() override;
    OwnLink(const OwnLink&) = delete;
    OwnLink& operator=(const OwnLink&) = delete;

    // ---- life
    void start();
    // Fails all unanswered requests.
    void stop();
    // Up, or its first attempt to connect has not ended (M3).
    bool reachable() const { return link_.up() || starting_; }
    bool up() const { return link_.up(); }
    // The node owes replies, and has sent nothing for a quarter of the request timeout: perhaps it stands still.
    bool is_quiet() const { return link_.quiet_ns(shared_.now()) > quiet_ns_; }
    // While up().
    const protocol::Welcome& welcome() const { return link_.welcome(); }
    // Requests that borrowers chose it for.
    bool takes_letters() const { return reachable() && fence_ != FenceState::leaving && fence_ != FenceState::out; }
    bool has_answered() { return postponed_.empty() && link_.requests().under_way() == 0; }
    // When tick() is due, on boottime_ns(); UINT64_MAX: never.
    uint64_t next_tick_ns();
    void tick(uint64_t now_ns);
    // Shows its state to borrowers, unless its node left the set or another link replaces it.
    void publish();
    // Its node has left the set, or another link replaces it. A borrower with another set then asks this worker, instead of relying
    // on a state that nothing changes any more. For the same reason the requests that wait for the node to join, or for keys to
    // move, are to be asked elsewhere.
    PostponedRequests::List withdraw() noexcept;
    // A new state of the rejoin fence: postponed requests fail when the node leaves, and wait while it joins.
    void follow(FenceState next);
    // LinkShared::moving has changed. lost: the former home of some of the keys whose requests wait has no connection.
    void follow_moving(bool lost);

    // ---- one key
    // The mapped memory that the session's get may read now (M4); nullptr: none.
    proxy::LocalGet* mapped_memory(uint64_t hash, uint64_t session);
    uint64_t hash(std::string_view key) const { return memory_.hash(key); }
    NodeSeconds node_seconds() { return link_.clock().latest(shared_.now()); }
    // After a hit in mapped_memory(). False: the hit does not count, because the memory's owner may be gone (S9), or its serving
    // right has ended (S17).
    bool confirms() { return link_.channel()->owner_alive() && has_right(); }
    // Reports the access of such a hit.
    void note_access(uint64_t hash, const fabric::Found& found);
    bool is_mapped() const { return mapped_ != nullptr; }
    // A get of this key follows: prefetches its bucket, or its set of the pointer table.
    void expect(std::string_view key) { link_.requests().expect(key); }
    const proxy::LocalGet& memory() const { return memory_; }

    // ---- requests
    // The sink gets the answer or the failure, perhaps before this returns. The value of `op` may move into options.value.
    template <class Op>
    SubmitResult ask(Op& op, proxy::AskOptions options, proxy::ReplySink& sink);
    // Of the fence: not behind postponed requests. False: not accepted, and the sink is not called.
    template <class Op>
    bool ask_now(const Op& op, const proxy::AskOptions& options, proxy::ReplySink& sink) noexcept;
    // Counts a request of another worker.
    void count_borrowed() { link_.count_borrowed(); }
    // Sends what was submitted, and postponed requests while there is room.
    void flush();
    // Only READs to it are under way; only READs of other links.
    bool waits_for_reads_alone() { return link_.only_reads(); }
    bool waits_elsewhere_alone() { return link_.requests().only_elsewhere(); }
    // Polls for completions of READs. True: some came, and flush() may have more to send.
    bool linger();

  private:
    bool has_right();
    bool holds() const { return fence_ == FenceState::joining; }  // all requests of keys wait
    // Requests of keys that moved do (Fences, F7).
    bool holds_moved() const { return holds() || fence_ == FenceState::moving || shared_.moving; }
    void ready();
    // Is this the link to that run of a node, and may new READs go there?
    bool reads_from(uint64_t incarnation) const;

    void watch(int fd) override;
    void unwatch(int fd) override;
    void came_up() override;
    void went_down(proxy::LinkDown why, const std::string& text) noexcept override;
    void knows_newer_list(uint64_t epoch) override { shared_.nodes.list_is_old(epoch); }
    void room() override { retry_ = true; }
    void shortcut_failed(const std::string& why) noexcept override { shared_.nodes.shortcut_failed(*node_, why); }
    void read_failed(std::string_view key, bool by_index, std::string_view why) override;
    proxy::Requests* find_node(uint64_t incarnation) override;
    void elsewhere_ended() noexcept override;

    void show(LentLink::State state) { node_->lent[shared_.number].state.store(state, std::memory_order_relaxed); }
    void listen(bool writable);
    void map(const fabric::RegionView* region);
    void leave_shortcut();
    // Runs `body`. If memory runs out, the connection ends: false.
    template <class Do>
    bool with_memory(Do&& body) noexcept;
    void ask_postponed();

    LinkShared& shared_;
    LinkPeer& peer_;
    const std::shared_ptr<OneNode>& node_;  // the peer's
    const bool reads_mapped_;
    const uint64_t quiet_ns_;
    bool starting_ = true;     // neither up nor failed so far (M3)
    bool was_up_ = false;
    proxy::Shortcut shortcut_;  // to the memory of a node in etcd on this host
    bool over_shortcut_ = false;  // while up
    FenceState fence_ = FenceState::in_use;
    bool retry_ = false;       // postponed requests can be sent, or must fail
    const fabric::RegionView* mapped_ = nullptr;  // while up, if reads of its memory are on
    proxy::LocalGet memory_;
    int watched_fd_ = -1;  // -1: none
    bool is_listening_ = false, listens_to_write_ = false;
    const std::unique_ptr<Readiness> readiness_;
    proxy::NodeLink link_;
    PostponedRequests postponed_;
};

}  // namespace farcached::daemon
