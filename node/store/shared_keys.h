// SPDX-License-Identifier: BSD-3-Clause
// SharedKeys: the keys of a node whose items another node has, too. These are copies (replicas = 2; node/keys/holds.h), and items
// whose keys have moved from node to node (node/keys/touched_keys.h). Each partition decides for its keys
// (node/keys/key_changes.h); this class has the requests about them.
//
// Owner: Node::Impl. Threads: any; no caller has a partition's lock. The lock of CopyCloses is taken before a partition's.
//
// Y1  get_moved() changes nothing, and no item that it returns is hidden by a flush or about to be.
// Y2  All partitions close for copies in the order of the calls (CopyCloses, L3).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/node_clock.h"
#include "node/keys/copy_closes.h"
#include "node/store/node.h"
#include "protocol/op.h"

namespace farcached::node {

class Arena;
class Partitions;

class SharedKeys {
  public:
    // All outlive this. memory_bytes: the node's limit at first. flush_is_announced: a flush is scheduled.
    SharedKeys(Partitions& partitions, Arena& arena, uint64_t memory_bytes, const std::atomic<bool>& flush_is_announced);
    SharedKeys(const SharedKeys&) = delete;
    SharedKeys& operator=(const SharedKeys&) = delete;

    // ---- copies
    // The copy goes, and a hold of its key begins; or a hold ends without a copy.
    protocol::StoreReply hold(const protocol::HoldOp& op, NodeSeconds now);
    // For some seconds no hold and no mark lets an item in that another node has (Holds, H5). open_copies() with the same name ends
    // that earlier; names need not differ. Other calls of close_copies() still count.
    void close_copies(NodeSeconds now, uint32_t seconds, uint64_t name);
    void open_copies(NodeSeconds now, uint64_t name);

    // ---- moved items
    // A get of an item whose key has moved to another node, at op.moved_since or later.
    protocol::GetReply get_moved(const protocol::GetOp& op, NodeSeconds now, Node::ValueSink value);
    // This node has no items, and is about to join a fleet: notes from now on which keys are touched (StoreOp::moved_since).
    void note_touched(NodeSeconds now);
    // Its record is in etcd since this revision. Earlier moves of keys do not count: their epochs may be of another history of
    // etcd.
    void joined(uint64_t revision, NodeSeconds now);
    // It has asked etcd since the last call, which has this revision (TouchedKeys, T2).
    void looked(uint64_t revision, NodeSeconds now);

  private:
    Partitions& partitions_;
    Arena& arena_;
    const size_t touched_bits_;
    const std::atomic<bool>& flush_is_announced_;
    CopyCloses closes_;
};

}  // namespace farcached::node
