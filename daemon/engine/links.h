// SPDX-License-Identifier: BSD-3-Clause
// Links: a worker's requests to nodes, and its connections, one LinkPeer each. PeerSet chooses the one that has a key.
// ReplyGatherer asks all nodes, and LeavingPeers ends connections after a change of the set. With links_per_node some connections
// are other workers' (daemon/engine/mailroom.h), and Links executes the requests of workers that borrow its own.
//
// Owner: a worker's thread, which reports ready connections (daemon/engine/readiness.h) and the timer.
//
// L1  A ticket whose submission returned `later` or `crowded` is answered exactly once, within a bounded time, by
//     ReplyPool::answer() or unavailable(): perhaps before it returns, never after ~Links(). A borrowed link's owner answers
//     within the deadline; a letter that arrives after it fails, and is not sent. If the owner's thread does not run for a
//     timeout, its borrowers' requests fail.
// L2  Requests of one session on one key take effect in the order of their submission. A get is not answered at once while an
//     earlier request of its session that could change its answer is unanswered. A link's owner submits letters in their order;
//     its sessions and those of borrowers have different numbers there.
// L3  An operation, its key and its value are borrowed until the submission returns. A letter owns copies.
// L4  Mutations are never sent twice. If one is unavailable, its outcome is unknown.
//
// M1  Requests to a node without room are postponed in order, and their clients wait (SubmitResult::crowded). Later requests to
//     that node queue behind them; other nodes are not affected. A request that waits for an earlier one of its session
//     (proxy::Requests, K3) delays that session only. A borrower's clients wait, too, above bounds of its unanswered requests
//     and of their bytes (BorrowedLink).
// M2  Every waiting or submitted request is answered within NodeOptions::timeout_ns, as unavailable if need be, or within that
//     time after the node's last answer to an earlier request (proxy::Requests, K6). With copies a plain get that fails so is
//     asked once more, at the other node, and has that time again.
// M3  A down or drained node gets no requests for keys: they are unavailable at once, or with failover go to the next node on
//     the ring that is in use (S19, Fencer). Until the first connection is made or has failed, they wait. A borrower sees the
//     state that the link's owner published (LentLink).
// M4  A lock-free read of a node's mapped memory counts only if its session has no unanswered mutation of the key, and the
//     memory's owner is seen alive after the copy (S9). A borrowed link maps none.
// M5  A request to all nodes is unavailable if one of them is; the others still get it. A drained node gets it too: it reports
//     its statistics, and flushed items do not come back with it.
// M6  take() replaces the set of nodes between two requests. A node in both sets keeps its connection if the connection options
//     are equal, and its addresses do not ask for another one (Nodes, D4, D5). A removed node gets no new requests; those under
//     way are answered or time out (M2), and then its connection ends, after four timeouts at the latest. Only then does a new
//     connection to the same node begin, and new requests wait for it: none overtakes an earlier one (L2). Requests that wait at
//     the removed node for keys to move, or for it to join, go to the node by the new set, and later ones of their sessions with
//     them. A borrower's fail. A link that ends waits for the workers that borrow it, except where a new one serves them. It makes
//     no new connection to a node that DNS finds. A letter for a node that its owner does not know yet makes the owner take the
//     newer set.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/engine/fencer.h"
#include "daemon/engine/leaving_peers.h"
#include "daemon/engine/link_peer.h"
#include "daemon/engine/link_shared.h"
#include "daemon/engine/mailroom.h"
#include "daemon/engine/peer_set.h"
#include "daemon/engine/readiness.h"
#include "daemon/engine/reply_gatherer.h"
#include "daemon/engine/reply_queue.h"
#include "daemon/remote/nodes.h"

namespace farcached::daemon {

class Links {
  public:
    // All outlive this. number: the worker's.
    Links(Nodes& nodes, Mailroom& room, uint32_t number, Waits& waits, ReplyPool& pool);
    ~Links();
    Links(const Links&) = delete;
    Links& operator=(const Links&) = delete;

