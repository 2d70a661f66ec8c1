// SPDX-License-Identifier: BSD-3-Clause
#include "node/service/sublease_waits.h"

#include <type_traits>
#include <utility>
#include <variant>

#include "node/service/request_effects.h"

namespace farcached::node {

bool SubleaseWaits::halt_for(const protocol::RequestOp& op, Change& change) {
    return halts_frame_ = std::visit(
               [&](const auto& any) {
                   if constexpr (std::is_same_v<std::decay_t<decltype(any)>, protocol::FlushOp>)
                       return !connection_.chosen_by_old_list(any) && awaits_all_ends();
                   if constexpr (requires { any.key; })
                       if (changes_item(any)) return awaits_change(any.key, replaces_value(any), change);
                   return false;
               },
               op);
}

bool SubleaseWaits::postpone(const RequestId& id, const protocol::StoreOp& op, uint64_t epoch, Change& change) {
    if (!awaits_change(op.key, replaces_value(op), change)) return false;
    Postponed& postponed = postponed_.emplace_back();
    postponed.id = id;
    postponed.epoch = epoch;
    postponed.key = op.key.bytes;
    postponed.value = op.value;
    postponed.op = op;
    return true;
}

bool SubleaseWaits::postpone_miss(const RequestId& id, std::string_view key) {
    if (!awaits_end(connection_.shared.node.key(key))) return false;
    Postponed& postponed = postponed_.emplace_back();
    postponed.id = id;
    postponed.key = key;
    postponed.is_miss = true;
    return true;
}

SubleaseWaits::Postponed SubleaseWaits::take() {
    Postponed postponed = std::move(postponed_.front());
    postponed_.pop_front();
    return postponed;
}

void SubleaseWaits::clear() {
    postponed_.clear();
    halts_frame_ = false;
    if (std::exchange(asked_, false)) connection_.away->forget(asker_);
    flush_over();
}

bool SubleaseWaits::awaits_end(const protocol::Key& key) {
    Node& node = connection_.shared.node;
    if (node.config().peer == nullptr) return false;
    Place place{};
    const uint64_t until_ns = node.away().sublease_end(key, connection_.shared.steady_ns(), place);
    if (until_ns != 0) await(key.hash, place, until_ns);
    return until_ns != 0;
}

// replaces: the mutation needs nothing of the present value.
bool SubleaseWaits::awaits_change(const protocol::Key& key, bool replaces, Change& change) {
    Node& node = connection_.shared.node;
    if (node.config().peer == nullptr) return false;
    Place place{};
    const uint64_t until_ns = node.away().begin_change(key, connection_.shared.steady_ns(), place);
    if (until_ns == 0)
        change.begin(node, key.hash);
    else
        await(key.hash, replaces ? place : Place{}, until_ns);
    return until_ns != 0;
}

bool SubleaseWaits::awaits_all_ends() {
    Node& node = connection_.shared.node;
    if (node.config().peer == nullptr) return false;
    const uint64_t now_ns = connection_.shared.steady_ns();
    if (!std::exchange(stopped_all_, true)) all_until_ns_ = node.away().stop_subleases(now_ns);
    if (all_until_ns_ <= now_ns) return false;
    await(0, Place{}, all_until_ns_);
    return true;
}

void SubleaseWaits::await(uint64_t key_hash, const Place& place, uint64_t until_ns) {
    asked_ = true;
    connection_.away->await_end(asker_, key_hash, place, until_ns);
    connection_.counters.waits_for_sublease.add(1);
}

}  // namespace farcached::node
