// SPDX-License-Identifier: BSD-3-Clause
#include "node/store/away_gets.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "node/store/away_items.h"

namespace farcached::node {

AwayGets::AwayGets(Node& node, Over over, Wanted wanted, Ended ended)
    : node_(node), over_(std::move(over)), wanted_(std::move(wanted)), ended_(std::move(ended)) {
    const Config& config = node.config();
    CHECK(config.has_tiers());
    if (config.disk == nullptr) own_event_ = fabric::Descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    event_ = config.disk != nullptr ? disk_.emplace(*config.disk).fd() : own_event_.get();
    if (event_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    if (config.peer != nullptr) peer_.emplace(*config.peer, event_);
}

bool AwayGets::idle() const {
    return (!disk_.has_value() || disk_->under_way() == 0) && (!peer_.has_value() || peer_->under_way() == 0);
}

void AwayGets::get(uint64_t asker, std::string_view key, const protocol::GetReply& reply, const Place& place) {
    CHECK(reply.status == protocol::GetReply::Status::hit);
    waiting_.push_back({asker, std::string(key), reply, place});
    if (waiting_.size() == 1 && !start_next() && idle()) (void)eventfd_write(event_, 1);  // G1
}

void AwayGets::await_end(uint64_t asker, const Place& place, uint64_t until_ns) {
    CHECK(peer_.has_value());
    peer_->await_end(place, until_ns, first_wait + asker);
}

// False: no memory for one more read.
bool AwayGets::add_room() {
    constexpr size_t at_first = 16;
    try {
        if (reading_.size() == reading_.capacity()) reading_.reserve(2 * reading_.size() + at_first);
        free_.reserve(reading_.capacity());
    } catch (const std::bad_alloc&) {
        return false;
    }
    free_.push_back(uint32_t(reading_.size()));
    reading_.emplace_back();
    return true;
}

// False: no room, or no memory. A place of no tier is read of the disk, which has it not.
bool AwayGets::start(const Place& place, uint32_t number) try {
    if (is_at_peer(place) || !disk_.has_value()) {
        if (!peer_.has_value() || !peer_->has_room()) return false;
        peer_->get(place, number);
        return true;
    }
    return disk_->has_room(place) && disk_->get(place, number);
} catch (const std::bad_alloc&) {
    return false;
}

// Starts the first one's read. False: there is no room, or no memory.
bool AwayGets::start_next() {
    Get& next = waiting_.front();
    if (free_.empty() && !add_room()) return false;
    if (!start(next.place, free_.back())) return false;
    reading_[free_.back()] = std::move(next);
    free_.pop_back();
    waiting_.pop_front();
    return true;
}

void AwayGets::read_next() {
    while (!waiting_.empty()) {
        const bool wanted = wanted_(waiting_.front().asker);
        if (wanted && start_next()) continue;
        if (wanted && !idle()) return;  // the next complete one makes room
        const uint64_t asker = waiting_.front().asker;
        waiting_.pop_front();
        if (wanted) refused_++;
        refuse(asker);
    }
}

void AwayGets::ready(NodeSeconds now) {
    if (!disk_.has_value()) {
        eventfd_t count = 0;
        (void)eventfd_read(event_, &count);
    }
    if (disk_.has_value())
        disk_->take([&](uint64_t cookie, const DiskRecord* record) {
            if (record == nullptr) return finish(cookie, std::nullopt, {}, now);
            finish(cookie, record->key, record->value, now);
        });
    if (peer_.has_value())
        peer_->take([&](uint64_t cookie, std::optional<std::string_view> bytes, const fabric::LeasedPtr* leased) {
            if (cookie >= first_wait) return ended_(cookie - first_wait);
            const size_t key_length = reading_[cookie].key.size();
            if (!bytes.has_value() || bytes->size() < key_length) return finish(cookie, std::nullopt, {}, now);
            finish(cookie, bytes->substr(0, key_length), bytes->substr(key_length), now, leased);
        });
    read_next();
}

void AwayGets::refuse(uint64_t asker) {
    protocol::GetReply reply;
    reply.status = protocol::GetReply::Status::no_memory;
    over_({asker, reply, {}});
}

void AwayGets::finish(uint64_t cookie, std::optional<std::string_view> found, std::string_view value, NodeSeconds now,
                      const fabric::LeasedPtr* leased) {
    const Get get = std::move(reading_[cookie]);
    free_.push_back(uint32_t(cookie));
    const protocol::Key key = node_.key(get.key);
    if (found == get.key && value.size() == get.reply.meta.value_len) {
        over_({get.asker, get.reply, value, get.key, get.place, leased});
        return node_.away().found(key, get.place, value, now);
    }
    node_.away().lost(key, get.place, now);
    ask_again(get, now);
}

// G3.
void AwayGets::ask_again(const Get& get, NodeSeconds now) {
    protocol::GetReply reply;
    std::string value;
    try {
        protocol::GetOp op;
        op.key = node_.key(get.key);
        op.no_bump = true;
        Place place{};
        const auto sink = [&](const protocol::ItemMeta& meta) {
            value.resize(meta.value_len);
            return value.data();
        };
        reply = node_.get(op, now, sink, /* lent= */ nullptr, &place);
        if (reply.status == protocol::GetReply::Status::hit && reply.meta.cas == get.reply.meta.cas) {
            reply.meta.win = get.reply.meta.win;
            reply.meta.win_sent = get.reply.meta.win_sent;
        }
        if (place != Place{}) return waiting_.push_back({get.asker, get.key, reply, place});
    } catch (const std::bad_alloc&) {
        refused_++;
        return refuse(get.asker);
    }
    if (reply.status != protocol::GetReply::Status::hit) lost_++;
    over_({get.asker, reply, value, get.key});
}

}  // namespace farcached::node
