// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/former_owner.h"

#include <algorithm>
#include <new>
#include <utility>

#include "protocol/owned_keys.h"

namespace farcached::daemon {

namespace {

constexpr uint64_t ns_per_ms = 1'000'000, former_second_ns = 1'000'000'000;
constexpr uint64_t rest_timeout_ns = 60 * former_second_ns;  // a large node walks for long over its leased items

bool can_hand_over(const LinkPeer& peer) {
    return peer.own() != nullptr && peer.started() && peer.own()->up() &&
           peer.own()->welcome().version >= protocol::version_with_arrivals;
}

// The keys that each node of `next` keeps at the end; empty: all.
std::vector<std::string> kept_texts(const FormerSet& former, const NodeSet& next) {
    std::vector<std::string> texts(next.members.size());
    const std::vector<protocol::OwnedKeys> had = former.placement->owned(), has = next.placement->owned();
    for (size_t i = 0; i < texts.size() && !had.empty() && !has.empty(); i++) {
        const auto at = std::ranges::find(former.nodes, next.members[i].one);
        const bool stayed = at != former.nodes.end();
        if (stayed && had[size_t(at - former.nodes.begin())] != has[i]) texts[i] = protocol::kept_text({{has[i]}});
        if (texts[i].size() > protocol::kept_bytes_max) texts[i].clear();
    }
    return texts;
}

}  // namespace

class FormerOwner::Answers final : public proxy::ReplySink {
  public:
    explicit Answers(FormerOwner& owner) : owner_(owner) {}
    void answered(proxy::Ticket ticket, proxy::Answer&) override { owner_.ended(ticket, true); }
    void failed(proxy::Ticket ticket, const proxy::Failed&) override { owner_.ended(ticket, false); }

  private:
    FormerOwner& owner_;
};

FormerOwner::FormerOwner(LinkShared& shared) : shared_(shared), answers_(std::make_unique<Answers>(*this)) {}

FormerOwner::~FormerOwner() = default;

void FormerOwner::prepare(const std::shared_ptr<const NodeSet>& set) {
    next_peers_.assign(set->hands_over == nullptr ? 0 : set->hands_over->nodes.size(), nullptr);
    next_told_.assign(set->hands_over == nullptr ? 0 : set->members.size(), {});
    if (set->hands_over != nullptr && shared_.number == 0) {  // one worker deletes
        std::vector<std::string> kept = kept_texts(*set->hands_over, *set);
        for (size_t i = 0; i < kept.size(); i++) next_told_[i].kept = std::move(kept[i]);
    }
    next_former_ = set->hands_over;
}

void FormerOwner::take(Peers list, Peers leaving) noexcept {
    former_ = std::move(next_former_);
    peers_ = std::move(next_peers_);
    told_ = std::move(next_told_);
    run_++;
    attend_at_ns_ = former_ != nullptr ? 0 : UINT64_MAX;
    find(list, leaving);
}

void FormerOwner::find(Peers list, Peers leaving) noexcept {
    for (size_t i = 0; i < peers_.size(); i++) {
        peers_[i] = nullptr;
        for (const Peers& among : {leaving, list})  // the one in the list, if both have it
            for (const auto& peer : among)
                if (peer->shared_node() == former_->nodes[i]) peers_[i] = peer.get();
    }
}

bool FormerOwner::needs(const LinkPeer& peer) {
    return open() && can_hand_over(peer) && std::ranges::find(peers_, &peer) != peers_.end();
}

LinkPeer* FormerOwner::of(std::string_view key, const LinkPeer* owner) {
    if (!open() || key.empty() || owner == nullptr || owner->place() >= told_.size()) return nullptr;
    if (told_[owner->place()].change == Step::to_do) return nullptr;
    const uint32_t number = peers_.size() == 1 ? 0 : former_->placement->node_of(key, /* chance= */ 0);
    LinkPeer* const peer = peers_[number];
    if (peer == nullptr || former_->nodes[number] == owner->shared_node()) return nullptr;
    return can_hand_over(*owner) && can_hand_over(*peer) ? peer : nullptr;
}

// ---- nodes ------------------------------------------------------------------------------------------

bool FormerOwner::tell(OwnLink& link, size_t place) noexcept {
    const uint64_t now_ns = shared_.now();
    const uint64_t ago_ms = (now_ns - std::min(now_ns, former_->since_ns)) / ns_per_ms + 1;
    const auto open_s = uint32_t((former_->until_ns - former_->since_ns) / former_second_ns);
    protocol::ListChangeOp op{former_->change, uint32_t(std::min<uint64_t>(ago_ms, UINT32_MAX)), open_s};
    proxy::AskOptions with;
    with.ticket = ticket(run_, place, /* rest= */ false);
    with.deadline_ns = former_->until_ns;
    return link.ask_now(op, with, *answers_);
}

bool FormerOwner::delete_rest(OwnLink& link, size_t place) noexcept {
    protocol::FlushOp op;
    op.kept = told_[place].kept;
    proxy::AskOptions with;
    with.ticket = ticket(run_, place, /* rest= */ true);
    with.patience_ns = rest_timeout_ns;
    with.deadline_ns = shared_.now() + rest_timeout_ns;
    return link.ask_now(op, with, *answers_);
}

void FormerOwner::ended(proxy::Ticket ticket, bool done) noexcept {
    const uint64_t word = uint64_t(ticket);
    const size_t place = uint32_t(word) >> 1;
    if (word >> 32 != run_ || place >= told_.size()) return;
    Step& step = (word & 1) != 0 ? told_[place].rest : told_[place].change;
    step = done ? Step::done : Step::to_do;
    if (!done) attend_at_ns_ = std::min(attend_at_ns_, shared_.now() + former_second_ns);
}

void FormerOwner::attend(Peers list) noexcept {
    attend_at_ns_ = UINT64_MAX;
    if (former_ == nullptr) return;
    const uint64_t now_ns = shared_.now();
    const bool is_open = now_ns < former_->until_ns;
    if (is_open) attend_at_ns_ = former_->until_ns;
    for (size_t i = 0; i < told_.size() && i < list.size(); i++) {
        Told& told = told_[i];
        Step& step = is_open ? told.change : told.rest;
        if (step != Step::to_do || (!is_open && told.kept.empty())) continue;
        const bool can = can_hand_over(*list[i]) && (is_open ? tell(*list[i]->own(), i) : delete_rest(*list[i]->own(), i));
        if (can && step == Step::to_do) step = Step::asked;
        if (!can) attend_at_ns_ = std::min(attend_at_ns_, now_ns + former_second_ns);
    }
}

}  // namespace farcached::daemon
