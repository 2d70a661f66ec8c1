// SPDX-License-Identifier: BSD-3-Clause
// The node's operations on its copies of other nodes' items (node/store/holds.h), and on items that move from node to node.
#include <algorithm>
#include <mutex>

#include "node/store/impl.h"
#include "protocol/op.h"

namespace farcached::node {

protocol::StoreReply Node::hold(const protocol::HoldOp& op, NodeSeconds now) {
    protocol::StoreReply reply;
    reply.status = protocol::StoreReply::Status::not_found;
    Partition& partition = impl_->partitions.of(op.key.hash);
    std::lock_guard hold(partition.lock);
    now = partition.latest(now);
    if (op.release != 0) {
        partition.changes().end_hold(op.key.hash, op.release, now);
        return reply;
    }
    reply.cas = partition.changes().begin_hold(op.key.hash, op.seconds, now);
    Items::Found found = partition.items().find(op.key, now);
    if (found.place.slot != nullptr) partition.items().kill(found.place.ref, found.place.slot, Gone::deleted, now);
    return reply;
}

void Node::close_copies(NodeSeconds now, uint32_t seconds, uint64_t name) {
    impl_->copy_closes.close(name, now, now + seconds, [this](NodeSeconds until) {
        impl_->partitions.each([until](Partition& partition) { partition.changes().close(until); });
    });
}

void Node::open_copies(NodeSeconds now, uint64_t name) {
    impl_->copy_closes.open(name, now, [this](NodeSeconds until) {
        impl_->partitions.each([until](Partition& partition) { partition.changes().close(until); });
    });
}

// ---- items whose keys moved (HiddenItems, F3) -----------------------------------------------------------

namespace {

// Of a partition, for one span.
size_t touched_bits(const Node::Impl& impl) {
    constexpr uint64_t bytes_per_bit = 128;
    return std::max<size_t>(size_t(impl.config.memory_bytes / bytes_per_bit / impl.partitions.count()), 4096);
}

}  // namespace

void Node::note_touched(NodeSeconds now) {
    impl_->partitions.each(
        [&](Partition& partition) { partition.changes().begin_spans(touched_bits(*impl_), partition.latest(now)); });
}

void Node::joined(uint64_t revision, NodeSeconds now) {
    impl_->partitions.each([&](Partition& partition) {
        const NodeSeconds latest = partition.latest(now);
        partition.changes().joined(touched_bits(*impl_), revision, latest, latest + moved_kept_s);
        partition.hidden().forget_moves();
    });
}

void Node::looked(uint64_t revision, NodeSeconds now) {
    impl_->partitions.each([&](Partition& partition) { partition.changes().looked(revision, partition.latest(now)); });
}

protocol::GetReply Node::get_moved(const protocol::GetOp& op, NodeSeconds now, ValueSink value) {
    protocol::GetReply reply;
    Partition& partition = impl_->partitions.of(op.key.hash);
    std::lock_guard hold(partition.lock);
    now = partition.latest(now);
    const Index::Place at = partition.items().locate(op.key);
    const bool is_to_go = impl_->flush_announced.load();  // the key's node may not know of that flush
    if (at.slot == nullptr || is_to_go || !partition.hidden().has_moved_since(at.ref, *op.moved_since)) return reply;
    if (expired(impl_->arena, at.ref, now) || is_stub(impl_->arena, at.ref) || is_foreign(impl_->arena, at.ref)) return reply;
    const protocol::ItemMeta meta = partition.items().meta(at.ref);
    if (meta.stale || meta.win_sent) return reply;
    const std::string_view bytes = value_of(impl_->arena, at.ref);
    if (char* const to = value(meta)) bytes.copy(to, bytes.size());
    reply.status = protocol::GetReply::Status::hit;
    reply.why = protocol::Miss::none;
    reply.meta = meta;
    return reply;
}

}  // namespace farcached::node
