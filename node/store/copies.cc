// SPDX-License-Identifier: BSD-3-Clause
// The node's operations on its copies of other nodes' items (node/store/holds.h).
#include <algorithm>
#include <mutex>

#include "node/store/impl.h"
#include "protocol/op.h"

namespace farcached::node {

protocol::StoreReply Node::hold(const protocol::HoldOp& op, NodeSeconds now) {
    protocol::StoreReply reply;
    reply.status = protocol::StoreReply::Status::not_found;
    Partition& partition = impl_->partition(op.key.hash);
    std::lock_guard hold(partition.lock);
    now = partition.latest(now);
    if (op.release != 0) {
        partition.holds().end(op.key.hash, op.release, now);
        return reply;
    }
    reply.cas = partition.holds().begin(op.key.hash, op.seconds, now);
    partition.marks().note(op.key.hash);
    Items::Found found = partition.items().find(op.key, now);
    if (found.place.slot != nullptr) partition.items().kill(found.place.ref, found.place.slot, Gone::deleted, now);
    return reply;
}

void Node::close_copies(NodeSeconds now, uint32_t seconds, bool ends_itself) {
    std::lock_guard hold(impl_->closing);
    if (now >= impl_->closed_until) impl_->closers = 0;
    if (ends_itself)
        impl_->closed_itself_until = now + seconds;
    else
        impl_->closers++;
    impl_->closed_until = std::max(impl_->closed_until, now + seconds);
    impl_->each_partition([&](Partition& partition) { partition.close_copies(impl_->closed_until); });
}

void Node::skip_cas() {
    impl_->each_partition([](Partition& partition) { partition.items().skip_cas(); });
}

void Node::open_copies(NodeSeconds now) {
    std::lock_guard hold(impl_->closing);
    if (now >= impl_->closed_until) impl_->closers = 0;
    if (impl_->closers == 0 || --impl_->closers != 0) return;
    impl_->closed_until = std::max(impl_->closed_itself_until, now);
    impl_->each_partition([&](Partition& partition) { partition.close_copies(impl_->closed_until); });
}

}  // namespace farcached::node
