// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/fencer.h"

#include <new>
#include <utility>

#include "base/check.h"
#include "process/node_time.h"

namespace farcached::daemon {

namespace {

constexpr uint64_t second_ns = 1'000'000'000;
constexpr uint64_t expiry_slack_s = 3;  // of nodes' clocks, which are estimated, and of their whole seconds

bool cap(NodeSeconds& at, NodeSeconds limit) {
    if (at != never_expires && at <= limit) return false;
    at = limit;
    return true;
}

bool cap(std::optional<NodeSeconds>& at, NodeSeconds limit) { return at.has_value() && cap(*at, limit); }

}  // namespace

// ---- expiry -----------------------------------------------------------------------------------------

bool cap_expiry(protocol::GetOp& op, NodeSeconds limit) {
    const bool touch = cap(op.touch, limit), vivify = cap(op.vivify, limit);
    return touch || vivify;
}

bool cap_expiry(protocol::StoreOp& op, NodeSeconds limit) {
    const bool stored = cap(op.exptime, limit), vivify = cap(op.vivify, limit);
    return stored || vivify;
}

bool cap_expiry(protocol::DeleteOp& op, NodeSeconds limit) {
    if (op.remove_value && !op.touch.has_value()) op.touch = never_expires;
    return cap(op.touch, limit);
}

bool cap_expiry(protocol::ArithOp& op, NodeSeconds limit) {
    const bool touch = cap(op.touch, limit), vivify = cap(op.vivify, limit);
    return touch || vivify;
}

// ---- states -----------------------------------------------------------------------------------------

void Fencer::attend(Peers peers, const NodeOptions& options) {
    shared_.links_changed = false;
    unsettled_ = false;
    seen_.clear();
    try {
        seen_.reserve(peers.size());
    } catch (const std::bad_alloc&) {  // at the next tick
        unsettled_ = true;
        return;
    }
    for (const auto& peer : peers) {
        Fences::Seen& seen = seen_.emplace_back();
        seen.fence = &peer->node().fence;
        seen.owns_link = peer->own() != nullptr;
        seen.up = seen.owns_link && peer->started() && peer->own()->up();
        seen.down = seen.owns_link && !peer->own()->reachable();
        seen.busy = !peer->has_answered();
        seen.drained = peer->node().drained.load(std::memory_order_relaxed);
    }
    const bool failover = options.failover && peers.size() > 1;
    const Fences::Attended attended = fences().attend(shared_.number, seen_, failover, shared_.now());
    generation_ = attended.generation;
    again_at_ns_ = attended.again_at_ns;
    unsettled_ = attended.unsettled;
    out_ = false;
    for (size_t i = 0; i < seen_.size(); i++) {
        out_ |= seen_[i].state == FenceState::out;
        peers[i]->follow(seen_[i].state, seen_[i].takes_guests);
        if (seen_[i].rejoined) shared_.nodes.rejoined(peers[i]->node());
        if (seen_[i].kill.what != Kill::What::none) begin(*peers[i], std::move(seen_[i].kill), options);
    }
    if (attended.changed) wake_others();
}

void Fencer::stop() noexcept {
    CHECK(works_.empty());
    fences().leave(shared_.number);
    wake_others();
}

void Fencer::wake_others() {
    Mailroom& room = shared_.courier.room();
    for (uint32_t i = 0; i < room.workers(); i++)
        if (i != shared_.number) room.desk(i).wake();
}

// ---- kills ------------------------------------------------------------------------------------------

void Fencer::begin(LinkPeer& peer, Kill&& kill, const NodeOptions& options) {
    const uint64_t number = ++next_work_;
    Work* work = nullptr;
    try {
        work = &works_[number];
    } catch (const std::bad_alloc&) {
        return fences().killed(peer.node().fence, std::move(kill), /* done= */ false, shared_.now());
    }
    work->node = peer.shared_node();
    work->kill = std::move(kill);
    proxy::AskOptions with;
    with.ticket = proxy::Ticket(number);
    with.patience_ns = options.timeout_ns;
    with.deadline_ns = shared_.now() + options.timeout_ns;
    const auto ask = [&](const auto& op) {
        const bool sent = peer.own()->ask_now(op, with, *this);
        sent ? work->unanswered++ : work->done = false;
        return sent;
    };
    if (work->kill.flush) ask(protocol::FlushOp());
    for (const std::string& key : work->kill.keys) {
        protocol::DeleteOp op;
        op.key = {key, 0};
        if (!ask(op)) break;
    }
    one_ended(with.ticket, work->done);
}

void Fencer::one_ended(proxy::Ticket ticket, bool done) noexcept {
    const auto at = works_.find(uint64_t(ticket));
    CHECK(at != works_.end());
    Work& work = at->second;
    work.done = work.done && done;
    if (--work.unanswered != 0) return;
    if (!work.done) shared_.nodes.fence_failed(*work.node);
    fences().killed(work.node->fence, std::move(work.kill), work.done, shared_.now());
    works_.erase(at);
    unsettled_ = true;
    again_at_ns_ = 0;
}

// ---- diverted mutations -----------------------------------------------------------------------------

// The sink of mutations that are diverted to one gutter.
class Fencer::Guests final : public proxy::ReplySink {
  public:
    Guests(proxy::ReplySink& to, std::shared_ptr<OneNode> gutter) : to_(to), gutter_(std::move(gutter)) {}
    void answered(proxy::Ticket ticket, proxy::Answer& answer) override {
        Fences::answered(gutter_->fence);
        to_.answered(ticket, answer);
    }
    void failed(proxy::Ticket ticket, const proxy::Failed& failed) override {
        Fences::answered(gutter_->fence);
        to_.failed(ticket, failed);
    }

  private:
    proxy::ReplySink& to_;
    const std::shared_ptr<OneNode> gutter_;
};

Fencer::Fencer(LinkShared& shared, proxy::ReplySink& tickets) : shared_(shared), tickets_(tickets) {}

Fencer::~Fencer() = default;

proxy::ReplySink& Fencer::guests_at(LinkPeer& gutter) {
    std::unique_ptr<Guests>& guests = guests_[gutter.shared_node()];
    if (guests == nullptr) guests = std::make_unique<Guests>(tickets_, gutter.shared_node());
    return *guests;
}

NodeSeconds Fencer::node_seconds() const { return process::node_now(); }

uint64_t Fencer::guests_until_ns(uint32_t ttl_s) {
    return ttl_s == 0 ? UINT64_MAX : shared_.now() + (ttl_s + expiry_slack_s) * second_ns;
}

}  // namespace farcached::daemon
