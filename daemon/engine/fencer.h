// SPDX-License-Identifier: BSD-3-Clause
// Fencer: one worker's part of the rejoin fence (daemon/remote/fence.h). It lets the worker's peers follow the states of their
// nodes, deletes stale items at a node that is back, and prepares requests that go to another node than their key's own.
//
// Owner: Links. The worker's thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <unordered_map>
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

// Does a node that executes it remove the present item, whatever that is?
template <class Op>
bool overwrites(const Op& op) {
    if constexpr (std::is_same_v<Op, protocol::StoreOp>)
        return op.mode == protocol::StoreOp::Mode::set && !op.cas_compare.has_value();
    if constexpr (std::is_same_v<Op, protocol::DeleteOp>)
        return !op.cas_compare.has_value() && !op.invalidate && !op.remove_value;
    return std::is_same_v<Op, protocol::ForgetOp>;
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
    // Room for so many peers. Throws std::bad_alloc.
    void reserve(size_t peers) { seen_.reserve(peers); }
    // Not within a submission. leaving: other links of these nodes.
    void attend(Peers peers, Peers leaving, const NodeSet& set);
    // When attend() is due without an event, on boottime_ns(); UINT64_MAX: never.
    uint64_t again_at_ns() const { return shared_.links_changed ? 0 : again_at_ns_; }
    void again() { unsettled_ = true; }
    // After all requests of the peers have failed.
    void stop() noexcept;

    // Is a node out of use?
    bool anything_out() const { return out_; }
    // Do keys move (F7)?
    bool anything_moves() const { return moves_; }
    // Is a request for a key of `own`, chosen for `peer`, diverted?
    static bool is_diverted(const LinkPeer& own, const LinkPeer& peer) { return &own != &peer && own.fence().is_out(); }
    // Asks the gutter. Records a mutation, and caps its expiry. Throws std::bad_alloc.
    template <class Op>
    SubmitResult ask_gutter(LinkPeer& own, LinkPeer& gutter, Op& op, proxy::AskOptions options, uint32_t ttl_s);
    // Is the gutter's item of the key a guest?
    bool has_guest(const LinkPeer& own, const LinkPeer& gutter, std::string_view key) const {
        return fences().guest(own.node().fence, gutter.node().fence, key).known;
    }

  private:
    // How a request is sent to a gutter.
    struct Plan {
        proxy::ReplySink* sink = nullptr;  // nullptr: a get that misses, it is not sent
        bool clear = false;                // first a delete of the key, with the same ticket, to clears_
    };
    // A request that was sent to a gutter.
    struct Diverted {
        std::shared_ptr<OneNode> own, gutter;
        Fences::Guest guest;
        uint64_t order;   // of its session and key
        bool changes, overwrites;
        bool checks;      // its answer counts only if the guest is known by then
    };
    class Answers;
    class Clears;
    struct Work {
        std::shared_ptr<OneNode> node;
        Kill kill;
        uint32_t unanswered = 1;  // the submission counts as one
        bool done = true;
    };

    Fences& fences() const { return shared_.nodes.fences(); }
    Plan plan(LinkPeer& own, LinkPeer& gutter, std::string_view key, const proxy::AskOptions& with, bool changes,
              bool overwrites);
    Diverted diverted(proxy::Ticket ticket);
    NodeSeconds node_seconds() const;
    uint64_t guests_until_ns(uint32_t ttl_s);
    void begin(LinkPeer& peer, Kill&& kill, const NodeOptions& options, uint64_t epoch);
    void one_ended(proxy::Ticket ticket, bool done) noexcept;
    void answered(proxy::Ticket ticket, proxy::Answer&) override { one_ended(ticket, true); }
    // A node that executes nothing for an older list has deleted the key when it moved away.
    void failed(proxy::Ticket ticket, const proxy::Failed& failed) override {
        if (failed.refusal.has_value()) works_.at(uint64_t(ticket)).kill.refused = true;
        one_ended(ticket, failed.refusal == protocol::RequestRefusal::old_list);
    }
    void wake_others();
    void follow_moving(Peers peers);

    LinkShared& shared_;
    proxy::ReplySink& tickets_;
    std::vector<Fences::Seen> seen_;
    std::map<uint64_t, Work> works_;  // by ticket
    std::map<proxy::Ticket, Diverted> diverted_;
    std::unordered_map<uint64_t, uint32_t> changing_;  // by Diverted::order: mutations without an answer
    const std::unique_ptr<Answers> answers_;
    const std::unique_ptr<Clears> clears_;
    uint64_t next_work_ = 0;
    uint64_t generation_ = 0;
    uint64_t again_at_ns_ = UINT64_MAX;
    bool unsettled_ = false;
    bool out_ = false;
    bool moves_ = false;
};

}  // namespace farcached::daemon
