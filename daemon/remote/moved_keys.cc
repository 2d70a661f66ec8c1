// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/remote/moved_keys.h"

#include <algorithm>

#include "daemon/remote/nodes.h"
#include "protocol/owned_keys.h"

namespace farcached::daemon {

namespace {

using KeptText = std::shared_ptr<const std::string>;

// Of a member of both lists. nullptr of a list: any node may have any key.
KeptText kept_of(const protocol::OwnedKeys* had, const protocol::OwnedKeys* has) {
    if (had == has || (had != nullptr && has != nullptr && *had == *has)) return nullptr;
    if (had == nullptr || has == nullptr) return std::make_shared<const std::string>();
    return std::make_shared<const std::string>(protocol::kept_text({{*had, *has}}));
}

// Its keys are told all the same: the node refuses requests of older lists by them.
KeptText nothing_of(const protocol::OwnedKeys& has) {
    protocol::OwnedKeys none;
    none.place = has.place;
    return std::make_shared<const std::string>(protocol::kept_text({{none, has}}));
}

}  // namespace

std::vector<MovedKeys::Change> MovedKeys::change(const NodeSet& last, const NodeSet& next) {
    std::vector<Change> changes(next.members.size());
    const std::vector<protocol::OwnedKeys> had = last.placement->owned(), has = next.placement->owned();
    for (size_t i = 0; i < changes.size(); i++) {
        KeptText& kept = changes[i].kept;
        const auto at = std::ranges::find(last.members, next.members[i].one, &NodeSet::Member::one);
        if (at != last.members.end())
            kept = kept_of(had.empty() ? nullptr : &had[size_t(at - last.members.begin())], has.empty() ? nullptr : &has[i]);
        else if (departed_.contains(next.members[i].one->address))
            kept = has.empty() ? std::make_shared<const std::string>() : nothing_of(has[i]);
        changes[i].joins = kept != nullptr || at == last.members.end();
    }
    for (const NodeSet::Member& member : last.members) departed_.insert(member.one->address);
    for (const NodeSet::Member& member : next.members) departed_.erase(member.one->address);
    return changes;
}

}  // namespace farcached::daemon
