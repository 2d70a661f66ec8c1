// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/link_peer.h"

namespace farcached::daemon {

LinkPeer::Link LinkPeer::make_link(LinkShared& shared, LinkPeer& peer, const NodeOptions& options) {
    const uint32_t owner = shared.courier.owner_of(peer.node(), options.links(peer.node().first_channel()));
    if (owner == shared.number) return Link(std::in_place_type<OwnLink>, shared, peer, options);
    return Link(std::in_place_type<BorrowedLink>, shared, peer, owner);
}

void LinkPeer::start() {
    CHECK(!started_);
    started_ = true;
    std::visit([](auto& link) { link.start(); }, link_);
}

uint64_t LinkPeer::next_tick_ns() {
    const uint64_t next = std::visit([](auto& link) { return link.next_tick_ns(); }, link_);
    return started_ ? std::min(next, leaves_by_ns_) : next;
}

void LinkPeer::tick(uint64_t now_ns) {
    std::visit([now_ns](auto& link) { link.tick(now_ns); }, link_);
    touch();
}

void LinkPeer::touch() {
    if (is_touched_) return;
    is_touched_ = true;
    shared_.touched.push_back(this);
}

void LinkPeer::flush() {
    if (own() != nullptr) own()->flush();
    is_touched_ = false;
}

}  // namespace farcached::daemon
