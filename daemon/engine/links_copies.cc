// SPDX-License-Identifier: BSD-3-Clause
// The part of Links for copies of items (Replicas): the second node of a key, and both nodes of former lists. Also for keys that
// move from node to node (Fences, F7 and F8; MovedItems).
#include <algorithm>

#include "base/broken.h"
#include "daemon/engine/links.h"

namespace farcached::daemon {

// Of the key's present home and each former one, if that is another; nullptr: it is no longer in the set. For a mutation by the
// first set any node is a former one (Fences, F8).
template <class Is>
bool Links::any_moved_from(std::string_view key, bool changes, Is&& is) const {
    if constexpr (broken::build)
        if (broken::s19_move_early) return false;
    if (set_->placement->is_by_chance()) return false;
    const LinkPeer& own = *list_[set_->placement->size() == 1 ? 0 : set_->placement->node_of(key, chance_)];
    return std::ranges::any_of(set_->former, [&](const FormerPlaces& places) {
        if (places.is_unknown() && !changes) return false;
        const FormerPlaces::Was was = places.of(key);
        if (was.first == &own.node()) return false;
        bool listed = false;
        for (const auto& peer : list_) {
            if (peer.get() == &own || !was.had(peer->node())) continue;
            listed = true;
            if (is(own, peer.get())) return true;
        }
        return !listed && is(own, nullptr);
    });
}

// Has the key another home than before, and is one of both not ready, so that its requests wait (F7)?
// changes: with copies a mutation concerns both nodes.
bool Links::waits_to_move(std::string_view key, bool changes) const {
    if (changes && has_copies()) return copies_wait_to_move(key, changes);
    return any_moved_from(key, changes, [](const LinkPeer& own, const LinkPeer* former) {
        return own.moves() || (former != nullptr && former->moves());
    });
}

// Has the key's former home no connection, so that others may still use the key there (F7)?
bool Links::may_be_elsewhere(std::string_view key) const {
    return any_moved_from(key, /* changes= */ false,
                          [](const LinkPeer&, const LinkPeer* former) { return former != nullptr && former->loses_moved(); });
}

// Has the key other nodes than before, or in another order, and is one of all these as asked?
template <class Is>
bool Links::any_pair_moved_from(std::string_view key, bool changes, Is&& is) const {
    if constexpr (broken::build)
        if (broken::s19_move_early) return false;
    const proxy::Placement& placement = *set_->placement;
    const proxy::NodePair now = placement.pair_of(key);
    return std::ranges::any_of(set_->former, [&](const FormerPlaces& places) {
        if (places.is_unknown() && !changes) return false;
        const FormerPlaces::Was was = places.of(key);
        if (was.is_pair(list_[now.first]->node(), list_[now.second]->node())) return false;
        if (is(*list_[now.first]) || is(*list_[now.second])) return true;
        return std::ranges::any_of(list_, [&](const auto& peer) { return is(*peer) && was.had(peer->node()); });
    });
}

bool Links::copies_wait_to_move(std::string_view key, bool changes) const {
    return any_pair_moved_from(key, changes, [](const LinkPeer& peer) { return peer.moves(); });
}

bool Links::copies_may_be_elsewhere(std::string_view key) const {
    return fencer_->anything_moves() && has_copies() &&
           any_pair_moved_from(key, /* changes= */ false, [](const LinkPeer& peer) { return peer.loses_moved(); });
}

bool Links::copies_move(std::string_view key) const {
    return fencer_->anything_moves() && (copies_wait_to_move(key, /* changes= */ false) || copies_may_be_elsewhere(key));
}

LinkPeer* Links::second_of(std::string_view key) {
    return has_copies() ? usable(set_->placement->pair_of(key).second) : nullptr;
}

LinkPeer* Links::choose_to_read(std::string_view key, bool plain) {
    LinkPeer* const peer = choose(key);
    if (!has_copies() || (peer != nullptr && !(plain && peer->is_quiet() && keeps_copy(key)))) [[likely]] return peer;
    if (copies_move(key)) [[unlikely]] return peer;
    LinkPeer* const second = second_of(key);
    return peer == nullptr || (second != nullptr && second->replies()) ? second : peer;
}

// Of a get whose node did not reply, or may not execute it now. True: the ticket will be answered.
bool Links::ask_copy_instead(Ticket ticket, const proxy::Failed& failed) noexcept {
    using Refusal = protocol::RequestRefusal;
    const bool no_reply = failed.why == proxy::AskFailure::node_down || failed.why == proxy::AskFailure::timed_out;
    const bool no_right = failed.refusal == Refusal::stopping || failed.refusal == Refusal::no_right;
    if (!(no_reply || no_right) || !has_copies()) return false;
    const std::optional<ReplyPool::PlainGet> asked = shared_.pool.ask_again(ticket);
    if (!asked.has_value() || copies_move(asked->key)) return false;
    LinkPeer* peer = choose(asked->key);  // perhaps by a newer list than the get was
    const bool is_first = peer != nullptr && peer->replies() && no_reply;
    if (!is_first) peer = second_of(asked->key);
    if (peer == nullptr || !peer->answers()) return false;
    protocol::GetOp op;
    op.key = {asked->key, 0};
    get(peer, op, {.value = asked->wants_value, .plain = true}, ticket);
    return true;
}

LinkPeer* Links::find_near_copy(std::string_view key) {
    if (!has_copies() || !keeps_copy(key)) return nullptr;
    const proxy::NodePair pair = set_->placement->pair_of(key);
    const bool first_near = set_->members[pair.first].near, second_near = set_->members[pair.second].near;
    const bool is_hot = set_->options.reads_both && first_near == second_near && hot_.is_hot(key);
    const bool prefers = is_hot ? hot_.next_reads_copy() : second_near && !first_near;
    if (!prefers || (near_again_ns_ != 0 && now() < near_again_ns_)) return nullptr;
    return copy_that_answers(key);
}

LinkPeer* Links::copy_that_answers(std::string_view key) {
    if (copies_move(key)) [[unlikely]] return nullptr;
    LinkPeer* const peer = second_of(key);
    return peer != nullptr && peer->replies() ? peer : nullptr;
}

void Links::near_copy_failed() {
    constexpr uint64_t pause_ns = 1'000'000'000;
    near_again_ns_ = now() + pause_ns;
}

template <class Op>
SubmitResult Links::ask_copy(const Op& op, Ticket ticket) {
    LinkPeer* const peer = second_of(op.key.bytes);
    if (peer == nullptr) return unavailable(ticket, proxy::AskFailure::node_down);
    proxy::AskOptions with = options(ticket);
    if (fencer_->anything_moves()) [[unlikely]] with.moved = waits_to_move(op.key.bytes, /* changes= */ true);
    Op there = op;
    return peer->ask(there, std::move(with), sink());
}

SubmitResult Links::ask(const protocol::CopiesOp& op, Ticket ticket) {
    return ask_all(op, ticket, /* stats= */ false, nullptr);
}

SubmitResult Links::ask(const protocol::CopiesOp& op, size_t place, Ticket ticket) {
    LinkPeer& peer = *list_[place];
    if (!peer.reachable()) return unavailable(ticket, proxy::AskFailure::node_down);
    protocol::CopiesOp there = op;
    return peer.ask(there, options(ticket), sink());
}

std::optional<Links::FormerHome> Links::find_former_home(std::string_view key) {
    if (now() >= shared_.nodes.refills_until_ns()) return std::nullopt;
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

SubmitResult Links::ask(const protocol::GetOp& op, const FormerHome& home, Ticket ticket) {
    protocol::GetOp there = op;
    return home.peer->ask(there, options(ticket), sink());
}

template SubmitResult Links::ask_copy(const protocol::GetOp&, Ticket);
template SubmitResult Links::ask_copy(const protocol::HoldOp&, Ticket);
template SubmitResult Links::ask_copy(const protocol::StoreOp&, Ticket);

}  // namespace farcached::daemon
