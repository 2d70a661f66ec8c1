// SPDX-License-Identifier: BSD-3-Clause
// VerbsRpc: the messages of one connection over RDMA that travel in slots or have a head (verbs_slots.h), and the memory of the
// slots. It numbers messages, chooses a way for each, and takes the arriving ones in order. RpcProxy (rpc_proxy.h) has a
// proxy's part of it. VerbsMessages collects the work requests.
//
// Owner and thread: those of a VerbsQueue.
// X1  The slots of a connection are memory of their own, registered for it alone (S6): request slots for the proxy's WRITEs,
//     reply slots for its READs, or for WRITEs of the node. Where the device has memory windows of type 2, no other key
//     reaches them.
// X2  Both ends begin with SENDs without a head, which count as messages 1, 2, ... A proxy uses slots after a message from the
//     node (B2), a node after it got a message with a head.
// X3  Only replies are left in slots to be READ: the proxy READs while it awaits any (Channel::expect_replies()). All else is
//     sent (Channel::send_at_once()).
// X4  A message is sent if no slot is free or it is too long for one. No message waits for a slot.
// X5  Messages pay for receives if the other end notices them by itself: SENDs, WRITEs with an immediate, and replies in slots
//     (X3). Plain WRITEs do not (VerbsCredits, K2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "fabric/channel.h"
#include "fabric/verbs/rpc_proxy.h"
#include "fabric/verbs/rpc_timing.h"
#include "fabric/verbs/verbs_device.h"
#include "fabric/verbs/verbs_reach.h"
#include "fabric/verbs/verbs_slots.h"

namespace farcached::fabric {

// How a proxy's requests shall travel.
struct RpcWish {
    RpcMode mode = RpcMode::automatic;
    uint32_t fetch_bytes = 0;  // of a READ of a reply, head included; 0: adaptive

    bool operator==(const RpcWish&) const = default;
};

// Slots of this end that the other end reaches.
class OwnSlots {
  public:
    // access: IBV_ACCESS_REMOTE_WRITE or IBV_ACCESS_REMOTE_READ. nullptr: the device has no room for them.
    static std::unique_ptr<OwnSlots> make(const VerbsDevice& device, uint32_t slots, uint32_t slot_bytes, unsigned access);

    SlotPlace place() const;
    ConnectionMemory& memory() const { return *memory_; }
    uint64_t* slot(uint64_t message) const {
        return reinterpret_cast<uint64_t*>(memory_->data() + size_t(message % slots_) * slot_bytes_);
    }
    uint32_t slot_bytes() const { return slot_bytes_; }

  private:
    OwnSlots(uint32_t slots, uint32_t slot_bytes, std::unique_ptr<ConnectionMemory> memory)
        : slots_(slots), slot_bytes_(slot_bytes), memory_(std::move(memory)) {}
    const uint32_t slots_, slot_bytes_;
    std::unique_ptr<ConnectionMemory> memory_;
};

class VerbsRpc {
  public:
    enum class Way : uint8_t {
        bare,   // SEND, without a head
        send,   // SEND, with a head
        plain,  // WRITE into a slot of the other end
        wake,   // the same, with an immediate
        here,   // into a slot of this end, which the other end READs
    };
    explicit VerbsRpc(const VerbsConfig& config)
        : config_(config), out_(config.messages_before), in_(config.messages_before) {}

    // ---- the greeting ---------------------------------------------------------------------------------
    // A node's start: makes slots for requests and for replies, as many as are configured.
    void offer(const VerbsDevice& device);
    // Both are parts of a node's welcome; no slots: it offers none.
    SlotPlace requests() const { return node_.has_value() ? node_->requests->place() : SlotPlace(); }
    SlotPlace replies() const {
        return node_.has_value() && config_.rpc != RpcMode::write ? own_->place() : SlotPlace();
    }
    // A proxy's start, with those. No-op if there are none, or for `rpc = send`.
    void met(const VerbsDevice& device, const RpcWish& wish, const SlotPlace& requests, const SlotPlace& replies);
    // The slots of this end, whose windows are to be bound before the first SEND.
    template <class Do>
    void each_slots(Do&& body) const {
        if (node_.has_value()) body(*node_->requests);
        if (own_ != nullptr) body(*own_);
    }
    // A node's: may the proxy READ replies from slots here?
    bool lends_replies() const { return node_.has_value() && config_.rpc != RpcMode::write; }
    // Before the queue pair is destroyed (B3). The memory goes after it: late READs and WRITEs find it (S12).
    void drop_windows() {
        each_slots([](const OwnSlots& slots) { slots.memory().drop_window(); });
    }
    // The connection is being closed: no READ and no wake from now on.
    void leave() { in_use_ = false; }
    // A message has arrived: the other end's windows are bound (X2).
    void heard() { in_use_ = in_use_ || proxy_.has_value(); }
    bool in_use() const { return in_use_; }

