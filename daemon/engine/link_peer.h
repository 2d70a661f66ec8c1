// SPDX-License-Identifier: BSD-3-Clause
// LinkPeer: a node, as one worker reaches it. The link is the worker's own, or borrowed from another one (links_per_node).
//
// Owner: Links, whose file states the rules M1 to M6. One thread, the worker's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <variant>

#include "base/check.h"
#include "daemon/engine/borrowed_link.h"
#include "daemon/engine/followed_fence.h"
#include "daemon/engine/link_shared.h"
#include "daemon/engine/own_link.h"
#include "daemon/engine/reply_queue.h"
#include "daemon/remote/nodes.h"

namespace farcached::daemon {

class LinkPeer {
  public:
    LinkPeer(LinkShared& shared, std::shared_ptr<OneNode> node, const NodeOptions& options)
        : shared_(shared), node_(std::move(node)), link_(make_link(shared, *this, options)) {}
    LinkPeer(const LinkPeer&) = delete;
    LinkPeer& operator=(const LinkPeer&) = delete;

    OneNode& node() const { return *node_; }
    const std::shared_ptr<OneNode>& shared_node() const { return node_; }
    // nullptr: borrowed.
    OwnLink* own() { return std::get_if<OwnLink>(&link_); }
    const OwnLink* own() const { return std::get_if<OwnLink>(&link_); }

    // ---- life
    bool started() const { return started_; }
    void start();
    // Fails all unanswered requests.
    void stop() { std::visit([](auto& link) { link.stop(); }, link_); }
    // False: its keys are unavailable, or go to another node (M3).
    bool reachable() const { return own() != nullptr ? own()->reachable() : borrowed().reachable(); }
    bool has_answered() { return own() != nullptr ? own()->has_answered() : borrowed().has_answered(); }
    // Of a node that left the set, or whose link is replaced: its unanswered requests fail then (M6).
    void leave_by(uint64_t at_ns) { leaves_by_ns_ = at_ns; }
    uint64_t leaves_by_ns() const { return leaves_by_ns_; }
    // Instead of after its last reply: an own link to a node that DNS finds, without a connection, or not in use. Another process
    // may answer there, and a leaving link shows it to no other worker (Fences, F9).
    bool leaves_at_once() const {
        return own() != nullptr && node_->is_found && !(fence_.is_used() && is_connected(own()->state()));
    }
    bool leaves() const { return leaves_by_ns_ != UINT64_MAX; }
    // In the set's order, from when it is in use.
    void take_place(size_t place) {
        place_ = uint32_t(place);
        if (own() != nullptr) own()->publish();
    }
    uint32_t place() const { return place_; }
    const FollowedFence& fence() const { return fence_; }
    void follow(const Fences::Seen& seen) {
        if (fence_.follow(seen, shared_.now()) && own() != nullptr) own()->follow(fence_.state());
        if (fence_.report_two_processes()) shared_.nodes.log().two_processes(*node_);
        if (seen.back) shared_.nodes.log().is_back(*node_);
    }
    // The own link has come up (FollowedFence).
    void hold() {
        if (fence_.hold()) own()->follow(fence_.state());
    }
    // It is connected, as far as this worker knows, and requests do not wait there.
    bool answers() const {
        const bool is_up = own() != nullptr ? own()->state() == proxy::LinkState::up : borrowed().reachable();
        return is_up && fence_.state() == FenceState::in_use;
    }
    // As OwnLink; not known of a borrowed link.
    bool is_quiet() const { return own() != nullptr && own()->is_quiet(); }
    bool replies() const { return answers() && !is_quiet(); }
    // When tick() is due, on boottime_ns(); UINT64_MAX: never.
    uint64_t next_tick_ns();
    void tick(uint64_t now_ns);
    // Lists it for flush().
    void touch();

    // ---- one key. All but is_mapped() only if that
    bool is_mapped() const { return own() != nullptr && own()->mapped().is_mapped(); }
    const MappedMemory& mapped() const { return own()->mapped(); }
    // The memory that the session's get may read now (M4); nullptr: none.
    proxy::LocalGet* mapped_memory(uint64_t hash, uint64_t session) { return own()->mapped_memory(hash, session); }
    // Reports the access of a hit there that counts.
    void note_access(uint64_t hash, const fabric::Found& found) {
        if (own()->mapped().note_access(hash, found)) touch();
    }

    // ---- requests: as OwnLink
    template <class Op>
    SubmitResult ask(Op& op, proxy::AskOptions options, proxy::ReplySink& sink) {
        if (OwnLink* link = own()) return link->ask(op, std::move(options), sink);
        return borrowed().ask(op, std::move(options), sink);
    }
    void flush();
    Awaited awaits(bool looks) { return own() != nullptr ? own()->awaits(looks) : Awaited::anything; }
    bool linger() { return own() != nullptr && own()->linger(); }

  private:
    using Link = std::variant<OwnLink, BorrowedLink>;

    static Link make_link(LinkShared& shared, LinkPeer& peer, const NodeOptions& options);
    BorrowedLink& borrowed() { return *std::get_if<BorrowedLink>(&link_); }
    const BorrowedLink& borrowed() const { return *std::get_if<BorrowedLink>(&link_); }

    LinkShared& shared_;
    const std::shared_ptr<OneNode> node_;
    uint32_t place_ = 0;
    bool started_ = false;     // false: the connection before it must end first (M6)
    bool is_touched_ = false;
    FollowedFence fence_;
    uint64_t leaves_by_ns_ = UINT64_MAX;
    Link link_;
};

}  // namespace farcached::daemon
