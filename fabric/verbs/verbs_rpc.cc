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

// The place of a proxy's slots at the start of a request; nothing: it is impossible.
std::optional<SlotPlace> named_place(std::string_view request, const VerbsConfig& config) {
    SlotPlace place;
    if (request.size() < sizeof place) return {};
    std::memcpy(&place, request.data(), sizeof place);
    if (!possible(place) || place.slots != config.slots || place.slot_bytes() != config.slot_bytes) return {};
    return place;
}

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
    proxy_.emplace(mode, std::move(reads));
    out_.use_slots(requests.slots);
    in_.use_slots(requests.slot_bytes());
}

bool VerbsRpc::refuse(const char* what) {
    if (corrupt_ == nullptr) corrupt_ = what;
    return false;
}

// ---- sending ----------------------------------------------------------------------------------------

VerbsRpc::Way VerbsRpc::way(size_t bytes, uint64_t now_ns) const {
    if (!in_use_) return Way::bare;
    const auto fits = [&](uint32_t slot_bytes, size_t more) { return bytes + more + sizeof(SlotHead) <= slot_bytes; };
    if (node_.has_value()) {
        if (!fits(own_->slot_bytes(), 0) || !out_.slot_free()) return Way::send;
        if (node_->reply_by == ReplyBy::fetch && !at_once_) return Way::here;
        return node_->reply_by != ReplyBy::send && far_.slots != 0 ? Way::wake : Way::send;
    }
    const size_t place = proxy_->told_place() || own_ == nullptr ? 0 : sizeof(SlotPlace);
    if (proxy_->choice().now() == RpcMode::send || !fits(far_.slot_bytes(), place) || !out_.slot_free()) return Way::send;
    return proxy_->node_awake(now_ns) ? Way::plain : Way::wake;
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
        const ReplyBy by = proxy_->reply_by(own_ != nullptr);
        head.flags = uint8_t(by);
        proxy_->asked(out_.next(), by, way == Way::plain, now_ns);
        if (slot && own_ != nullptr && !proxy_->told_place()) {
            proxy_->name_place();
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
    if (corrupt_ != nullptr || !proxy_->has_reads()) return false;
    const bool brought = proxy_->look(in_, now_ns);
    if (in_.incomplete_for_ns(now_ns) > incomplete_ns_max) return refuse("the check of a message");
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
        const std::optional<SlotPlace> place = named_place(in_.copied(), config_);
        if (!place.has_value()) return refuse("the place of the slots for replies");
        far_ = *place;
        skip = sizeof(SlotPlace);
    }
    if (head.length == skip) return refuse("the length of a message");
    in_.take_copy(skip);
    return took(head, fetched, now_ns);
}

bool VerbsRpc::took(const SlotHead& head, bool fetched, uint64_t now_ns) {
    if (!out_.saw(head.seen)) return refuse("the number of a message that was seen");
    if (proxy_.has_value()) {
        if (fetched) credits_ += head.credits;
        proxy_->took(head, fetched, out_.last(), now_ns);
        return true;
    }
    node_->reply_by = node_->demanded ? ReplyBy::write : head.reply_by();
    node_->window.took_request(now_ns);
    return true;
}

bool VerbsRpc::anything_here() const {
    if (!in_.rest().empty()) return true;
    if (!in_use_ || corrupt_ != nullptr) return false;
    if (has_reads() && proxy_->reads().anything_landed()) return true;
    const OwnSlots* slots = node_.has_value() ? node_->requests.get() : own_.get();
    if (slots == nullptr || slot_number(slots->slot(in_.next())) != uint32_t(in_.next())) return false;
    if (in_.incomplete_since_ns() == 0) return true;
    // A WRITE is under way. If it lasts, the end sleeps until an event, or until it is too late (next_look_ns()).
    const uint64_t for_ns = in_.incomplete_for_ns(boottime_ns());
    return for_ns < incomplete_look_ns || for_ns > incomplete_ns_max;
}

// ---- a proxy's READs and wakes ----------------------------------------------------------------------

uint64_t VerbsRpc::next_read_ns() const {
    return has_reads() && in_use_ ? proxy_->next_read_ns(out_.seen()) : never_ns;
}

uint64_t VerbsRpc::next_look_ns() const {
    if (in_.incomplete_since_ns() == 0 || corrupt_ != nullptr) return never_ns;  // the usual case reads no clock
    const uint64_t at_ns = in_.incomplete_since_ns() + incomplete_ns_max + 1;
    return at_ns > boottime_ns() ? at_ns : never_ns;  // later anything_here() says it
}

uint64_t VerbsRpc::next_wake_ns() const {
    return proxy_.has_value() && in_use_ ? proxy_->next_wake_ns() : never_ns;
}

const std::vector<ReplyReads::One>& VerbsRpc::reads_due(uint64_t now_ns, uint32_t room) {
    const uint32_t unseen = uint32_t(out_.last() - out_.seen());
    return proxy_->reads().due(in_.next(), std::min(room, std::max(unseen, 1U)), now_ns);
}

}  // namespace farcached::fabric
