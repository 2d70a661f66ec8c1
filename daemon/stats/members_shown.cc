// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/stats/members_shown.h"

#include <algorithm>
#include <sstream>

namespace farcached::daemon {

namespace {

const FoundNode* entry_of(const Found* found, std::string_view name) {
    if (found == nullptr) return nullptr;
    const auto entry = std::ranges::find_if(found->nodes, [&](const FoundNode& one) { return one.node.name == name; });
    return entry == found->nodes.end() ? nullptr : &*entry;
}

}  // namespace

void write_members(StatWriter out, const NodesView& nodes, std::string_view source, const Found* found, std::string_view cluster) {
    out.text(members_source_name, source);
    if (found != nullptr && found->epoch != nullptr) out.number(members_epoch_name, epoch_now(found->epoch));
    for (const NodeShown& node : nodes.all()) {
        const MemberShown member{node, entry_of(found, node.name)};
        for (const auto& row : member_rows) out.shown(node.name + ":" + std::string(row.name), row.of(member));
    }
    std::istringstream words{std::string(cluster)};
    std::string word;
    for (size_t i = 1; words >> word; i++) out.text("farcached_" + std::to_string(i), word);
}

}  // namespace farcached::daemon
