// SPDX-License-Identifier: BSD-3-Clause
// Fencer: one worker's part of the rejoin fence (daemon/remote/fence.h). It lets the worker's peers follow the states of their
// nodes, deletes stale items at a node that is back, and prepares mutations that go to another node than their key's own.
//
// Owner: Links. The worker's thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "base/node_clock.h"
#include "daemon/engine/link_peer.h"
#include "daemon/engine/link_shared.h"
#include "daemon/remote/fence.h"
#include "protocol/op.h"
#include "proxy/ask.h"

namespace farcached::daemon {

// Can the operation change an item, or its expiry?
template <class Op>
bool changes(const Op& op) {
    if constexpr (std::is_same_v<Op, protocol::GetOp>) return op.touch.has_value() || op.vivify.has_value();
    return true;
}

// Lowers the expiry times that the operation may give an item to `limit`. True: one was later.
bool cap_expiry(protocol::GetOp& op, NodeSeconds limit);
bool cap_expiry(protocol::StoreOp& op, NodeSeconds limit);
bool cap_expiry(protocol::DeleteOp& op, NodeSeconds limit);
bool cap_expiry(protocol::ArithOp& op, NodeSeconds limit);
inline bool cap_expiry(protocol::ForgetOp&, NodeSeconds) { return false; }

class Fencer final : private proxy::ReplySink {
  public:
    using Peers = std::span<const std::unique_ptr<LinkPeer>>;

    // Both outlive this.
    Fencer(LinkShared& shared, proxy::ReplySink& tickets);
    ~Fencer() override;
    Fencer(const Fencer&) = delete;
    Fencer& operator=(const Fencer&) = delete;

    // Is attend() due, at the end of a tick?
    bool due() const { return unsettled_ || shared_.links_changed || generation_ != fences().generation(); }
    // Not within a submission.
    void attend(Peers peers, const NodeOptions& options);
    // When attend() is due without an event, on boottime_ns(); UINT64_MAX: never.
    uint64_t again_at_ns() const { return shared_.links_changed ? 0 : again_at_ns_; }
    void again() { unsettled_ = true; }
    // After all requests of the peers have failed.
    void stop() noexcept;

    // Is a node out of use?
    bool anything_out() const { return out_; }
    // Is a mutation of a key of `own`, chosen for `peer`, diverted?
    static bool is_diverted(const LinkPeer& own, const LinkPeer& peer) { return &own != &peer && own.is_out(); }
    // Before such a mutation is sent: records it, and caps its expiry. Returns the sink of its answer. Throws std::bad_alloc.
    template <class Op>
    proxy::ReplySink& divert(LinkPeer& own, LinkPeer& gutter, Op& op, uint32_t ttl_s) {
        proxy::ReplySink& sink = guests_at(gutter);
        const bool capped = ttl_s != 0 && cap_expiry(op, node_seconds() + ttl_s);
        fences().divert(own.node().fence, gutter.node().fence, op.key.bytes, guests_until_ns(ttl_s), capped);
        return sink;
    }

  private:
    class Guests;
    struct Work {
        std::shared_ptr<OneNode> node;
        Kill kill;
        uint32_t unanswered = 1;  // the submission counts as one
        bool done = true;
    };

    Fences& fences() const { return shared_.nodes.fences(); }
    proxy::ReplySink& guests_at(LinkPeer& gutter);
    NodeSeconds node_seconds() const;
    uint64_t guests_until_ns(uint32_t ttl_s);
    void begin(LinkPeer& peer, Kill&& kill, const NodeOptions& options);
    void one_ended(proxy::Ticket ticket, bool done) noexcept;
    void answered(proxy::Ticket ticket, proxy::Answer&) override { one_ended(ticket, true); }
    void failed(proxy::Ticket ticket, const proxy::Failed&) override { one_ended(ticket, false); }
    void wake_others();

    LinkShared& shared_;
    proxy::ReplySink& tickets_;
    std::vector<Fences::Seen> seen_;
    std::map<uint64_t, Work> works_;  // by ticket
    std::map<std::shared_ptr<OneNode>, std::unique_ptr<Guests>> guests_;
    uint64_t next_work_ = 0;
    uint64_t generation_ = 0;
    uint64_t again_at_ns_ = UINT64_MAX;
    bool unsettled_ = false;
    bool out_ = false;
};

}  // namespace farcached::daemon
