// SPDX-License-Identifier: BSD-3-Clause
#include "node/store/away_gets.h"

#include <new>
#include <utility>

#include "base/check.h"

namespace farcached::node {

AwayGets::AwayGets(Node& node, Over over, Wanted wanted)
    : node_(node), over_(std::move(over)), wanted_(std::move(wanted)), reads_(*node.config().disk) {}

void AwayGets::get(uint64_t asker, std::string_view key, const protocol::GetReply& reply, const Place& place) {
    CHECK(reply.status == protocol::GetReply::Status::hit);
    waiting_.push_back({asker, std::string(key), reply, place});
    if (waiting_.size() == 1 && !start_next() && reads_.under_way() == 0) reads_.wake();  // G1
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

// Starts the first one's read. False: there is no room, or no memory.
bool AwayGets::start_next() {
    Get& next = waiting_.front();
    if (!reads_.has_room(next.place) || (free_.empty() && !add_room())) return false;
    if (!reads_.get(next.place, free_.back())) return false;
    reading_[free_.back()] = std::move(next);
    free_.pop_back();
    waiting_.pop_front();
    return true;
}

void AwayGets::read_next() {
    while (!waiting_.empty()) {
        const bool wanted = wanted_(waiting_.front().asker);
        if (wanted && start_next()) continue;
        if (wanted && reads_.under_way() != 0) return;  // the next complete one makes room
        const uint64_t asker = waiting_.front().asker;
        waiting_.pop_front();
        if (wanted) refused_++;
        refuse(asker);
    }
}

void AwayGets::ready(NodeSeconds now) {
    reads_.take([&](uint64_t cookie, const DiskRecord* record) {
        const Get get = std::move(reading_[cookie]);
        free_.push_back(uint32_t(cookie));
        finish(get, record, now);
    });
    read_next();
}

void AwayGets::refuse(uint64_t asker) {
    protocol::GetReply reply;
    reply.status = protocol::GetReply::Status::no_memory;
    over_(asker, reply, {});
}

void AwayGets::finish(const Get& get, const DiskRecord* record, NodeSeconds now) {
    const protocol::Key key = node_.key(get.key);
    const bool whole = record != nullptr && record->key == get.key && record->value.size() == get.reply.meta.value_len;
    if (whole) {
        over_(get.asker, get.reply, record->value);
        return node_.found_on_disk(key, get.place, record->value, now);
    }
    node_.lost_on_disk(key, get.place, now);
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
    over_(get.asker, reply, value);
}

}  // namespace farcached::node
