// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/leaving_peers.h"

#include <algorithm>
#include <atomic>

namespace farcached::daemon {

PostponedRequests::List LeavingPeers::withdraw() noexcept {
    PostponedRequests::List waiting;
    for (const auto& peer : peers_) {
        if (peer->own() != nullptr) waiting.splice(waiting.end(), peer->own()->withdraw());
        peer->touch();
    }
    return waiting;
}

OwnLink* LeavingPeers::newest_link(const std::shared_ptr<OneNode>& node) const {
    for (size_t i = peers_.size(); i-- > 0;)
        if (peers_[i]->shared_node() == node && peers_[i]->own() != nullptr) return peers_[i]->own();
    return nullptr;
}

// A link that other workers still borrow waits for them, unless another one has taken its place.
bool LeavingPeers::may_end(LinkPeer& peer, PeerSet& set) const {
    if (!peer.has_answered()) return false;
    if (peer.own() == nullptr || peer.node().lent[shared_.number].borrowers.load(std::memory_order_acquire) == 0) return true;
    LinkPeer* const at = set.find(peer.shared_node());
    return at != nullptr && at->own() != nullptr;
}

bool LeavingPeers::retire(PeerSet& set) {
    const size_t before = peers_.size();
    std::erase_if(peers_, [&](const std::unique_ptr<LinkPeer>& peer) {
        if (!may_end(*peer, set) && shared_.now() < peer->leaves_by_ns()) return false;
        peer->stop();
        std::erase(shared_.touched, peer.get());
        return true;
    });
    bool started = false;
    const auto start_behind = [&](LinkPeer& peer, size_t earlier) {
        const auto is_before = [&](const auto& other) { return other->shared_node() == peer.shared_node(); };
        if (peer.started() || std::any_of(peers_.begin(), peers_.begin() + ptrdiff_t(earlier), is_before)) return;
        peer.start();
        started = true;
    };
    for (size_t i = 0; i < peers_.size(); i++) start_behind(*peers_[i], i);
    for (auto& peer : set.all()) start_behind(*peer, peers_.size());
    return started || peers_.size() != before;
}

}  // namespace farcached::daemon
