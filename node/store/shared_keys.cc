// SPDX-License-Identifier: BSD-3-Clause
#include "node/store/shared_keys.h"

#include <algorithm>
#include <mutex>
#include <string_view>

#include "node/items/stub.h"
#include "node/store/partitions.h"

namespace farcached::node {

namespace {

// Of a partition, for one span.
size_t touched_bits(uint64_t memory_bytes, uint32_t partitions) {
    constexpr uint64_t bytes_per_bit = 128;
    return std::max<size_t>(size_t(memory_bytes / bytes_per_bit / partitions), 4096);
}

}  // namespace

SharedKeys::SharedKeys(Partitions& partitions, Arena& arena, uint64_t memory_bytes, const std::atomic<bool>& flush_is_announced)
    : partitions_(partitions),
      arena_(arena),
      touched_bits_(touched_bits(memory_bytes, partitions.count())),
      flush_is_announced_(flush_is_announced) {}

protocol::StoreReply SharedKeys::hold(const protocol::HoldOp& op, NodeSeconds now) {
    protocol::StoreReply reply;
    reply.status = protocol::StoreReply::Status::not_found;
    Partition& partition = partitions_.of(op.key.hash);
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

void SharedKeys::close_copies(NodeSeconds now, uint32_t seconds, uint64_t name) {
    closes_.close(name, now, now + seconds, [this](NodeSeconds until) {
        partitions_.each([until](Partition& partition) { partition.changes().close(until); });
    });
}

void SharedKeys::open_copies(NodeSeconds now, uint64_t name) {
    closes_.open(name, now, [this](NodeSeconds until) {
        partitions_.each([until](Partition& partition) { partition.changes().close(until); });
    });
}

// ---- items whose keys moved (HiddenItems, F3) -----------------------------------------------------------

void SharedKeys::note_touched(NodeSeconds now) {
    partitions_.each([&](Partition& partition) { partition.changes().begin_spans(touched_bits_, partition.latest(now)); });
}

void SharedKeys::joined(uint64_t revision, NodeSeconds now) {
    partitions_.each([&](Partition& partition) {
        const NodeSeconds latest = partition.latest(now);
        partition.changes().joined(touched_bits_, revision, latest, latest + PartialFlush::moved_kept_s);
        partition.hidden().forget_moves();
    });
}

void SharedKeys::looked(uint64_t revision, NodeSeconds now) {
    partitions_.each([&](Partition& partition) { partition.changes().looked(revision, partition.latest(now)); });
}

protocol::GetReply SharedKeys::get_moved(const protocol::GetOp& op, NodeSeconds now, Node::ValueSink value) {
    protocol::GetReply reply;
    Partition& partition = partitions_.of(op.key.hash);
    std::lock_guard hold(partition.lock);
    now = partition.latest(now);
    const Index::Place at = partition.items().locate(op.key);
    const bool is_to_go = flush_is_announced_.load();  // the key's node may not know of that flush
    if (at.slot == nullptr || is_to_go || !partition.hidden().has_moved_since(at.ref, *op.moved_since)) return reply;
    if (expired(arena_, at.ref, now) || is_stub(arena_, at.ref) || is_foreign(arena_, at.ref)) return reply;
    const protocol::ItemMeta meta = partition.items().meta(at.ref);
    if (meta.stale || meta.win_sent) return reply;
    const std::string_view bytes = value_of(arena_, at.ref);
    if (char* const to = value(meta)) bytes.copy(to, bytes.size());
    reply.status = protocol::GetReply::Status::hit;
    reply.why = protocol::Miss::none;
    reply.meta = meta;
    return reply;
}

}  // namespace farcached::node
