// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/verbs/verbs_rpc.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/node_clock.h"

namespace farcached::fabric {

namespace {

// A message whose bytes are still not there after so long never will be: a WRITE lasts half a second at most (verbs_flight_us()).
constexpr uint64_t incomplete_ns_max = 2'000'000'000;
constexpr uint64_t incomplete_look_ns = 1'000'000;  // for so long an end looks again and again

}  // namespace

// ---- the memory of slots ----------------------------------------------------------------------------

std::unique_ptr<OwnSlots> OwnSlots::make(const VerbsDevice& device, uint32_t slots, uint32_t slot_bytes, unsigned access) {
    CHECK(slots > 0);
    CHECK(slot_bytes % 64 == 0);
    auto memory = ConnectionMemory::make(device, size_t(slots) * slot_bytes, access);
    return memory == nullptr ? nullptr : std::unique_ptr<OwnSlots>(new OwnSlots(slots, slot_bytes, std::move(memory)));
}

SlotPlace OwnSlots::place() const {
    return {memory_->address(), memory_->key(), uint16_t(slots_), uint16_t(slot_bytes_ / 64)};
}

// ---- a proxy's READs --------------------------------------------------------------------------------

std::unique_ptr<ReplyReads> ReplyReads::make(const VerbsDevice& device, const SlotPlace& far, uint32_t fixed_bytes) {
    std::unique_ptr<ReplyReads> made(new ReplyReads(far, fixed_bytes));
    made->registered_.reset(ibv_reg_mr(device.domain(), made->memory_.data(), far.bytes(), IBV_ACCESS_LOCAL_WRITE));
    return made->registered_ == nullptr ? nullptr : std::move(made);
}

void ReplyReads::add(uint64_t message, uint32_t from, uint32_t bytes) {
    const uint64_t landing_at = reinterpret_cast<uint64_t>(landing(message)) + from;
    const uint64_t far = far_.address + message % far_.slots * far_.slot_bytes() + from;
    posting_.push_back({{landing_at, bytes, registered_->lkey}, far});
}

const std::vector<ReplyReads::One>& ReplyReads::due(uint64_t next, uint32_t count, uint64_t now_ns) {
    CHECK(landed_ == posting_.size());
    posting_.clear();
    landed_ = 0;
    if (next_ns() > now_ns || count == 0) return posting_;
    if (first_ != next) rest_bytes_ = 0;  // the other end sent it, too
    if (rest_bytes_ != 0) {
        add(next, readable_, rest_bytes_);
        readable_ += std::exchange(rest_bytes_, 0);
    } else {
        first_ = next;
        count_ = std::min<uint32_t>(count, far_.slots);
        readable_ = plan_.bytes();
        brought_ = 0;
        for (uint32_t i = 0; i < count_; i++) add(next + i, 0, readable_);
    }
    plan_.posted(now_ns);
    return posting_;
}

bool ReplyReads::look(SlotReader& reader, uint64_t now_ns) {
    if (!unjudged_) return false;
    const uint64_t next = reader.next();
    if (next - first_ < count_) {
        const MessageState state = reader.look(landing(next), readable_, now_ns);
        if (state == MessageState::whole) {
            brought_++;
            return true;
        }
        if (state == MessageState::longer) {
            rest_bytes_ = uint32_t(sizeof(SlotHead)) + reader.head().length - readable_;
            first_ = next;
            count_ = 1;
            unjudged_ = false;
            return false;
        }
    }
    unjudged_ = false;
    early_ += count_ - brought_;
    if (brought_ != 0) return false;
    demand_ = plan_.found_none(now_ns) || demand_;
    return false;
}

// ---- the greeting -----------------------------------------------------------------------------------

void VerbsRpc::offer(const VerbsDevice& device) {
    if (config_.slots == 0 || config_.rpc == RpcMode::send) return;
    if (config_.slot_bytes > config_.message_bytes) return;  // a message is composed in a buffer of a SEND
    auto requests = OwnSlots::make(device, config_.slots, config_.slot_bytes, IBV_ACCESS_REMOTE_WRITE);
    auto replies = OwnSlots::make(device, config_.slots, config_.slot_bytes, IBV_ACCESS_REMOTE_READ);
    if (requests == nullptr || replies == nullptr) return;
    own_ = std::move(replies);
    node_.emplace(NodeSide{std::move(requests), LookWindow(config_.look_us_max)});
    out_.use_slots(config_.slots);
    in_.use_slots(config_.slot_bytes);
    composed_.resize(config_.slot_bytes);
}

void VerbsRpc::met(const VerbsDevice& device, const RpcWish& wish, const SlotPlace& requests, const SlotPlace& replies) {
    const RpcMode mode = wish.mode;
    if (requests.slots == 0 || mode == RpcMode::send || requests.slot_bytes() > config_.message_bytes) return;
    std::unique_ptr<ReplyReads> reads;
    if (replies.slots != 0 && mode != RpcMode::write) reads = ReplyReads::make(device, replies, wish.fetch_bytes);
    if (reads == nullptr && mode == RpcMode::rfp) return;
    own_ = OwnSlots::make(device, requests.slots, requests.slot_bytes(), IBV_ACCESS_REMOTE_WRITE);
    far_ = requests;
    proxy_.emplace(ProxySide{RpcChoice(mode, reads != nullptr ? RpcMode::rfp : RpcMode::write)});
    proxy_->reads = std::move(reads);
    out_.use_slots(requests.slots);
    in_.use_slots(requests.slot_bytes());
}

bool VerbsRpc::refuse(const char* what) {
    if (corrupt_ == nullptr) corrupt_ = what;
    return false;
}

// ---- sending ----------------------------------------------------------------------------------------

// How the node shall transmit the replies to what leaves now.
ReplyBy VerbsRpc::wanted() const {
    const RpcMode mode = proxy_->choice.now();
    if (mode == RpcMode::rfp && proxy_->reads->plan().fetches()) return ReplyBy::fetch;
    return mode == RpcMode::send || own_ == nullptr ? ReplyBy::send : ReplyBy::write;
}

VerbsRpc::Way VerbsRpc::way(size_t bytes, uint64_t now_ns) const {
    if (!in_use_) return Way::bare;
    const auto fits = [&](uint32_t slot_bytes, size_t more) { return bytes + more + sizeof(SlotHead) <= slot_bytes; };
    if (node_.has_value()) {
        if (!fits(own_->slot_bytes(), 0) || !out_.slot_free()) return Way::send;
        if (node_->reply_by == ReplyBy::fetch && !at_once_) return Way::here;
        return node_->reply_by != ReplyBy::send && far_.slots != 0 ? Way::wake : Way::send;
    }
    const size_t place = proxy_->told_place || own_ == nullptr ? 0 : sizeof(SlotPlace);
    if (proxy_->choice.now() == RpcMode::send || !fits(far_.slot_bytes(), place) || !out_.slot_free()) return Way::send;
    return proxy_->awake.awake(now_ns) ? Way::plain : Way::wake;
}

uint32_t VerbsRpc::compose(char* to, Way way, std::string_view bytes, uint64_t now_ns, uint16_t credits) {
    SlotHead head;
    head.seen = uint32_t(in_.taken());
    head.credits = credits;
    SlotPlace place;
    const bool slot = way != Way::send;
    if (node_.has_value()) {
        head.awake_us = node_->window.announce(now_ns);
        head.service_us = node_->window.service_us(now_ns);
    } else {
        const ReplyBy by = wanted();
        head.flags = uint8_t(by);
        if (by == ReplyBy::fetch) proxy_->last_fetched = out_.next();
        proxy_->left[out_.next() % slots_most] = {now_ns, proxy_->choice.now()};
        proxy_->awake.asked(uint32_t(out_.next()), now_ns, way == Way::plain);
        if (by == ReplyBy::fetch) proxy_->reads->plan().asked(now_ns);
        if (slot && own_ != nullptr && !std::exchange(proxy_->told_place, true)) {
            head.flags |= SlotHead::names_place;
            place = own_->place();
        }
    }
    const char* named = reinterpret_cast<const char*>(&place);
    compose_message(to, out_.next(), head, {named, place.slots != 0 ? sizeof place : 0}, bytes);
    if (slot)
        out_.left_in_slot();
    else
        out_.left_in_send();
    return uint32_t(sizeof head + (place.slots != 0 ? sizeof place : 0) + bytes.size());
}

void VerbsRpc::leave_here(std::string_view bytes, uint64_t now_ns, uint16_t credits) {
    uint64_t* slot = own_->slot(out_.next());
    const uint32_t size = compose(composed_.data(), Way::here, bytes, now_ns, credits);
    publish_message(slot, composed_.data(), size);
    last_here_ = out_.last();
}

// ---- receiving --------------------------------------------------------------------------------------

bool VerbsRpc::woken(bool send) {
    if (node_.has_value()) {
        in_use_ = true;
        if (send) node_->demanded = true;
        if (send) node_->reply_by = ReplyBy::write;
        return true;
    }
    return !send && own_ != nullptr;
}

bool VerbsRpc::take_send(std::string_view message, bool numbered, uint64_t now_ns) {
    if (!numbered) {
        in_.take_send();
        return true;
    }
    SlotHead head;
    if (message.size() <= sizeof head || (!node_.has_value() && !proxy_.has_value()))
        return refuse("a message with a head that was not agreed on");
    std::memcpy(&head, message.data(), sizeof head);
    if (head.length != message.size() - sizeof head) return refuse("the length of a message");
    const int32_t ahead = int32_t(head.sequence - uint32_t(in_.next()));
    if (ahead < 0 || ahead > int32_t(slots_most)) return refuse("the number of a message");
    // Only messages that are READ may come later than a SEND behind them.
    if (ahead > 0) return has_reads() ? false : refuse("the number of a message");
    in_use_ = true;
    in_.take_send();
    return took(head, /* fetched= */ false, now_ns);
}

std::string_view VerbsRpc::front(uint64_t now_ns) {
    while (in_.rest().empty() && in_use_ && corrupt_ == nullptr && look(now_ns)) continue;
    return in_.rest();
}

bool VerbsRpc::look(uint64_t now_ns) {
    if (node_.has_value()) {
        const bool found = look_at(*node_->requests, now_ns);
        if (!found) node_->demanded = false;
        return found;
    }
    if (own_ != nullptr && look_at(*own_, now_ns)) return true;
    if (corrupt_ != nullptr || proxy_->reads == nullptr) return false;
    const bool brought = proxy_->reads->look(in_, now_ns);
    if (in_.incomplete_for_ns(now_ns) > incomplete_ns_max) return refuse("the check of a message");
    if (proxy_->reads->take_demand()) proxy_->demands_send = true;
    return brought && take_copy(/* fetched= */ true, now_ns);
}

bool VerbsRpc::look_at(const OwnSlots& slots, uint64_t now_ns) {
    switch (in_.look(slots.slot(in_.next()), slots.slot_bytes(), now_ns)) {
        case MessageState::whole: return take_copy(/* fetched= */ false, now_ns);
        case MessageState::incomplete:
            if (in_.incomplete_for_ns(now_ns) > incomplete_ns_max) return refuse("the check of a message");
            if (node_.has_value()) node_->window.expect(in_.incomplete_since_ns());
            return false;
        default: return false;
    }
}

// Takes the message that look() copied.
bool VerbsRpc::take_copy(bool fetched, uint64_t now_ns) {
    const SlotHead head = in_.head();
    uint32_t skip = 0;
    if (node_.has_value() && (head.flags & SlotHead::names_place) != 0) {
        if (head.length < sizeof(SlotPlace) || !learn_place(in_.copied())) return refuse("the place of the slots for replies");
        skip = sizeof(SlotPlace);
    }
    if (head.length == skip) return refuse("the length of a message");
    in_.take_copy(skip);
    return took(head, fetched, now_ns);
}

bool VerbsRpc::learn_place(std::string_view bytes) {
    SlotPlace place;
    std::memcpy(&place, bytes.data(), sizeof place);
    if (!possible(place) || place.slots != config_.slots || place.slot_bytes() != config_.slot_bytes) return false;
    far_ = place;
    return true;
}

bool VerbsRpc::took(const SlotHead& head, bool fetched, uint64_t now_ns) {
    if (!out_.saw(head.seen)) return refuse("the number of a message that was seen");
    if (proxy_.has_value()) return took_reply(head, fetched, now_ns);
    node_->reply_by = node_->demanded ? ReplyBy::write : head.reply_by();
    node_->window.took_request(now_ns);
    return true;
}

bool VerbsRpc::took_reply(const SlotHead& head, bool fetched, uint64_t now_ns) {
    ProxySide& proxy = *proxy_;
    proxy.awake.told(head.seen, head.awake_us, now_ns);
    const ProxySide::Left left = proxy.left[head.seen % slots_most];
    if (left.at_ns != 0) proxy.choice.measured(left.mode, now_ns - left.at_ns);
    proxy.left[head.seen % slots_most] = {};
    if (fetched) {
        credits_ += head.credits;
        proxy.reads->plan().brought(head, now_ns, uint32_t(out_.last()) != head.seen, left.at_ns);
    } else if (proxy.reads != nullptr) {
        proxy.reads->plan().sent(head, now_ns, left.at_ns);
    }
    return true;
}

bool VerbsRpc::anything_here() const {
    if (!in_.rest().empty()) return true;
    if (!in_use_ || corrupt_ != nullptr) return false;
    if (has_reads() && proxy_->reads->anything_landed()) return true;
    const OwnSlots* slots = node_.has_value() ? node_->requests.get() : own_.get();
    if (slots == nullptr || slot_number(slots->slot(in_.next())) != uint32_t(in_.next())) return false;
    if (in_.incomplete_since_ns() == 0) return true;
    // A WRITE is under way. If it lasts, the end sleeps until an event, or until it is too late (next_look_ns()).
    const uint64_t for_ns = in_.incomplete_for_ns(boottime_ns());
    return for_ns < incomplete_look_ns || for_ns > incomplete_ns_max;
}

// ---- a proxy's READs and wakes ----------------------------------------------------------------------

void VerbsRpc::expect_replies(bool any, uint64_t now_ns) {
    if (proxy_.has_value() && proxy_->reads != nullptr) proxy_->reads->plan().due(any, now_ns);
}

uint64_t VerbsRpc::next_read_ns() const {
    if (!proxy_.has_value() || proxy_->reads == nullptr || !in_use_) return never_ns;
    // Later requests let the node send (X3).
    const bool maybe = proxy_->last_fetched != 0 && proxy_->last_fetched >= out_.seen();
    if (!maybe && !proxy_->reads->reads_rest()) return never_ns;
    return proxy_->reads->next_ns();
}

uint64_t VerbsRpc::next_look_ns() const {
    if (in_.incomplete_since_ns() == 0 || corrupt_ != nullptr) return never_ns;  // the usual case reads no clock
    const uint64_t at_ns = in_.incomplete_since_ns() + incomplete_ns_max + 1;
    return at_ns > boottime_ns() ? at_ns : never_ns;  // later anything_here() says it
}

uint64_t VerbsRpc::next_wake_ns() const {
    if (!proxy_.has_value() || !in_use_) return never_ns;
    return proxy_->demands_send ? 0 : proxy_->awake.wake_ns();
}

const std::vector<ReplyReads::One>& VerbsRpc::reads_due(uint64_t now_ns, uint32_t room) {
    const uint32_t unseen = uint32_t(out_.last() - out_.seen());
    return proxy_->reads->due(in_.next(), std::min(room, std::max(unseen, 1U)), now_ns);
}

bool VerbsRpc::wake(uint64_t now_ns) {
    proxy_->awake.woken(now_ns);
    return std::exchange(proxy_->demands_send, false);
}

}  // namespace farcached::fabric