    // ---- sending --------------------------------------------------------------------------------------
    // The way of a message of so many bytes that leaves now.
    Way way(size_t bytes, uint64_t now_ns) const;
    // Composes the message at `to`, and counts it. Returns its length, head included. credits: paid by Way::here.
    uint32_t compose(char* to, Way way, std::string_view bytes, uint64_t now_ns, uint16_t credits = 0);
    void left_bare() { out_.left_in_send(); }
    void leave_here(std::string_view bytes, uint64_t now_ns, uint16_t credits);
    // A node's: has the proxy not reported yet that it took the last reply that stands in a slot to be READ?
    bool replies_stand() const { return last_here_ > out_.seen(); }
    // Of the last composed message.
    uint64_t far_slot() const { return far_.address + out_.last() % far_.slots * far_.slot_bytes(); }
    uint32_t far_key() const { return far_.key; }
    void send_at_once(bool now) { at_once_ = now; }

    // ---- receiving ------------------------------------------------------------------------------------
    // A WRITE with an immediate arrived. False: this end has no slots. send: replies shall be sent from now on.
    bool woken(bool send);
    // Bytes of the next message in order, from a slot; empty: it is not there. Then consume().
    std::string_view front(uint64_t now_ns);
    void consume(size_t bytes) { in_.consume(bytes); }
    // Takes the message of a SEND, if it is the next one. numbered: it has a head.
    bool take_send(std::string_view message, bool numbered, uint64_t now_ns);
    // Is the message of a SEND the next one in order? One without a head is.
    bool is_next(std::string_view message, bool numbered) const {
        SlotHead head;
        if (!numbered || message.size() < sizeof head) return true;
        std::memcpy(&head, message.data(), sizeof head);
        return int32_t(head.sequence - uint32_t(in_.next())) <= 0 || !has_reads();
    }
    // May front() find something that no completion announced?
    bool anything_here() const;
    // The cause of an impossible message; nullptr: none.
    const char* corrupt() const { return corrupt_; }
    uint32_t take_credits() { return std::exchange(credits_, 0); }  // paid by replies that were READ

    // A node's: requests may arrive without a completion (Channel::looks()).
    bool looks(uint64_t now_ns) const { return node_.has_value() && in_use_ && node_->window.open(now_ns); }

    // ---- a proxy's READs and wakes ----------------------------------------------------------------------
    // nullptr: a node's end, or requests travel by SEND alone.
    RpcProxy* proxy() { return proxy_.has_value() ? &*proxy_ : nullptr; }
    // Does it READ for a reply soon? A worker that polls gets it earlier.
    bool fetches() const { return has_reads() && (proxy_->reads().plan().under_way() || next_read_ns() != never_ns); }
    // The times of the next READ and of the next wake; never_ns: none.
    uint64_t next_read_ns() const;
    uint64_t next_wake_ns() const;
    // When a message whose bytes do not come makes the connection end; never_ns: no such message.
    uint64_t next_look_ns() const;
    bool has_reads() const { return proxy_.has_value() && proxy_->has_reads(); }
    // The READs that are due now; the caller posts them all.
    const std::vector<ReplyReads::One>& reads_due(uint64_t now_ns, uint32_t room);

  private:
    struct NodeSide {
        std::unique_ptr<OwnSlots> requests;
        LookWindow window;
        ReplyBy reply_by = ReplyBy::send;
        bool demanded = false;  // to send replies to the requests that are here
    };
    bool look(uint64_t now_ns);
    bool look_at(const OwnSlots& slots, uint64_t now_ns);
    bool take_copy(bool fetched, uint64_t now_ns);
    bool took(const SlotHead& head, bool fetched, uint64_t now_ns);
    bool refuse(const char* what);

    const VerbsConfig& config_;
    SlotPlace far_;                   // where this end WRITEs
    std::unique_ptr<OwnSlots> own_;  // for replies: a node's to be READ, a proxy's to be written
    OutMessages out_;
    SlotReader in_;
    std::vector<char> composed_;     // for Way::here
    bool in_use_ = false, at_once_ = false;
    const char* corrupt_ = nullptr;
    uint32_t credits_ = 0;
    uint64_t last_here_ = 0;  // the last message of Way::here; 0: none
    std::optional<NodeSide> node_;   // at most one of the two
    std::optional<RpcProxy> proxy_;
};

}  // namespace farcached::fabric
