// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/local_peer.h"

#include <algorithm>
#include <array>

namespace farcached::daemon {

void LocalPeer::expect(std::span<const protocol::Key> keys) const {
    for (const protocol::Key& key : keys) memory_.prefetch_bucket(key.hash);
    for (const protocol::Key& key : keys) memory_.prefetch_item(key.hash);
}

void LocalPeer::record_accesses(NodeSeconds now) {
    std::span<proxy::SeenAccess> seen = memory_.take_accesses();
    if (seen.empty()) return;
    std::array<node::Access, proxy::LocalGet::accesses_max> accesses;
    std::transform(seen.begin(), seen.end(), accesses.begin(), [](const proxy::SeenAccess& one) {
        return node::Access{one.slot_word, one.guard_word, one.hash, one.times};
    });
    node_.record(std::span(accesses).first(seen.size()), now);
}

}  // namespace farcached::daemon
