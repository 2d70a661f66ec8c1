// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/remote/former_set.h"

#include <algorithm>
#include <string>

#include "base/hash.h"
#include "daemon/remote/nodes.h"
#include "protocol/op.h"
#include "protocol/owned_keys.h"

namespace farcached::daemon {

namespace {

constexpr uint64_t second_ns = 1'000'000'000;

// Names of nodes, and their keys. Empty: any node may have any key.
std::string text_of(const NodeSet& set) {
    const std::vector<protocol::OwnedKeys> owned = set.placement->owned();
    std::vector<std::string> nodes;
    for (size_t i = 0; i < owned.size(); i++)
        nodes.push_back(set.members[i].one->name + '\n' + protocol::kept_text({{owned[i]}}));
    std::ranges::sort(nodes);
    std::string text;
    for (const std::string& node : nodes) text += std::to_string(node.size()) + '\n' + node;
    return text;
}

bool reads_only(const NodeSet& set) {
    return set.options.key != nullptr && set.options.key->role() == protocol::AuthRole::reader;
}

}  // namespace

std::shared_ptr<const FormerSet> former_set(const NodeSet* last, const NodeSet& next, uint32_t warm_up_s, uint64_t now_ns) {
    if (last == nullptr || warm_up_s == 0 || reads_only(next)) return nullptr;
    if (next.options.failover || last->options.failover) return nullptr;
    const std::string had = text_of(*last), has = text_of(next);
    if (had.empty() || has.empty()) return nullptr;
    if (had == has) return last->hands_over;
    auto former = std::make_shared<FormerSet>();
    former->placement = last->placement;
    for (const NodeSet::Member& member : last->members) former->nodes.push_back(member.one);
    const std::string both = std::to_string(had.size()) + '\n' + had + has;
    former->change = hash_bytes(both.data(), both.size(), 0) | 1;
    former->since_ns = now_ns;
    former->until_ns = now_ns + warm_up_s * second_ns;
    return former;
}

}  // namespace farcached::daemon
