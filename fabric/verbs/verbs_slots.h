// SPDX-License-Identifier: BSD-3-Clause
// The messages of a connection over RDMA that travel in slots: memory of one end that the other end WRITEs or READs. Pure: heads,
// order, and which slot is free. VerbsRpc (verbs_rpc.h) registers the memory and chooses a way for each message.
//
//   request slots of the node    the proxy WRITEs them        the node looks there, or an immediate wakes it
//   reply slots of the node      the proxy READs them         the node posts nothing (`rfp`)
//   reply slots of the proxy     the node WRITEs them         with an immediate, which wakes the proxy (`write`)
//
// Owner and thread: those of a VerbsQueue.
// L1  Each direction numbers its messages from 1, in slots and in SENDs alike. The receiver takes them in this order. Numbers have
//     64 bits at both ends. A head carries the lower half, and the check depends on the upper one: a message that stands in its
//     slot since 2^32 messages or more is never whole.
// L2  Message n is in slot n % slots, or in a SEND. Its sender reuses the slot only after the receiver has reported that it took
//     the slot's last message (SlotHead::seen; S12).
// L3  A message is whole if its check matches: nothing orders the bytes of a WRITE or a READ. Slots are never cleared.
// L4  The receiver copies a message before it uses any field (S10).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <type_traits>

#include "base/broken.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/limits.h"
#include "protocol/words.h"

namespace farcached::fabric {

// How the node transmits a reply.
enum class ReplyBy : uint8_t { send, write, fetch };

constexpr uint32_t slots_most = limits::rfp_slots_max;  // per direction

// Ahead of the bytes of a message, in a slot or a SEND. In memory order, little endian:
// 0       8          12       16     20         24           28       30        31
// | check | sequence | length | seen | awake_us | service_us | credits | flags  | 0 |
struct SlotHead {
    uint64_t check = 0;       // XXH3-64 of the rest of head and bytes, seeded by the upper half of the number
    uint32_t sequence = 0;    // the lower half of the number (L1)
    uint32_t length = 0;      // of the bytes behind the head
    uint32_t seen = 0;        // the last message of the other direction that the sender has taken
    uint32_t awake_us = 0;    // of a reply: the node looks at its slots for so long
    uint32_t service_us = 0;  // of a reply: from taking the last request to this reply
    uint16_t credits = 0;     // of a reply in a slot that is READ: receives that it pays for (VerbsCredits)
    uint8_t flags = 0;        // of a request: ReplyBy in two bits, and names_place
    uint8_t reserved = 0;

    static constexpr uint8_t names_place = 4;  // the bytes begin with the SlotPlace of the proxy's reply slots
    ReplyBy reply_by() const { return ReplyBy(std::min<uint8_t>(flags & 3, 2)); }
};
static_assert(sizeof(SlotHead) == 32);
static_assert(std::has_unique_object_representations_v<SlotHead>, "no byte of it is padding");

// Slots of one end, as a WRITE or a READ names them.
struct SlotPlace {
    uint64_t address = 0;
    uint32_t key = 0;
    uint16_t slots = 0;     // 0: none
    uint16_t slot_64s = 0;  // size of a slot, in units of 64 bytes

