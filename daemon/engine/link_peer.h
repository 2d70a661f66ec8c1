// SPDX-License-Identifier: BSD-3-Clause
// LinkPeer: a node, as one worker reaches it. The link is the worker's own, or borrowed from another one (links_per_node).
//
// Owner: Links, whose file states the rules M1 to M6. One thread, the worker's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"
#include "daemon/engine/borrowed_link.h"
#include "daemon/engine/link_shared.h"
#include "daemon/engine/own_link.h"
#include "daemon/engine/reply_queue.h"
#include "daemon/remote/nodes.h"

namespace farcached::daemon {

class LinkPeer {
  public:
    static constexpr uint64_t two_processes_ns = 100'000'000;  // until the log has it

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
        const bool is_used = fence_ == FenceState::in_use || fence_ == FenceState::moving;
        return own() != nullptr && node_->is_found && !(is_used && own()->is_connected());
    }
    bool leaves() const { return leaves_by_ns_ != UINT64_MAX; }
    // In the set's order, from when it is in use.
    void take_place(size_t place) {
        place_ = uint32_t(place);
        if (own() != nullptr) own()->publish();
    }
    uint32_t place() const { return place_; }
    // Its node's state of the rejoin fence, as this worker follows it. takes_guests: of diverted keys.
    // deletes, lost: as in Fences::Seen.
    void follow(FenceState fence, bool takes_guests, bool deletes, bool lost) {
        takes_guests_ = takes_guests;
        moves_ = (deletes && !lost) || fence == FenceState::moving;
        loses_moved_ = deletes && lost;
        if (fence == fence_) return;
        fence_ = fence;
        if (own() != nullptr) own()->follow(fence);
    }
    // The own link has come up, to a process that this worker has not shown to the others yet. Requests of keys wait until the next
    // follow(): at the end of this tick (Fences, F9).
    void hold() {
        is_elsewhere_ = true;
        if (fence_ != FenceState::in_use && fence_ != FenceState::moving) return;
        fence_ = FenceState::joining;
        own()->follow(fence_);
    }
    // Fences::Seen::elsewhere. True: it has been so for two_processes_ns.
    bool follow_process(bool elsewhere, uint64_t now_ns) {
        is_elsewhere_ = elsewhere;
        if (!elsewhere) elsewhere_until_ns_ = 0;
        if (!elsewhere || now_ns < elsewhere_until_ns_) return false;
        return std::exchange(elsewhere_until_ns_, elsewhere_until_ns_ == 0 ? now_ns + two_processes_ns : UINT64_MAX) != 0;
    }
    bool is_elsewhere() const { return is_elsewhere_; }
    // Keys may be sent to it; while it is joining or moving, some requests wait there.
    bool takes_keys() const { return fence_ != FenceState::leaving && fence_ != FenceState::out; }
    // It is connected, as far as this worker knows, and requests do not wait there.
    bool answers() const { return fence_ == FenceState::in_use && (own() != nullptr ? own()->up() : borrowed().reachable()); }
    // As OwnLink; not known of a borrowed link.
    bool is_quiet() const { return own() != nullptr && own()->is_quiet(); }
    bool replies() const { return answers() && !is_quiet(); }
    // It deletes items of keys that moved away, or waits for workers that have the set before (F7).
    bool moves() const { return moves_; }
    // It may have such items, and has no connection.
    bool loses_moved() const { return loses_moved_; }
    bool is_out() const { return fence_ == FenceState::out; }
    bool takes_guests() const { return takes_guests_; }
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
    bool takes_guests_ = true;
    bool moves_ = false, loses_moved_ = false;
    FenceState fence_ = FenceState::in_use;
    bool is_elsewhere_ = false;
    uint64_t elsewhere_until_ns_ = 0;  // then it is reported; 0: it is not elsewhere; UINT64_MAX: it was reported
    uint64_t leaves_by_ns_ = UINT64_MAX;
    Link link_;
};

}  // namespace farcached::daemon
