// SPDX-License-Identifier: BSD-3-Clause
// PeerSet: the peers of the set of nodes that a worker has taken, and which of them a key is at. One has its item, and one its copy
// (Replicas). One gets its requests while its own is out of use (S19). Some had it by former lists (Fences, F7).
//
// Owner: Links, which replaces it (M6). The worker's thread.
//
// P1  If waits_to_move(key), requests of the key wait at its peer. A key has no peer if a former node of it has no connection: that
//     node may still serve other farcached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/engine/fencer.h"
#include "daemon/engine/hot_reads.h"
#include "daemon/engine/link_peer.h"
#include "daemon/engine/link_shared.h"
#include "daemon/remote/nodes.h"

namespace farcached::daemon {

class PeerSet {
  public:
    using Peers = std::vector<std::unique_ptr<LinkPeer>>;  // in the order of the set's members

    // Both outlive this.
    PeerSet(LinkShared& shared, const Fencer& fencer);
    PeerSet(const PeerSet&) = delete;
    PeerSet& operator=(const PeerSet&) = delete;

    // Returns the former peers.
    Peers replace(std::shared_ptr<const NodeSet> set, Peers peers) noexcept {
        set_ = std::move(set);
        return std::exchange(peers_, std::move(peers));
    }
    const std::shared_ptr<const NodeSet>& set() const { return set_; }
    const NodeOptions& options() const { return set_->options; }
    Peers& all() { return peers_; }
    const Peers& all() const { return peers_; }
    // nullptr: the node is not in the set.
    LinkPeer* find(const std::shared_ptr<OneNode>& node);

    // ---- of a key
    // nullptr: none is available.
    LinkPeer* choose(std::string_view key);
    // The same, for a get. With copies it is the peer of the copy (Replicas, C1) if the first one has no connection. For a plain
    // get (Wanted) it is, too, if the first one is quiet.
    LinkPeer* choose_to_read(std::string_view key, bool plain = true);
    bool prefers_copy(std::string_view key) { return choose_to_read(key) != choose(key); }
    // The peer of the copy, if a get is to read that: its node is in this process's zone and that of the item is not. Or the key is
    // very hot. nullptr: the get reads the item.
    LinkPeer* near_copy(std::string_view key) {
        return set_->has_near || set_->options.reads_both ? find_near_copy(key) : nullptr;
    }
    // Such a get has failed: near_copy() prefers no copies for a second.
    void near_copy_failed();
    // The peer of the copy; nullptr: none is available.
    LinkPeer* second_of(std::string_view key);
    // The same, if its node replies.
    LinkPeer* copy_that_answers(std::string_view key);
    // Have items a copy on a second node?
    bool has_copies() const { return set_->options.copies && set_->placement->size() > 1; }
    // May the key's item have a copy?
    bool keeps_copy(std::string_view key) const { return set_->options.keeps_copy(key); }
    // Does a miss at the primary not mean that there is no item? For some time after a change of the list.
    bool refills() { return set_->options.copies && shared_.now() < shared_.nodes.refills_until_ns(); }

    // ---- keys of a node that is out of use
    // The key's own peer, if this one, which was chosen for the key, stands in for it; else nullptr.
    LinkPeer* diverted_from(const LinkPeer& peer, std::string_view key);
    // May a get read the chosen peer's item at once? Not a gutter's own one (S19).
    bool may_read(const LinkPeer& peer, std::string_view key) { return !fencer_.anything_out() || has_guest(peer, key); }

    // ---- keys that move
    // Do requests of the key wait, because it has another node than before, and one of both is not ready (F7)? changes: of a
    // mutation, which with copies concerns both nodes of the key.
    bool waits_to_move(std::string_view key, bool changes) const;
    // May a former node of the key, without a connection, still serve others?
    bool copies_may_be_elsewhere(std::string_view key) const;
    // Must a get of the key wait for its node, or fail, although the other one replies?
    bool copies_move(std::string_view key) const;
    // Where a key was before a change of the list gave it to its node.
    struct FormerHome {
        LinkPeer* peer;
        uint64_t since;  // the revision of etcd at which that changed
    };
    // For warm_up_s after the set was taken; nullopt: nowhere, or it is not known (MovedItems, G3).
    std::optional<FormerHome> former_home(std::string_view key) {
        return set_->changes.empty() ? std::nullopt : find_former_home(key);
    }

  private:
    LinkPeer* usable(size_t place);
    LinkPeer* choose_elsewhere(uint32_t spot);
    bool has_guest(const LinkPeer& peer, std::string_view key);
    bool may_be_elsewhere(std::string_view key) const;
    template <class Is>
    bool any_moved_from(std::string_view key, bool changes, Is&& is) const;
    template <class Is>
    bool any_pair_moved_from(std::string_view key, bool changes, Is&& is) const;
    bool copies_wait_to_move(std::string_view key, bool changes) const;
    LinkPeer* find_near_copy(std::string_view key);
    std::optional<FormerHome> find_former_home(std::string_view key);

    LinkShared& shared_;
    const Fencer& fencer_;
    std::shared_ptr<const NodeSet> set_;
    Peers peers_;
    uint32_t chance_;  // of Placement
    HotReads hot_;
    uint64_t near_again_ns_ = 0;  // until then no near copy is preferred; 0: none has failed
};

}  // namespace farcached::daemon
