// SPDX-License-Identifier: BSD-3-Clause
// Router: where a worker's requests go. The peer is the embedded node, or one of the nodes behind links. A process has one kind
// only, so the kind is a property of the worker, and links choose the peer by key.
//
// Owner: a worker's Context. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/broken.h"
#include "base/node_clock.h"
#include "node/store/node.h"
#include "protocol/frame_reply.h"
#include "protocol/frame_request.h"
#include "protocol/op.h"
#include "proxy/local_get.h"

namespace farcached::daemon {

class Admin;

// LocalPeer: the embedded node, as one worker sees it. It reads the node's memory, and executes clients' operations there. Only
// uploads do not pass here, and gets that AwayGets repeats after it has read the disk.
//
// Owner: a worker, whose thread alone uses it. All workers share the node and admin, which outlive it.
class LocalPeer {
  public:
    LocalPeer(node::Node& node, Admin& admin) : node_(node), memory_(node.view()), admin_(admin) {}
    LocalPeer(const LocalPeer&) = delete;
    LocalPeer& operator=(const LocalPeer&) = delete;

    node::Node& node() { return node_; }
    // Reads without a lock; accesses_full(): call record_accesses() first.
    proxy::LocalGet& memory() { return memory_; }
    const proxy::LocalGetCounters& counters() const { return memory_.counters(); }
    protocol::Key key(std::string_view bytes) const { return {bytes, memory_.hash(bytes)}; }
    // value, lent, away: as in Node::get(); upload: as in Node::store(). A flush with a delay is Admin's.
    protocol::GetReply execute(const protocol::GetOp& op, NodeSeconds now, node::Node::ValueSink value,
                               BorrowedBytes* lent = nullptr, node::Place* away = nullptr) {
        return node_.get(op, now, value, lent, away);
    }
    protocol::StoreReply execute(const protocol::StoreOp& op, NodeSeconds now, node::Upload* upload = nullptr) {
        return node_.store(op, now, upload);
    }
    protocol::DeleteReply execute(const protocol::DeleteOp& op, NodeSeconds now) {
        broken::fail_if_named(op.key.bytes);
        return node_.remove(op, now);
    }
    protocol::ArithReply execute(const protocol::ArithOp& op, NodeSeconds now) { return node_.arith(op, now); }
    protocol::DoneReply execute(const protocol::ForgetOp& op, NodeSeconds now) {
        node_.forget(op.key, now);
        return {};
    }
    protocol::DoneReply execute(const protocol::FlushOp& op, NodeSeconds now);
    // Gets of these keys follow: prefetches all buckets, then all items.
    void expect(std::span<const protocol::Key> keys) const;
    // Hands the accesses that memory() recorded to the node.
    void record_accesses(NodeSeconds now);

  private:
    node::Node& node_;
    proxy::LocalGet memory_;
    Admin& admin_;
};

class Links;

class Router {
  public:
    // To be replaced before the first request. The peers are borrowed.
    Router() = default;
    explicit Router(LocalPeer& local) : local_(&local) {}
    explicit Router(Links& links) : links_(&links) {}

    // nullptr: the items are in nodes behind links().
    LocalPeer* local() const { return local_; }
    // Only if local() is nullptr.
    Links& links() const { return *links_; }
    // False: nodes behind links have them, and their statistics.
    bool has_items() const { return local_ != nullptr; }
    // May gets find their items in memory that is mapped here? If they touch items, only in that of the embedded node.
    bool reads_here(bool touching) const { return local_ != nullptr || !touching; }

    // With its hash for the embedded node; each node behind a link has a hash of its own.
    protocol::Key key(std::string_view bytes) const {
        return local_ != nullptr ? local_->key(bytes) : protocol::Key{bytes, 0};
    }
    // True: an item of this size is refused as too large.
    bool too_large(size_t key_bytes, uint64_t value_bytes) const;
    // Of such an item, as in stats slabs; 0: only the nodes know.
    uint8_t size_class(size_t key_bytes, uint64_t value_bytes) const {
        return local_ != nullptr ? local_->node().size_class(key_bytes, value_bytes) : 0;
    }
    // Prefetches for gets of these keys, made by key(). It affects no answer.
    void expect(std::span<const protocol::Key> keys) const;
    // Hands recorded accesses to the embedded node. Engines call it before a locked operation that shows access times (mg h, l,
    // t; me) or rewrites the item with its history (touch, incr, append, md I).
    void record_accesses(NodeSeconds now) const {
        if (local_ != nullptr) local_->record_accesses(now);
    }

  private:
    LocalPeer* local_ = nullptr;
    Links* links_ = nullptr;
};

}  // namespace farcached::daemon
