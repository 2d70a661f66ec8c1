// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/peer_set.h"

#include <algorithm>

#include "base/broken.h"
#include "base/node_clock.h"

namespace farcached::daemon {

PeerSet::PeerSet(LinkShared& shared, const Fencer& fencer)
    : shared_(shared), fencer_(fencer), set_(shared.nodes.set()), chance_(uint32_t(boottime_ns()) | 1), hot_(chance_) {
    for (const NodeSet::Member& member : set_->members) {
        peers_.push_back(std::make_unique<LinkPeer>(shared, member.one, set_->options));
        peers_.back()->take_place(peers_.size() - 1);
    }
}

LinkPeer* PeerSet::find(const std::shared_ptr<OneNode>& node) {
    const auto at = std::ranges::find_if(peers_, [&](const auto& peer) { return peer->shared_node() == node; });
    return at == peers_.end() ? nullptr : at->get();
}

// A drained node is used until its fence takes it out of use, if it does.
LinkPeer* PeerSet::usable(size_t place) {
    LinkPeer& peer = *peers_[place];
    if (!peer.reachable() || !peer.fence().takes_keys()) return nullptr;
    if (!peer.node().drained.load(std::memory_order_relaxed)) [[likely]] return &peer;
    return set_->options.failover && set_->placement->size() > 1 ? &peer : nullptr;
}

LinkPeer* PeerSet::choose(std::string_view key) {
    chance_ ^= chance_ << 13;
    chance_ ^= chance_ >> 17;
    chance_ ^= chance_ << 5;
    const proxy::Placement& placement = *set_->placement;
    if (fencer_.anything_moves() && may_be_elsewhere(key)) [[unlikely]] return nullptr;
    if (placement.size() == 1) return usable(0);
    const uint32_t spot = placement.spot_of(key, chance_);
    LinkPeer* peer = usable(placement.node_at(spot));
    return peer != nullptr || !set_->options.failover ? peer : choose_elsewhere(spot);
}

// The first node of the walk that is not out of use, unless it has stale guests (S19).
LinkPeer* PeerSet::choose_elsewhere(uint32_t spot) {
    const proxy::Placement& placement = *set_->placement;
    for (uint32_t i = 0; i < placement.size(); i++) {
        const uint32_t place = placement.walk(spot, i);
        if (peers_[place]->fence().is_out()) continue;
        return i == 0 || peers_[place]->fence().takes_guests() ? usable(place) : nullptr;
    }
    return nullptr;
}

LinkPeer* PeerSet::diverted_from(const LinkPeer& peer, std::string_view key) {
    if (set_->placement->size() == 1) return nullptr;
    LinkPeer& own = *peers_[set_->placement->node_of(key, chance_)];
    return Fencer::is_diverted(own, peer) ? &own : nullptr;
}

bool PeerSet::has_guest(const LinkPeer& peer, std::string_view key) {
    const LinkPeer* own = diverted_from(peer, key);
    return own == nullptr || fencer_.has_guest(*own, peer, key);
}

// Of the key's present home and each former one, if that is another; nullptr: it is no longer in the set. For a mutation by the
// first set any node is a former one (Fences, F8). A mutation also concerns the nodes that had a copy.
template <class Is>
bool PeerSet::any_moved_from(std::string_view key, bool changes, Is&& is) const {
    if constexpr (broken::build)
        if (broken::s19_move_early) return false;
    if (set_->placement->is_by_chance()) return false;
    const LinkPeer& own = *peers_[set_->placement->size() == 1 ? 0 : set_->placement->node_of(key, chance_)];
    return std::ranges::any_of(set_->former, [&](const FormerPlaces& places) {
        if (places.is_unknown() && !changes) return false;
        const FormerPlaces::Was was = places.of(key);
        const bool stays = was.first == &own.node();
        if (stays && !(changes && was.may_have_copy())) return false;
        bool listed = stays;
        for (const auto& peer : peers_) {
            const OneNode& node = peer->node();
            if (peer.get() == &own || !(changes ? was.had(node) : was.had_item(node))) continue;
            listed = true;
            if (is(own, peer.get())) return true;
        }
        return !listed && is(own, nullptr);
    });
}

bool PeerSet::waits_to_move(std::string_view key, bool changes) const {
    if (changes && has_copies()) return copies_wait_to_move(key, changes);
    return any_moved_from(key, changes, [](const LinkPeer& own, const LinkPeer* former) {
        return own.fence().moves() || (former != nullptr && former->fence().moves());
    });
}

// Has the key's former home no connection, so that others may still use the key there (F7)?
bool PeerSet::may_be_elsewhere(std::string_view key) const {
    return any_moved_from(key, /* changes= */ false, [](const LinkPeer&, const LinkPeer* former) {
        return former != nullptr && former->fence().loses_moved();
    });
}

// Has the key other nodes than before, or in another order, and is one of all these as asked?
template <class Is>
bool PeerSet::any_pair_moved_from(std::string_view key, bool changes, Is&& is) const {
    if constexpr (broken::build)
        if (broken::s19_move_early) return false;
    const proxy::Placement& placement = *set_->placement;
    const proxy::NodePair now = placement.pair_of(key);
    return std::ranges::any_of(set_->former, [&](const FormerPlaces& places) {
        if (places.is_unknown() && !changes) return false;
        const FormerPlaces::Was was = places.of(key);
        if (was.is_pair(peers_[now.first]->node(), peers_[now.second]->node())) return false;
        if (is(*peers_[now.first]) || is(*peers_[now.second])) return true;
        return std::ranges::any_of(peers_, [&](const auto& peer) { return is(*peer) && was.had(peer->node()); });
    });
}

bool PeerSet::copies_wait_to_move(std::string_view key, bool changes) const {
    return any_pair_moved_from(key, changes, [](const LinkPeer& peer) { return peer.fence().moves(); });
}

bool PeerSet::copies_may_be_elsewhere(std::string_view key) const {
    if (!fencer_.anything_moves() || !set_->options.copies) return false;
    if (has_copies())
        return any_pair_moved_from(key, /* changes= */ false, [](const LinkPeer& peer) { return peer.fence().loses_moved(); });
    return any_moved_from(key, /* changes= */ true, [](const LinkPeer&, const LinkPeer* former) {
        return former != nullptr && former->fence().loses_moved();
    });
}

bool PeerSet::copies_move(std::string_view key) const {
    return fencer_.anything_moves() && has_copies() &&
           (copies_wait_to_move(key, /* changes= */ false) || copies_may_be_elsewhere(key));
}

LinkPeer* PeerSet::second_of(std::string_view key) {
    return has_copies() ? usable(set_->placement->pair_of(key).second) : nullptr;
}

LinkPeer* PeerSet::choose_to_read(std::string_view key, bool plain) {
    LinkPeer* const peer = choose(key);
    if (!has_copies() || (peer != nullptr && !(plain && peer->is_quiet() && keeps_copy(key)))) [[likely]] return peer;
    if (copies_move(key)) [[unlikely]] return peer;
    LinkPeer* const second = second_of(key);
    return peer == nullptr || (second != nullptr && second->replies()) ? second : peer;
}

LinkPeer* PeerSet::find_near_copy(std::string_view key) {
    if (!has_copies() || !keeps_copy(key)) return nullptr;
    const proxy::NodePair pair = set_->placement->pair_of(key);
    const bool first_near = set_->members[pair.first].near, second_near = set_->members[pair.second].near;
    const bool is_hot = set_->options.reads_both && first_near == second_near && hot_.is_hot(key);
    const bool prefers = is_hot ? hot_.next_reads_copy() : second_near && !first_near;
    if (!prefers || (near_again_ns_ != 0 && shared_.now() < near_again_ns_)) return nullptr;
    return copy_that_answers(key);
}

LinkPeer* PeerSet::copy_that_answers(std::string_view key) {
    if (copies_move(key)) [[unlikely]] return nullptr;
    LinkPeer* const peer = second_of(key);
    return peer != nullptr && peer->replies() ? peer : nullptr;
}

void PeerSet::near_copy_failed() {
    constexpr uint64_t pause_ns = 1'000'000'000;
    near_again_ns_ = shared_.now() + pause_ns;
}

std::optional<PeerSet::FormerHome> PeerSet::find_former_home(std::string_view key) {
    if (shared_.now() >= shared_.nodes.refills_until_ns()) return std::nullopt;
    if (set_->former_lists->over.load(std::memory_order_acquire)) return std::nullopt;
    const uint32_t own = set_->placement->size() == 1 ? 0 : set_->placement->node_of(key, /* chance= */ 0);
    for (const ListChange& change : set_->changes) {
        const uint32_t former = change.home_of(key);
        if (former == own) continue;
        LinkPeer* const peer = former == ListChange::gone ? nullptr : usable(former);
        if (peer == nullptr || !peer->answers()) return std::nullopt;
        return FormerHome{peer, change.revision};
    }
    return std::nullopt;
}

}  // namespace farcached::daemon
