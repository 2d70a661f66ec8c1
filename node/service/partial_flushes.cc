// SPDX-License-Identifier: BSD-3-Clause
#include "node/service/partial_flushes.h"

#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "protocol/owned_keys.h"

namespace farcached::node {

bool PartialFlushes::begin(const RequestId& id, PartialFlush&& flush) {
    if (!connection_.shared.node.prefixes().begin(flush)) return false;
    running_.push_back({id, std::move(flush)});
    return true;
}

PartialFlushes::Begun PartialFlushes::by_prefix(const RequestId& id, std::string_view prefix) {
    return begin(id, {std::string(prefix), nullptr}) ? Begun::runs : Begun::no_memory;
}

PartialFlushes::Begun PartialFlushes::all_but(const RequestId& id, std::string_view text, NodeSeconds now) {
    auto kept = protocol::parse_kept(text);
    ListEpoch& list = connection_.shared.list;
    const bool has_epoch = connection_.epoch != 0 && connection_.shared.right.is_limited();
    const bool tells = kept.has_value() && protocol::can_tell(*kept);
    const bool is_first = kept.has_value() && kept->first;
    if (!tells && !is_first) {
        if (has_epoch) list.kept(connection_.epoch, nullptr);
        return Begun::not_partly;
    }
    connection_.counters.cmd_keep.add(1);
    const auto keys = std::make_shared<const protocol::KeptKeys>(*std::move(kept));
    const uint64_t began = keys->next != 0 ? std::min(keys->next, connection_.epoch) : connection_.epoch;
    const bool is_known = is_first && (!tells || !has_epoch);  // the node cannot compare lists
    const bool deletes = !is_known && (!has_epoch || list.kept(began, keys));
    const uint64_t moved_at = has_epoch ? connection_.epoch : 0;
    const bool walks = deletes && !keys->keeps_all();
    if (walks && begin(id, {{}, keys, {moved_at, now + PartialFlush::moved_kept_s}})) return Begun::runs;
    list.deleted(keys);
    return walks ? Begun::not_partly : Begun::done;
}

std::optional<PartialFlushes::Over> PartialFlushes::go_on(NodeSeconds now) {
    constexpr uint32_t pages_max = 8;
    Running& first = running_.front();
    bool no_memory = false;
    try {
        if (!connection_.shared.node.prefixes().go_on(first.flush, pages_max, now)) return std::nullopt;
    } catch (const std::bad_alloc&) {
        no_memory = true;
    }
    const RequestId id = first.id;
    if (!no_memory && first.flush.kept != nullptr) connection_.shared.list.deleted(first.flush.kept);
    running_.pop_front();
    return Over{id, no_memory};
}

}  // namespace farcached::node
