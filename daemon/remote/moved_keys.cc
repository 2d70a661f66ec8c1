// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/remote/moved_keys.h"

#include <algorithm>

#include "daemon/remote/nodes.h"
#include "protocol/frame_request.h"
#include "protocol/owned_keys.h"

namespace farcached::daemon {

namespace {

using KeptKeys = std::shared_ptr<const Kept>;

// nullptr of a list: any node may have any key. Nothing is kept then, and the node does not learn which keys are its own.
KeptKeys kept_of(const protocol::OwnedKeys* had, const protocol::OwnedKeys* has, const SharedEpoch& epoch) {
    if (had == nullptr || has == nullptr) return std::make_shared<const Kept>(Kept{"", true, epoch});
    std::string text = protocol::kept_text({{*had, *has}});
    if (text.size() <= protocol::kept_bytes_max) return std::make_shared<const Kept>(Kept{std::move(text), had->none(), epoch});
    const protocol::OwnedKeys none{.place = has->place};  // it deletes all, and refuses all requests of older lists
    return std::make_shared<const Kept>(Kept{protocol::kept_text({{none, none}}), true, epoch});
}

}  // namespace

std::vector<MovedKeys::Change> MovedKeys::change(const NodeSet& last, const NodeSet& next) {
    std::vector<Change> changes(next.members.size());
    const std::vector<protocol::OwnedKeys> had = last.placement->owned(), has = next.placement->owned();
    for (size_t i = 0; i < changes.size(); i++) {
        KeptKeys& kept = changes[i].kept;
        const protocol::OwnedKeys* const own = has.empty() ? nullptr : &has[i];
        const auto at = std::ranges::find(last.members, next.members[i].one, &NodeSet::Member::one);
        if (at != last.members.end()) {
            const protocol::OwnedKeys* const former = had.empty() ? nullptr : &had[size_t(at - last.members.begin())];
            const bool same = former == own || (former != nullptr && own != nullptr && *former == *own);
            if (!same) kept = kept_of(former, own, next.epoch);
        } else if (departed_.contains(next.members[i].one->address)) {  // V2
            const protocol::OwnedKeys none{.place = own == nullptr ? KeyPlace() : own->place};
            kept = kept_of(&none, own, next.epoch);
        }
        changes[i].joins = kept != nullptr || at == last.members.end();
    }
    for (const NodeSet::Member& member : last.members) departed_.insert(member.one->address);
    for (const NodeSet::Member& member : next.members) departed_.erase(member.one->address);
    return changes;
}

std::vector<FormerPlaces> former_places(const NodeSet& last, bool moves) {
    std::vector<FormerPlaces> former;
    if (moves) former = last.former;
    FormerPlaces& places = former.emplace_back();
    if (!last.placement->is_by_chance()) places.placement = last.placement;
    for (const NodeSet::Member& member : last.members) places.nodes.push_back(member.one);
    if (former.size() <= FormerPlaces::places_max) return former;
    former[1].placement = nullptr;
    for (const auto& node : former[0].nodes)
        if (!former[1].may_have(*node, {})) former[1].nodes.push_back(node);
    former.erase(former.begin());
    return former;
}

}  // namespace farcached::daemon
