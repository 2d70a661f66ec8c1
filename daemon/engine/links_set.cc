// SPDX-License-Identifier: BSD-3-Clause
// Reloads of the set of nodes (M6).
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "daemon/engine/links.h"

namespace farcached::daemon {

namespace {

constexpr uint64_t timeouts_to_leave = 4;  // bound for a node that sends, but not the missing answers

}  // namespace

std::unique_ptr<LinkPeer> Links::make_peer(const NodeSet& set, size_t place) {
    return std::make_unique<LinkPeer>(shared_, set.members[place].one, set.options);
}

void Links::start() {
    for (auto& peer : list_) peer->start();
    end_tick();
}

// M6. All that can fail comes first.
void Links::take() {
    std::shared_ptr<const NodeSet> next = shared_.nodes.set();
    if (next == set_) return;
    const bool same_links = next->options.same_links(set_->options);
    constexpr size_t is_new = SIZE_MAX;
    std::vector<size_t> kept_from;  // current index for each place
    std::vector<std::unique_ptr<LinkPeer>> list;
    for (size_t i = 0; i < next->members.size(); i++) {
        const auto at = std::find_if(list_.begin(), list_.end(),
                                     [&](const auto& peer) { return peer->shared_node() == next->members[i].one; });
        const bool kept = same_links && at != list_.end();
        kept_from.push_back(kept ? size_t(at - list_.begin()) : is_new);
        list.push_back(kept ? nullptr : make_peer(*next, i));
    }
    leaving_.reserve(leaving_.size() + list_.size());
    shared_.touched.reserve(leaving_.size() + list_.size() + list.size());
    for (size_t i = 0; i < list.size(); i++)
        if (kept_from[i] != is_new) list[i] = std::move(list_[kept_from[i]]);
    const uint64_t leaves_by_ns = now() + timeouts_to_leave * std::max(set_->options.timeout_ns, next->options.timeout_ns);
    for (auto& peer : list_) {
        if (peer == nullptr) continue;
        peer->leave_by(leaves_by_ns);
        leaving_.push_back(std::move(peer));
    }
    list_ = std::move(list);
    set_ = std::move(next);
    for (auto& peer : leaving_) peer->touch();
    retire();
}

// Ends the connections of leaving nodes that have answered, and starts the connections that waited for that. True: one ended or
// started.
bool Links::retire() {
    const size_t before = leaving_.size();
    std::erase_if(leaving_, [&](const std::unique_ptr<LinkPeer>& peer) {
        if (!peer->has_answered() && now() < peer->leaves_by_ns()) return false;
        peer->stop();
        std::erase(shared_.touched, peer.get());
        return true;
    });
    bool started = false;
    const auto start_behind = [&](LinkPeer& peer, size_t earlier) {
        const auto is_before = [&](const auto& other) { return other->shared_node() == peer.shared_node(); };
        if (peer.started() || std::any_of(leaving_.begin(), leaving_.begin() + ptrdiff_t(earlier), is_before)) return;
        peer.start();
        started = true;
    };
    for (size_t i = 0; i < leaving_.size(); i++) start_behind(*leaving_[i], i);
    for (auto& peer : list_) start_behind(*peer, leaving_.size());
    return started || leaving_.size() != before;
}

}  // namespace farcached::daemon
