// SPDX-License-Identifier: BSD-3-Clause
// The node as a former owner of keys, and its record of changes of the list (node/store/changed_keys.h).
#include <cstring>

#include "node/store/impl.h"
#include "node/store/stub.h"

namespace farcached::node {

using protocol::GetReply;

namespace {

// Does the item's meaning move with value, flags, expiry time and unique?
bool may_take(Arena& arena, Ref ref) {
    return !is_stub(arena, ref) && (arena.descriptor(ref).flags & (item_stale | item_win_sent)) == 0;
}

}  // namespace

GetReply Node::take(const protocol::Key& key, NodeSeconds now, ValueSink value) {
    GetReply reply;
    Partition& partition = impl_->partition(key.hash);
    std::lock_guard hold(partition.lock);
    now = partition.latest(now);
    impl_->note_change(partition, key.hash, now);
    const Items::Found found = partition.items().find_to_take(key, now);
    reply.why = found.why;
    if (found.place.slot == nullptr || !may_take(impl_->arena, found.place.ref)) return reply;
    const Ref ref = found.place.ref;
    reply.status = GetReply::Status::hit;
    reply.meta = partition.items().meta(ref);
    const std::string_view bytes = value_of(impl_->arena, ref);
    if (char* to = value(reply.meta)) std::memcpy(to, bytes.data(), bytes.size());
    partition.items().kill(ref, found.place.slot, Gone::deleted, now);
    return reply;
}

void Node::list_changed(uint64_t change, uint64_t ago_ms, NodeSeconds open_s, NodeSeconds now) {
    impl_->list_changes.told(change, ago_ms, open_s, now, (boottime_ns() - impl_->started_ns) / 1'000'000);
}

}  // namespace farcached::node