    // Begins to connect. In the worker's thread.
    void start();
    // Takes the current set of nodes (M6). In the worker's thread, outside of a submission. Throws std::bad_alloc: the old set
    // stays.
    void take();
    // Fails all unanswered requests, those of other workers included. In the worker's thread, after the last submission. While
    // another worker has sessions, those fail, so the worker waits for them first, for a bounded time (B5).
    void stop();

    // Which peer has a key.
    PeerSet& peers() { return peers_; }

    // peer: chosen for the key.
    SubmitResult get(LinkPeer* peer, const protocol::GetOp& op, Wanted wanted, Ticket ticket);
    template <class Op>
    SubmitResult ask(const Op& op, Ticket ticket) {
        return ask_peer(peers_.choose(op.key.bytes), op, options(ticket));
    }
    // Answered once all nodes have done it.
    SubmitResult ask(const protocol::FlushOp& op, Ticket ticket) { return gatherer_.ask(op, peers_.all(), options(ticket)); }
    SubmitResult ask(const protocol::GetOp& op, const PeerSet::FormerHome& home, Ticket ticket);
    // Of the worker.
    uint32_t number() const { return shared_.number; }
    CopySearch& copy_search() { return shared_.nodes.copy_search(); }
    // Changes when copies may be missing: a node came, went, or was restarted.
    uint64_t last_change() const { return shared_.nodes.refills_until_ns(); }
    // Asks all nodes, or one by its place in the list.
    SubmitResult ask(const protocol::CopiesOp& op, Ticket ticket) { return gatherer_.ask(op, peers_.all(), options(ticket)); }
    SubmitResult ask(const protocol::CopiesOp& op, size_t place, Ticket ticket);
    // Asks the node that has the copy of the key's item.
    template <class Op>
    SubmitResult ask_copy(const Op& op, Ticket ticket);
    // Statistics of the named node, or of all in configured order if the name is empty (ReplyGatherer::ask_stats()).
    SubmitResult ask(const protocol::StatsOp& op, std::string_view node, Ticket ticket) {
        return gatherer_.ask_stats(op, node, peers_.all(), options(ticket));
    }

    // Gets of these keys follow: their reads of mapped memory, a node's or the pointer table, may be prefetched. It affects no
    // answer.
    void expect(std::span<const protocol::Key> keys);
    // True: an item of this size is refused as too large.
    bool too_large(size_t key_bytes, uint64_t value_bytes) const;
    // The end of a tick with possible requests: sends them.
    void end_tick();
    // When timer_due() is to run, on boottime_ns(); UINT64_MAX: never.
    uint64_t timer_at_ns() const { return timer_at_ns_; }
    void timer_due();

  private:
    class TicketSink;

    uint64_t now() { return shared_.now(); }
    proxy::AskOptions options(Ticket ticket);
    void attend();
    SubmitResult unavailable(Ticket ticket, proxy::AskFailure why);
    template <class Op>
    SubmitResult ask_peer(LinkPeer* peer, const Op& op, proxy::AskOptions options);
    bool ask_copy_instead(Ticket ticket, const proxy::Failed& failed) noexcept;
    void ask_elsewhere(PostponedRequests::Postponed& request) noexcept;
    template <class Op>
    void ask_again(const Op& op, proxy::AskOptions options);
    LinkPeer* flush_touched();
    void take_letters();
    void serve(std::unique_ptr<Letter> letter);
    OwnLink* lent_link(const Letter& letter);
    bool take_newer();
    void set_timer();

    LinkShared shared_;
    const std::unique_ptr<Readiness> letters_;  // in the desk
    std::unique_ptr<TicketSink> tickets_;
    std::unique_ptr<Fencer> fencer_;
    ReplyGatherer gatherer_;  // before the peers: it outlives their requests
    LeavingPeers leaving_;
    PeerSet peers_;
    uint64_t timer_at_ns_ = UINT64_MAX;
};

}  // namespace farcached::daemon
