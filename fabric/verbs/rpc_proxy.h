// SPDX-License-Identifier: BSD-3-Clause
// RpcProxy: a proxy's end of a connection whose requests travel in slots (verbs_slots.h). It chooses how requests and their replies
// travel, and knows when the proxy READs replies or wakes the node. ReplyReads: those READs. VerbsRpc numbers the messages and
// takes them.
//
// Owner and thread: those of a VerbsQueue.
// J1  READs are due while a reply may stand in the node's slots: until a reply reports that the node has taken a later request,
//     one whose reply it sends.
// J2  The READs of one doorbell end together, and their replies are taken before the next ones are posted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/mapping.h"
#include "base/rpc_mode.h"
#include "fabric/verbs/rpc_timing.h"
#include "fabric/verbs/verbs_device.h"
#include "fabric/verbs/verbs_slots.h"

namespace farcached::fabric {

// A proxy's READs of replies from the node's slots. Those of one doorbell end together. When a reply is longer than the READ, one
// more READ takes the rest.
class ReplyReads {
  public:
    // nullptr: the device has no room for the memory where they land.
    static std::unique_ptr<ReplyReads> make(const VerbsDevice& device, const SlotPlace& far, uint32_t fixed_bytes);

    struct One {
        ibv_sge landing;
        uint64_t far;  // address in the node's slots
    };
    FetchPlan& plan() { return plan_; }
    uint32_t far_key() const { return far_.key; }
    // The time of the next READ, if a reply may be in a slot.
    uint64_t next_ns() const { return unjudged_ ? never_ns : rest_bytes_ != 0 ? 0 : plan_.next_ns(); }
    // The READs that are due, of messages from `next` on, `count` of them at most. The caller posts them all.
    const std::vector<One>& due(uint64_t next, uint32_t count, uint64_t now_ns);
    bool reads_rest() const { return rest_bytes_ != 0; }
    // So many of them have completed.
    void landed(uint32_t count, uint64_t now_ns) {
        CHECK(count <= posting_.size() - landed_);
        landed_ += count;
        if (landed_ < posting_.size()) return;
        plan_.landed(now_ns);
        unjudged_ = true;
    }
    bool anything_landed() const { return unjudged_; }
    // Copies the reader's next message if the READs brought it: the caller takes it, and reports it to the plan.
    bool look(SlotReader& reader, uint64_t now_ns);
    // Two READs in a row found no reply: the node shall send its replies. True once.
    bool take_demand() { return std::exchange(demand_, false); }
    uint64_t take_early() { return std::exchange(early_, 0); }

  private:
    ReplyReads(const SlotPlace& far, uint32_t fixed_bytes)
        : far_(far), plan_(far.slot_bytes(), fixed_bytes), memory_(Mapping::Kind::private_memory, far.bytes(), false) {}
    uint64_t* landing(uint64_t message) const {
        return reinterpret_cast<uint64_t*>(memory_.data() + size_t(message % far_.slots) * far_.slot_bytes());
    }
    void add(uint64_t message, uint32_t from, uint32_t bytes);

    const SlotPlace far_;
    FetchPlan plan_;
    Mapping memory_;
    MemoryRegion registered_;
    std::vector<One> posting_;
    size_t landed_ = 0;               // of posting_
    uint64_t first_ = 0;              // message that the last READs asked for
    uint32_t count_ = 0;              // and how many from it on
    uint32_t readable_ = 0;           // bytes of each that landed, or will
    uint32_t rest_bytes_ = 0;         // of message first_ that the next READ takes; 0: none
    bool unjudged_ = false, demand_ = false;
    uint32_t brought_ = 0;  // replies that the last READs brought
    uint64_t early_ = 0;
};

class RpcProxy {
  public:
    // reads: nullptr if replies are not READ.
    RpcProxy(RpcMode wanted, std::unique_ptr<ReplyReads> reads)
        : choice_(wanted, reads != nullptr ? RpcMode::rfp : RpcMode::write), reads_(std::move(reads)) {}

    const RpcChoice& choice() const { return choice_; }
    bool has_reads() const { return reads_ != nullptr; }
    ReplyReads& reads() const { return *reads_; }  // if has_reads()

    // ---- requests -------------------------------------------------------------------------------------
    // Does the node look at its slots?
    bool node_awake(uint64_t now_ns) const { return awake_.awake(now_ns); }
    // How the node shall transmit the replies to what leaves now. slots: this end has slots for them.
    ReplyBy reply_by(bool slots) const {
        const RpcMode mode = choice_.now();
        if (mode == RpcMode::rfp && reads_->plan().fetches()) return ReplyBy::fetch;
        return mode == RpcMode::send || !slots ? ReplyBy::send : ReplyBy::write;
    }
    // A request leaves. plain: no event announces it to the node.
    void asked(uint64_t number, ReplyBy by, bool plain, uint64_t now_ns);
    // Has a request named the place of this end's slots?
    bool told_place() const { return told_place_; }
    void name_place() { told_place_ = true; }

    // ---- replies --------------------------------------------------------------------------------------
    // Copies the reader's next message if a READ brought it. Only if has_reads().
    bool look(SlotReader& reader, uint64_t now_ns);
    // A reply is taken. last: number of the last request that has left.
    void took(const SlotHead& head, bool fetched, uint64_t last, uint64_t now_ns);

    // ---- READs and wakes --------------------------------------------------------------------------------
    // Channel::expect_replies(). Only if has_reads().
    void expect_replies(bool any, uint64_t now_ns) { reads_->plan().due(any, now_ns); }
    // The time of the next READ and of the next wake; never_ns: none. seen: the last request that the node has taken.
    uint64_t next_read_ns(uint64_t seen) const;
    uint64_t next_wake_ns() const { return demands_send_ ? 0 : awake_.wake_ns(); }
    // The wake that is due leaves. True: with the demand to send replies.
    bool wake(uint64_t now_ns) {
        awake_.woken(now_ns);
        return std::exchange(demands_send_, false);
    }

  private:
    struct Left {
        uint64_t at_ns = 0;
        RpcMode mode = RpcMode::send;
    };
    RpcChoice choice_;
    const std::unique_ptr<ReplyReads> reads_;
    NodeAwake awake_;
    std::array<Left, slots_most> left_ = {};  // requests, by number
    uint64_t last_fetched_ = 0;               // the last request whose reply is to be READ
    bool told_place_ = false, demands_send_ = false;
};

}  // namespace farcached::fabric