    uint32_t slot_bytes() const { return uint32_t(slot_64s) * 64; }
    uint64_t bytes() const { return uint64_t(slots) * slot_bytes(); }
};
static_assert(sizeof(SlotPlace) == 16);
// Can slots lie there? None is possible, too.
inline bool possible(const SlotPlace& place) {
    if (place.slots == 0) return true;
    return place.slots <= slots_most && place.slot_bytes() > sizeof(SlotHead) && place.address % 8 == 0 &&
           place.address <= UINT64_MAX - place.bytes();
}

inline uint64_t message_check(const char* message, uint32_t length, uint64_t number) {
    return hash_bytes(message + sizeof(uint64_t), sizeof(SlotHead) - sizeof(uint64_t) + length, /* seed= */ number >> 32);
}

// Writes a message to private memory: the head, with number, length and check, then the two parts of its bytes.
inline void compose_message(char* to, uint64_t number, SlotHead head, std::string_view first, std::string_view second) {
    head.sequence = uint32_t(number);
    head.length = uint32_t(first.size() + second.size());
    std::memcpy(to, &head, sizeof head);
    if (!first.empty()) std::memcpy(to + sizeof head, first.data(), first.size());
    if (!second.empty()) std::memcpy(to + sizeof head + first.size(), second.data(), second.size());
    head.check = message_check(to, head.length, number);
    std::memcpy(to, &head.check, sizeof head.check);
}

enum class MessageState : uint8_t {
    absent,      // another message, or none
    incomplete,  // the check does not match (L3)
    longer,      // its head is there, and more bytes than are readable here
    whole,
};

// Copies message `number` from a slot to `copy`, which has room for slot_bytes. readable: bytes at `slot` that may be read.
inline MessageState copy_message(char* copy, const uint64_t* slot, uint32_t readable, uint32_t slot_bytes, uint64_t number) {
    const auto copy_out = [&](uint32_t from, uint32_t bytes) { words::copy_out(copy + from, slot, from, bytes, [] {}); };
    CHECK(readable >= sizeof(SlotHead));
    copy_out(0, sizeof(SlotHead));
    SlotHead head;
    std::memcpy(&head, copy, sizeof head);
    if (head.sequence != uint32_t(number)) return MessageState::absent;
    if (head.length > slot_bytes - sizeof head) return MessageState::incomplete;
    if (head.length > readable - sizeof head) return MessageState::longer;
    copy_out(sizeof head, head.length);
    return message_check(copy, head.length, number) == head.check ? MessageState::whole : MessageState::incomplete;
}

// The number of the message in a slot, perhaps incomplete.
inline uint32_t slot_number(const uint64_t* slot) {
    static_assert(offsetof(SlotHead, sequence) == 8);
    return uint32_t(words::load_relaxed(slot + 1));
}

// Stores a composed message in a slot that others READ (L3).
inline void publish_message(uint64_t* slot, const char* message, uint32_t bytes) {
    words::copy_in(slot, sizeof(SlotHead), message + sizeof(SlotHead), bytes - sizeof(SlotHead));
    words::copy_in(slot, 0, message, sizeof(SlotHead));
}

// The messages that this end sends: their numbers, and the slots in use (L2).
class OutMessages {
  public:
    // before: the number before its first one; not 0 in tests alone.
    explicit OutMessages(uint64_t before = 0) : last_(before), seen_(before) {}
    // No slots until then.
    void use_slots(uint32_t slots) {
        CHECK(slots <= slots_most);
        slots_ = slots;
    }
    uint64_t next() const { return last_ + 1; }
    uint64_t last() const { return last_; }
    uint32_t slot() const { return uint32_t(next() % slots_); }
    bool slot_free() const {
        if (slots_ == 0) return false;
        if (broken::s12_reuse_slots) return true;
        return held_[slot()] <= seen_;
    }
    void left_in_slot() {
        held_[slot()] = next();
        last_++;
    }
    void left_in_send() { last_++; }
    // The receiver took everything up to `seen`; false: impossible.
    bool saw(uint32_t seen) {
        const uint32_t behind = uint32_t(last_) - seen;
        if (behind > last_ - seen_) return false;
        seen_ = last_ - behind;
        return true;
    }
    uint64_t seen() const { return seen_; }

  private:
    uint32_t slots_ = 0;
    uint64_t last_, seen_;
    std::array<uint64_t, slots_most> held_{};  // number of the last message in each; 0: none
};

// The messages that this end takes, in order, and the copy of the present one. It knows since when the next one is incomplete,
// wherever it looked for it.
class SlotReader {
  public:
    // before: as of the other end's OutMessages.
    explicit SlotReader(uint64_t before = 0) : next_(before + 1) {}
    // No slots until then.
    void use_slots(uint32_t slot_bytes) {
        slot_bytes_ = slot_bytes;
        copy_ = std::make_unique<char[]>(slot_bytes);
    }
    uint64_t next() const { return next_; }
    uint64_t taken() const { return next_ - 1; }
    // Copies message next() from a slot of which so many bytes are readable.
    MessageState look(const uint64_t* slot, uint32_t readable, uint64_t now_ns) {
        const MessageState state = copy_message(copy_.get(), slot, readable, slot_bytes_, next_);
        if (state == MessageState::whole) incomplete_since_ns_ = 0;
        if (state == MessageState::incomplete && incomplete_since_ns_ == 0) incomplete_since_ns_ = now_ns;
        return state;
    }
    // Of message next(); 0: no look has found it incomplete, or the last one found it whole.
    uint64_t incomplete_since_ns() const { return incomplete_since_ns_; }
    // For so long, at now_ns.
    uint64_t incomplete_for_ns(uint64_t now_ns) const {
        return incomplete_since_ns_ == 0 ? 0 : now_ns - std::min(now_ns, incomplete_since_ns_);
    }
    // After look() found it whole, or at least its head.
    SlotHead head() const {
        SlotHead head;
        std::memcpy(&head, copy_.get(), sizeof head);
        return head;
    }
    // The bytes of the copied message, if it is whole.
    std::string_view copied() const { return {copy_.get() + sizeof(SlotHead), head().length}; }
    // Takes the copied message; `skip` of its bytes are not the stream's.
    void take_copy(uint32_t skip) {
        from_ = uint32_t(sizeof(SlotHead)) + skip;
        end_ = uint32_t(sizeof(SlotHead)) + head().length;
        take_send();
    }
    void take_send() {
        next_++;
        incomplete_since_ns_ = 0;
    }
    std::string_view rest() const {
        if (from_ == end_) return {};
        return {copy_.get() + from_, end_ - from_};
    }
    void consume(size_t bytes) {
        CHECK(bytes <= end_ - from_);
        from_ += uint32_t(bytes);
    }

  private:
    uint32_t slot_bytes_ = 0;
    uint64_t next_;
    uint64_t incomplete_since_ns_ = 0;
    std::unique_ptr<char[]> copy_;
    uint32_t from_ = 0, end_ = 0;  // bytes of the copy that were not consumed yet
};

}  // namespace farcached::fabric
