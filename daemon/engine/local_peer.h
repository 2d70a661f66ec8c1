// SPDX-License-Identifier: BSD-3-Clause
// LocalPeer: the embedded node, as one worker sees it: a reader of its memory, and the node's own operations.
//
// Owner: a worker, whose thread alone uses it. The node is shared by all workers, and outlives it.
#pragma once

#include <span>
#include <string_view>

#include "base/node_clock.h"
#include "node/store/node.h"
#include "protocol/op.h"
#include "proxy/local_get.h"

namespace farcached::daemon {

class LocalPeer {
  public:
    explicit LocalPeer(node::Node& node) : node_(node), memory_(node.view()) {}
    LocalPeer(const LocalPeer&) = delete;
    LocalPeer& operator=(const LocalPeer&) = delete;

    node::Node& node() { return node_; }
    // Reads without a lock; accesses_full(): call record_accesses() first.
    proxy::LocalGet& memory() { return memory_; }
    const proxy::LocalGetCounters& counters() const { return memory_.counters(); }
    protocol::Key key(std::string_view bytes) const { return {bytes, memory_.hash(bytes)}; }
    // Gets of these keys follow: prefetches all buckets, then all items.
    void expect(std::span<const protocol::Key> keys) const;
    // Hands the accesses that memory() recorded to the node.
    void record_accesses(NodeSeconds now);

  private:
    node::Node& node_;
    proxy::LocalGet memory_;
};

}  // namespace farcached::daemon
