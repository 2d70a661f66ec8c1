// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/router.h"

#include "daemon/engine/engine.h"
#include "daemon/engine/links.h"
#include "node/store/prefix_deletes.h"

namespace farcached::daemon {

void LocalPeer::expect(std::span<const protocol::Key> keys) const {
    for (const protocol::Key& key : keys) memory_.prefetch_bucket(key.hash);
    for (const protocol::Key& key : keys) memory_.prefetch_item(key.hash);
}

void LocalPeer::record_accesses(NodeSeconds now) {
    const std::span<const fabric::Access> seen = memory_.take_accesses();
    if (!seen.empty()) node_.record(seen, now);
}

protocol::DoneReply LocalPeer::execute(const protocol::FlushOp& op, NodeSeconds now) {
    if (!op.prefix.empty()) return {node_.prefixes().remove(op.prefix, now)};
    if (op.at.has_value())
        admin_.flush_at(*op.at);
    else
        node_.flush_all(now);
    return {};
}

bool Router::too_large(size_t key_bytes, uint64_t value_bytes) const {
    return local_ != nullptr ? local_->node().too_large(key_bytes, value_bytes) : links_->too_large(key_bytes, value_bytes);
}

void Router::expect(std::span<const protocol::Key> keys) const {
    if (local_ != nullptr) return local_->expect(keys);
    links_->expect(keys);
}

}  // namespace farcached::daemon
