// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/fencer.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>
#include <variant>

#include "base/check.h"
#include "process/node_time.h"

namespace farcached::daemon {

namespace {

constexpr uint64_t second_ns = 1'000'000'000;
constexpr uint64_t moved_ns = 60 * second_ns;
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

void Fencer::attend(Peers peers, Peers leaving, const NodeSet& set) {
    CHECK(peers.size() <= seen_.capacity());
    shared_.links_changed = false;
    unsettled_ = false;
    seen_.clear();
    for (const auto& peer : peers) {
        Fences::Seen& seen = seen_.emplace_back();
        seen.fence = &peer->node().fence;
        seen.owns_link = peer->own() != nullptr;
        seen.up = seen.owns_link && peer->started() && peer->own()->state() == proxy::LinkState::up;
        seen.down = seen.owns_link && !peer->own()->reachable();
        const auto is_before = [&](const auto& other) {
            return other->shared_node() == peer->shared_node() && !other->has_answered();
        };
        seen.busy = !peer->has_answered() || std::ranges::any_of(leaving, is_before);
        seen.drained = peer->node().drained.load(std::memory_order_relaxed);
        if (seen.up) seen.incarnation = peer->own()->welcome().incarnation;
        seen.renewal = set.members[seen_.size() - 1].renewal;
    }
    const bool failover = set.options.failover && peers.size() > 1;
    const Fences::Attended attended = fences().attend(shared_.number, seen_, failover, shared_.now());
    generation_ = attended.generation;
    again_at_ns_ = attended.again_at_ns;
    unsettled_ = attended.unsettled;
    out_ = false;
    for (size_t i = 0; i < seen_.size(); i++) {
        out_ |= seen_[i].state == FenceState::out;
        peers[i]->follow(seen_[i]);
        if (seen_[i].rejoined) shared_.nodes.log().rejoined(peers[i]->node(), shared_.nodes.fences().shown(*seen_[i].fence));
    }
    for (size_t i = 0; i < seen_.size(); i++) {  // all peers have their states
        if (seen_[i].ends) peers[i]->own()->drop(proxy::LinkDown::replaced);
        if (seen_[i].kill.what != Kill::What::none) begin(*peers[i], std::move(seen_[i].kill), set.options, epoch_now(set.epoch));
    }
    follow_moving(peers);
    unsettled_ = unsettled_ || shared_.links_changed;  // one was dropped
    if (attended.changed) wake_others();
}

void Fencer::follow_moving(Peers peers) {
    bool moving = false, lost = false;
    moves_ = false;
    for (const Fences::Seen& seen : seen_) {
        const bool moves = seen.state == FenceState::moving || seen.deletes;
        moves_ = moves_ || moves;
        moving = moving || (moves && !seen.lost);
        lost = lost || (seen.deletes && seen.lost);
    }
    if (std::exchange(shared_.moving, moving) == moving || moving) return;
    for (const auto& peer : peers)
        if (OwnLink* link = peer->own()) link->follow_moving(lost);
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

namespace {

// A node that cannot be told which keys it keeps is flushed. A reader stores nothing anywhere, and an older node does not know the
// request: its items stay (docs/fleet.md).
template <class Ask>
void ask_moved(const LinkPeer& peer, const Kept& kept, const NodeOptions& options, Ask&& ask) {
    const protocol::Welcome& welcome = peer.own()->welcome();
    const bool reads_only = options.key != nullptr && options.key->role() == protocol::AuthRole::reader;
    if (reads_only) return;
    constexpr size_t head_bytes_max = 1024;
    protocol::FlushOp op;
    const bool knows_first = welcome.version >= protocol::version_with_first_list;
    const std::string_view text = std::string_view(kept.text).substr(0, knows_first ? kept.text.size() : kept.older_bytes);
    const bool is_old = welcome.version < protocol::version_with_right;
    const bool fits = !is_old && text.size() + head_bytes_max <= welcome.frame_bytes_max;
    if (kept.first ? !knows_first || !fits : is_old && !kept.nothing) return;
    if (fits) op.kept = text;
    ask(op);
}

}  // namespace

void Fencer::begin(LinkPeer& peer, Kill&& kill, const NodeOptions& options, uint64_t epoch) {
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
    // A large node walks for long over its leased items, in steps.
    with.patience_ns = work->kill.what == Kill::What::moved ? std::max(options.timeout_ns, moved_ns) : options.timeout_ns;
    with.deadline_ns = shared_.now() + with.patience_ns;
    with.epoch = work->kill.kept != nullptr ? epoch_now(work->kill.kept->epoch) : epoch;
    const auto ask = [&](const auto& op) {
        const bool sent = peer.own()->ask_now(op, with, *this);
        sent ? work->unanswered++ : work->done = false;
        return sent;
    };
    if (work->kill.what == Kill::What::moved) ask_moved(peer, *work->kill.kept, options, ask);
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
    const bool first = work.kill.kept != nullptr && work.kill.kept->first;  // the node is used all the same
    if (!work.done && !first) shared_.nodes.log().fence_failed(*work.node);
    fences().killed(work.node->fence, std::move(work.kill), work.done, shared_.now());
    works_.erase(at);
    if (first) wake_others();
    unsettled_ = true;
    again_at_ns_ = 0;
}

// ---- diverted requests -------------------------------------------------------------------------------

namespace {

constexpr uint64_t session_stride = UINT64_C(0x9e3779b97f4a7c15);

// After it the node has no item that it had before.
bool has_overwritten(const protocol::ReplyOp& reply) {
    using Stored = protocol::StoreReply::Status;
    using Deleted = protocol::DeleteReply::Status;
    if (auto* store = std::get_if<protocol::StoreReply>(&reply))
        return store->status == Stored::stored || store->status == Stored::too_large;
    if (auto* gone = std::get_if<protocol::DeleteReply>(&reply)) return gone->status != Deleted::exists;
    return false;
}

}  // namespace

class Fencer::Answers final : public proxy::ReplySink {
  public:
    explicit Answers(Fencer& fencer) : fencer_(fencer) {}
    void answered(proxy::Ticket ticket, proxy::Answer& answer) override {
        const Diverted done = fencer_.diverted(ticket);
        Fences& fences = fencer_.fences();
        if (done.overwrites && has_overwritten(answer.op)) fences.know(done.own->fence, done.guest);
        if (!done.checks || fences.knows(done.own->fence, done.guest)) return fencer_.tickets_.answered(ticket, answer);
        if (done.changes) return fencer_.tickets_.failed(ticket, {proxy::AskFailure::node_down, std::nullopt});
        const protocol::ReplyOp miss = protocol::GetReply();
        proxy::Answer missed{.op = miss, .value = {}, .owned = nullptr};
        fencer_.tickets_.answered(ticket, missed);
    }
    void failed(proxy::Ticket ticket, const proxy::Failed& failed) override {
        fencer_.diverted(ticket);
        fencer_.tickets_.failed(ticket, failed);
    }

  private:
    Fencer& fencer_;
};

// Of deletes that go before a mutation with the same ticket.
class Fencer::Clears final : public proxy::ReplySink {
  public:
    explicit Clears(Fencer& fencer) : fencer_(fencer) {}
    void answered(proxy::Ticket ticket, proxy::Answer& answer) override {
        const auto at = fencer_.diverted_.find(ticket);
        if (at == fencer_.diverted_.end() || !has_overwritten(answer.op)) return;
        fencer_.fences().know(at->second.own->fence, at->second.guest);
    }
    void failed(proxy::Ticket, const proxy::Failed&) override {}  // the mutation's answer does not count

  private:
    Fencer& fencer_;
};

Fencer::Fencer(LinkShared& shared, proxy::ReplySink& tickets)
    : shared_(shared),
      tickets_(tickets),
      answers_(std::make_unique<Answers>(*this)),
      clears_(std::make_unique<Clears>(*this)) {}

Fencer::~Fencer() = default;

Fencer::Plan Fencer::plan(LinkPeer& own, LinkPeer& gutter, std::string_view key, const proxy::AskOptions& with, bool changes,
                          bool overwrites) {
    const Fences::Guest guest = fences().guest(own.node().fence, gutter.node().fence, key);
    if (!changes && guest.known) return {&tickets_};
    const uint64_t order = guest.hash ^ with.session * session_stride;
    const auto before = changing_.find(order);
    const bool behind = before != changing_.end() && before->second != 0;  // an earlier one of its session, whose answer tells
    if (!changes && !behind) return {};
    const bool checks = !guest.known && !overwrites;
    uint32_t* const changing = changes ? &changing_[order] : nullptr;
    diverted_.emplace(with.ticket,
                      Diverted{own.shared_node(), gutter.shared_node(), guest, order, changes, overwrites, checks});
    if (changing != nullptr) (*changing)++;
    return {answers_.get(), checks && !behind};
}

// Takes it: it has its answer, or has failed.
Fencer::Diverted Fencer::diverted(proxy::Ticket ticket) {
    const auto at = diverted_.find(ticket);
    CHECK(at != diverted_.end());
    Diverted taken = std::move(at->second);
    diverted_.erase(at);
    if (!taken.changes) return taken;
    Fences::answered(taken.gutter->fence);
    const auto changing = changing_.find(taken.order);
    CHECK(changing != changing_.end());
    if (--changing->second == 0) changing_.erase(changing);
    return taken;
}

// The gutter's own item of the key may be old: only what was stored there, or deleted, since the key is diverted counts.
template <class Op>
SubmitResult Fencer::ask_gutter(LinkPeer& own, LinkPeer& gutter, Op& op, proxy::AskOptions options, uint32_t ttl_s) {
    const Plan made = plan(own, gutter, op.key.bytes, options, changes(op), overwrites(op));
    if (changes(op)) {
        const bool capped = ttl_s != 0 && cap_expiry(op, node_seconds() + ttl_s);
        fences().divert(own.node().fence, gutter.node().fence, op.key.bytes, guests_until_ns(ttl_s), capped);
    }
    if (made.sink == nullptr) {
        shared_.pool.answer(options.ticket, protocol::GetReply());
        return SubmitResult::later;
    }
    if (made.clear) {
        protocol::DeleteOp clear;
        clear.key = op.key;
        proxy::AskOptions first;
        first.ticket = options.ticket;
        first.session = options.session;
        first.deadline_ns = options.deadline_ns;
        first.patience_ns = options.patience_ns;
        first.epoch = options.epoch;
        first.moved = options.moved;
        gutter.ask(clear, std::move(first), *clears_);
    }
    return gutter.ask(op, std::move(options), *made.sink);
}

template SubmitResult Fencer::ask_gutter(LinkPeer&, LinkPeer&, protocol::GetOp&, proxy::AskOptions, uint32_t);
template SubmitResult Fencer::ask_gutter(LinkPeer&, LinkPeer&, protocol::StoreOp&, proxy::AskOptions, uint32_t);
template SubmitResult Fencer::ask_gutter(LinkPeer&, LinkPeer&, protocol::DeleteOp&, proxy::AskOptions, uint32_t);
template SubmitResult Fencer::ask_gutter(LinkPeer&, LinkPeer&, protocol::ArithOp&, proxy::AskOptions, uint32_t);
template SubmitResult Fencer::ask_gutter(LinkPeer&, LinkPeer&, protocol::ForgetOp&, proxy::AskOptions, uint32_t);

NodeSeconds Fencer::node_seconds() const { return process::node_now(); }

uint64_t Fencer::guests_until_ns(uint32_t ttl_s) {
    return ttl_s == 0 ? UINT64_MAX : shared_.now() + (ttl_s + expiry_slack_s) * second_ns;
}

}  // namespace farcached::daemon
