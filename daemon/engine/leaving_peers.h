// SPDX-License-Identifier: BSD-3-Clause
// LeavingPeers: a worker's peers after a change of the set of nodes: those of nodes that left it, and those whose link another one
// replaces (links.h, M6).
//
// Owner: Links. The worker's thread.
//
// E1  A peer ends once it has answered and no other worker borrows its link, or at leaves_by_ns(). A borrowed link need not wait
//     if the set has a newer own link to that node.
// E2  A peer starts after all earlier peers of its node have ended, because no request may overtake theirs.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/engine/link_peer.h"
#include "daemon/engine/link_shared.h"
#include "daemon/engine/own_link.h"
#include "daemon/engine/peer_set.h"

namespace farcached::daemon {

class LeavingPeers {
  public:
    using Peers = PeerSet::Peers;  // the earliest first

    explicit LeavingPeers(LinkShared& shared) : shared_(shared) {}  // which outlives this
    LeavingPeers(const LeavingPeers&) = delete;
    LeavingPeers& operator=(const LeavingPeers&) = delete;

    bool empty() const { return peers_.empty(); }
    size_t size() const { return peers_.size(); }
    const Peers& all() const { return peers_; }
    // Room for so many more. Throws std::bad_alloc.
    void reserve(size_t more) { peers_.reserve(peers_.size() + more); }
    // There is room for it.
    void add(std::unique_ptr<LinkPeer> peer, uint64_t leaves_by_ns) noexcept {
        peer->leave_by(leaves_by_ns);
        peers_.push_back(std::move(peer));
    }
    // The requests that OwnLink::withdraw() returns, of all peers.
    PostponedRequests::List withdraw() noexcept;
    // The worker's own; nullptr: none.
    OwnLink* newest_link(const std::shared_ptr<OneNode>& node) const;
    // Ends the peers that may end (E1). Then it starts those that waited for them (E2), the set's included. True: one ended or
    // started.
    bool retire(PeerSet& set);

  private:
    bool may_end(LinkPeer& peer, PeerSet& set) const;

    LinkShared& shared_;
    Peers peers_;
};

}  // namespace farcached::daemon
