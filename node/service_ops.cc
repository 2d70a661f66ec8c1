// SPDX-License-Identifier: BSD-3-Clause
// Executes the requests of a frame: one operation of the node each, and its reply.
#include <cstring>
#include <new>
#include <string>
#include <variant>

#include "base/broken.h"
#include "base/check.h"
#include "base/hash.h"
#include "fabric/local_read.h"
#include "node/service.h"

namespace farcached::node {

using protocol::FrameError;
using protocol::FrameStep;
using protocol::NodeRequest;
using protocol::ReplyOptions;
using protocol::RequestOptions;
using protocol::RequestRefusal;
using protocol::ValueForm;

namespace {

// nullptr: the operation has no key.
protocol::Key* key_of(protocol::RequestOp& op) {
    return std::visit(
        [](auto& any) -> protocol::Key* {
            if constexpr (requires { any.key; }) return &any.key;
            return nullptr;
        },
        op);
}

ReplyOptions reply_to(uint32_t tag) {
    ReplyOptions options;
    options.tag = tag;
    return options;
}

}  // namespace

std::unique_ptr<char[]> NodeService::take_memory(uint64_t bytes) {
    return std::unique_ptr<char[]>(new (std::nothrow) char[bytes]);
}

std::unique_ptr<char[]> NodeService::take_memory_to_send(uint64_t bytes) {
    const uint64_t now = now_ms();
    if (!account_.take(bytes, now, now, PeerBudget::For::value)) {
        counters_.values_over_budget.add(1);
        return nullptr;
    }
    std::unique_ptr<char[]> memory = take_memory(bytes);
    if (memory == nullptr) account_.give_back(bytes, now);
    to_send_since_ms_ = now;
    return memory;
}

// False: no room, and the connection ends.
bool NodeService::charge_record(Incoming& incoming) {
    incoming.since_ms = now_ms();
    return account_.take(incoming_record_bytes, incoming.since_ms, incoming.since_ms, PeerBudget::For::frame);
}

void NodeService::uncharge(Incoming& incoming) {
    account_.give_back(incoming_record_bytes + incoming.charged, incoming.since_ms);
}

// A sequence of requests of one frame, with their replies.
struct NodeService::Turn {
    uint64_t sequence;
    NodeSeconds now;
    protocol::ReplyWriter replies;
};

// ---- frames of requests -------------------------------------------------------------------------------

void NodeService::requests(protocol::Frame frame) {
    if (state_ == State::leaving) return bad(FrameError::kind_unexpected);
    if (halted_.requests != 0) {
        frame.body = frame.body.substr(frame.body.size() - halted_.bytes);
        frame.count = halted_.requests;
        halted_ = {};
    } else {
        if (in_flight_.contains(frame.sequence)) return bad(FrameError::request_repeated);
        if (in_flight_.size() >= credits_) return bad(FrameError::credits_exceeded);
        counters_.request_frames.add(1);
        in_flight(frame.sequence);  // the frame itself, until it is fully read
    }
    const NodeReading now = shared_.clock();
    seat_.used(now.seconds);
    shared_.flushes.due(now.seconds);
    Turn turn{frame.sequence, now.seconds,
              {channel_->out(), limits_.frame_bytes_max, frame.sequence, told(now)}};
    protocol::RequestReader reader(frame, limits_);
    FrameStep step = FrameStep::entry;
    bool goes_on = true;
    while (goes_on && step == FrameStep::entry) {
        step = look_ahead(reader);
        goes_on = execute_ahead(turn);
    }
    turn.replies.end();
    if (!goes_on) return;
    if (step == FrameStep::bad) return bad(reader.error());
    answered(frame.sequence);
}

// Parses the next requests of the frame, hashes their keys and prefetches the memory they read: all buckets, then all items.
// Returns the step of the last parse; the requests before it are in ahead_.
FrameStep NodeService::look_ahead(protocol::RequestReader& reader) {
    const fabric::RegionView& view = shared_.node.view();
    FrameStep step = FrameStep::entry;
    ahead_count_ = 0;
    const bool alone = reader.requests_left() == 1;
    while (ahead_count_ < ahead_.size()) {
        Ahead& next = ahead_[ahead_count_];
        step = reader.next(next.request);
        if (step != FrameStep::entry) break;
        next.left = {reader.requests_left(), reader.bytes_left()};
        next.key = key_of(next.request.op);
        if (next.key != nullptr) {
            next.key->hash = hash_key(next.key->bytes, view.hash_seed);
            if (!alone) fabric::prefetch_bucket(view, next.key->hash);
        }
        ahead_count_++;
    }
    if (alone) return step;
    for (uint32_t i = 0; i < ahead_count_; i++)
        if (ahead_[i].key != nullptr) fabric::prefetch_item(view, ahead_[i].key->hash);
    return step;
}

// Executes in order. False: the frame stays unfinished, because the connection ends or its replies must be sent first (N3).
bool NodeService::execute_ahead(Turn& turn) {
    for (uint32_t i = 0; i < ahead_count_; i++) {
        execute(turn, ahead_[i].request);
        if (state_ != State::open) return false;
        if (ahead_[i].left.requests == 0 || may_go_on()) continue;
        halted_ = ahead_[i].left;
        return false;
    }
    return true;
}

void NodeService::execute(Turn& turn, NodeRequest& request) {
    counters_.requests.add(1);
    if (request.options.value_follows) return announce(turn, request);
    if (stopping_) return refuse(turn, request.options.tag, RequestRefusal::stopping);
    std::visit(
        [&](auto& op) {
            if constexpr (requires { op.key; }) {
                if (recorder_ != nullptr) recorder_->hand(op.key.bytes);
                broken::fail_if_named(op.key.bytes);
            }
            run(turn, request.options, op);
        },
        request.op);
}

void NodeService::refuse(Turn& turn, uint32_t tag, RequestRefusal why) {
    counters_.requests_refused.add(1);
    turn.replies.add(protocol::RefusedReply{why}, reply_to(tag));
}

// The text or value is already announced.
void NodeService::send_later(Turn& turn, uint32_t tag, std::unique_ptr<char[]> value, uint64_t size) {
    in_flight(turn.sequence);
    outgoing_bytes_ += size;
    outgoing_.push_back({turn.sequence, tag, std::move(value), size, 0, to_send_since_ms_});
}

// ---- operations ---------------------------------------------------------------------------------------

// Copies the value from the node's memory into the outgoing frame, under the partition's lock. A value too large for a frame
// goes to its own buffer.
void NodeService::run(Turn& turn, const RequestOptions& options, protocol::GetOp& op) {
    op.lease = grants(options);
    ReplyOptions with = reply_to(options.tag);
    with.grant_room = options.want_grant;
    const size_t head = protocol::hit_head_bytes(options.want_grant);
    char* in_frame = nullptr;
    std::unique_ptr<char[]> apart;
    auto sink = [&](const protocol::ItemMeta& meta) -> char* {
        if (options.no_value) return nullptr;
        if (turn.replies.must_follow(head, meta.value_len)) {
            with.value = ValueForm::follows;
            apart = take_memory_to_send(meta.value_len);
            return apart.get();
        }
        with.value = ValueForm::here;
        in_frame = turn.replies.room(head + meta.value_len);
        return in_frame + head;
    };
    const protocol::GetReply reply = shared_.node.get(op, turn.now, sink);
    const bool hit = reply.status == protocol::GetReply::Status::hit;
    counters_.cmd_get.add(1);
    (hit ? counters_.get_hits : counters_.get_misses).add(1);
    if (hit) {
        with.grant = reply.grant;
        with.denied = reply.denied;
    }
    if (in_frame != nullptr) {
        protocol::write_reply_head(in_frame, reply, with);
        return turn.replies.commit(head + reply.meta.value_len);
    }
    if (with.value == ValueForm::follows && apart == nullptr)
        return refuse(turn, options.tag, RequestRefusal::no_memory);
    turn.replies.add(reply, with);
    if (apart != nullptr) send_later(turn, options.tag, std::move(apart), reply.meta.value_len);
}

void NodeService::run(Turn& turn, const RequestOptions& options, protocol::StoreOp& op) {
    op.lease = grants(options);
    store(turn, options.tag, op);
}

void NodeService::store(Turn& turn, uint32_t tag, const protocol::StoreOp& op) {
    counters_.cmd_set.add(1);
    const protocol::StoreReply reply = shared_.node.store(op, turn.now);
    ReplyOptions with = reply_to(tag);
    with.grant = reply.grant;
    with.denied = reply.denied;
    turn.replies.add(reply, with);
}

void NodeService::run(Turn& turn, const RequestOptions& options, protocol::DeleteOp& op) {
    counters_.cmd_delete.add(1);
    turn.replies.add(shared_.node.remove(op, turn.now), reply_to(options.tag));
}

void NodeService::run(Turn& turn, const RequestOptions& options, protocol::ArithOp& op) {
    op.lease = grants(options);
    counters_.cmd_arith.add(1);
    const protocol::ArithReply reply = shared_.node.arith(op, turn.now);
    ReplyOptions with = reply_to(options.tag);
    with.grant = reply.grant;
    with.denied = reply.denied;
    turn.replies.add(reply, with);
}

void NodeService::run(Turn& turn, const RequestOptions& options, protocol::ForgetOp& op) {
    counters_.cmd_forget.add(1);
    shared_.node.forget(op.key, turn.now);
    turn.replies.add(protocol::DoneReply(), reply_to(options.tag));
}

void NodeService::run(Turn& turn, const RequestOptions& options, protocol::FlushOp& op) {
    if (!op.prefix.empty()) return delete_prefix(turn, options.tag, op.prefix);
    counters_.cmd_flush.add(1);
    if (op.at.has_value())
        shared_.flushes.schedule(*op.at, turn.now);
    else
        shared_.flushes.flush(turn.now);
    turn.replies.add(protocol::DoneReply(), reply_to(options.tag));
}

// Replied to at its end, in a later step: visiting all leased items takes long, and other connections run in between.
void NodeService::delete_prefix(Turn& turn, uint32_t tag, std::string_view prefix) {
    counters_.cmd_delete_prefix.add(1);
    std::optional<Node::PrefixDelete> begun = shared_.node.begin_delete_prefix(prefix);
    if (!begun.has_value()) return refuse(turn, tag, RequestRefusal::no_memory);
    in_flight(turn.sequence);
    walks_.push_back({{turn.sequence, tag}, std::move(*begun)});
}

void NodeService::walk() {
    constexpr uint32_t pages_max = 8;
    if (walks_.empty() || !may_go_on_sending()) return;
    Walk& walk = walks_.front();
    const NodeReading now = shared_.clock();
    bool refused = false;
    try {
        if (!shared_.node.go_on(walk.under_way, pages_max, now.seconds)) return;
    } catch (const std::bad_alloc&) {
        refused = true;
    }
    const Address address = walk.address;
    walks_.pop_front();
    Turn turn{address.first, now.seconds, {channel_->out(), limits_.frame_bytes_max, address.first, told(now)}};
    if (refused)
        refuse(turn, address.second, RequestRefusal::no_memory);
    else
        turn.replies.add(protocol::DoneReply(), reply_to(address.second));
    turn.replies.end();
    answered(address.first);
}

void NodeService::run(Turn& turn, const RequestOptions& options, protocol::StatsOp& op) {
    counters_.cmd_stats.add(1);
    std::string text;
    if (!shared_.stats.append(op.group, turn.now, text))
        return refuse(turn, options.tag, RequestRefusal::stats_unknown);
    CHECK(text.size() <= protocol::stats_bytes_max);
    const bool follows = turn.replies.must_follow(sizeof(protocol::ReplyHeader), text.size());
    std::unique_ptr<char[]> apart;
    if (follows) {
        apart = take_memory_to_send(text.size());
        if (apart == nullptr) return refuse(turn, options.tag, RequestRefusal::no_memory);
        std::memcpy(apart.get(), text.data(), text.size());
    }
    turn.replies.add_stats(options.tag, text);
    if (follows) send_later(turn, options.tag, std::move(apart), text.size());
}

// ---- stores whose value follows -------------------------------------------------------------------------

void NodeService::announce(Turn& turn, const NodeRequest& request) {
    const uint32_t tag = request.options.tag;
    if (incoming_.size() >= shared_.limits.incoming_values_max) {
        turn.replies.end();
        const protocol::Goodbye why = protocol::Goodbye::no_memory;
        protocol::append_goodbye(channel_->out(), why, protocol::goodbye_text(why));
        return end_with(ServiceEnd::no_memory, "the proxy announced too many values at once");
    }
    auto [place, fresh] = incoming_.try_emplace({turn.sequence, tag});
    if (!fresh) {
        turn.replies.end();
        return bad(FrameError::request_repeated);
    }
    Incoming& incoming = place->second;
    if (!charge_record(incoming)) {
        incoming_.erase(place);
        turn.replies.end();
        return end_ousted();
    }
    incoming.op = std::get<protocol::StoreOp>(request.op);
    incoming.key = incoming.op.key.bytes;
    incoming.op.lease = grants(request.options);
    incoming.progress.total = request.value_bytes;
    in_flight(turn.sequence);
    incoming.too_large = shared_.node.too_large(incoming.key.size(), request.value_bytes);
    if (incoming.too_large) return;
    if (stopping_) {
        incoming.refusal = RequestRefusal::stopping;
        return;
    }
    const uint64_t room = shared_.limits.incoming_bytes_max;
    if (incoming_bytes_ != 0 && (incoming_bytes_ >= room || request.value_bytes > room - incoming_bytes_)) return;
    incoming.admitted = true;
    incoming_bytes_ += request.value_bytes;
}

// The value is complete, abandoned or no longer needed.
void NodeService::value_over(Incomings::iterator found, bool abandoned, std::string_view value) {
    const Address address = found->first;
    Incoming& incoming = found->second;
    const NodeReading now = shared_.clock();
    shared_.flushes.due(now.seconds);
    Turn turn{address.first, now.seconds,
              {channel_->out(), limits_.frame_bytes_max, address.first, told(now)}};
    if (abandoned) {
        counters_.values_abandoned.add(1);
        refuse(turn, address.second, RequestRefusal::abandoned);
    } else if (incoming.too_large) {
        protocol::StoreReply reply;
        reply.status = protocol::StoreReply::Status::too_large;
        turn.replies.add(reply, reply_to(address.second));
    } else if (!incoming.admitted) {
        refuse(turn, address.second, incoming.refusal);
    } else {
        counters_.values_received.add(1);
        incoming.op.key.bytes = incoming.key;  // hashed at the announcement
        incoming.op.value = value;
        store(turn, address.second, incoming.op);
    }
    turn.replies.end();
    if (incoming.admitted) incoming_bytes_ -= incoming.progress.total;
    uncharge(incoming);
    incoming_.erase(found);
    answered(address.first);
}

}  // namespace farcached::node
