// SPDX-License-Identifier: BSD-3-Clause
// What is done for the requests of a frame: one operation of the node each, and its reply.
#include <cstring>
#include <new>
#include <string>
#include <variant>

#include "base/broken.h"
#include "base/check.h"
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

ReplyOptions reply_to(uint32_t tag) {
    ReplyOptions options;
    options.tag = tag;
    return options;
}

}  // namespace

std::unique_ptr<char[]> NodeService::take_memory(uint64_t bytes) {
    return std::unique_ptr<char[]>(new (std::nothrow) char[bytes]);
}

// A run of requests of one frame, and their replies.
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
        in_flight(frame.sequence);  // the frame itself, until it has been read
    }
    const NodeReading now = shared_.clock();
    shared_.flushes.due(now.seconds);
    Turn turn{frame.sequence, now.seconds,
              {channel_->out(), limits_.frame_bytes_max, frame.sequence, told(now)}};
    protocol::RequestReader reader(frame, limits_);
    NodeRequest request;
    FrameStep step = reader.next(request);
    while (step == FrameStep::entry) {
        execute(turn, request);
        if (state_ != State::open) break;
        if (!may_go_on() && reader.requests_left() != 0) {
            halted_ = {reader.requests_left(), reader.bytes_left()};
            turn.replies.end();
            return;
        }
        step = reader.next(request);
    }
    turn.replies.end();
    if (step == FrameStep::bad) return bad(reader.error());
    if (state_ == State::open) answered(frame.sequence);
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

// The text or value is announced already.
void NodeService::send_later(Turn& turn, uint32_t tag, std::unique_ptr<char[]> value, uint64_t size) {
    in_flight(turn.sequence);
    outgoing_bytes_ += size;
    outgoing_.push_back({turn.sequence, tag, std::move(value), size, 0});
}

// ---- operations ---------------------------------------------------------------------------------------

// The value goes from the node's memory to the frame that is being written, under the partition's lock; one that is
// too large for a frame, to memory of its own.
void NodeService::run(Turn& turn, const RequestOptions& options, protocol::GetOp& op) {
    op.key = shared_.node.key(op.key.bytes);
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
            apart = take_memory(meta.value_len);
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
    if (hit) with.grant = reply.grant;
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
    op.key = shared_.node.key(op.key.bytes);
    op.lease = grants(options);
    store(turn, options.tag, op);
}

void NodeService::store(Turn& turn, uint32_t tag, const protocol::StoreOp& op) {
    counters_.cmd_set.add(1);
    const protocol::StoreReply reply = shared_.node.store(op, turn.now);
    ReplyOptions with = reply_to(tag);
    if (reply.status == protocol::StoreReply::Status::stored) with.grant = reply.grant;
    turn.replies.add(reply, with);
}

void NodeService::run(Turn& turn, const RequestOptions& options, protocol::DeleteOp& op) {
    op.key = shared_.node.key(op.key.bytes);
    counters_.cmd_delete.add(1);
    turn.replies.add(shared_.node.remove(op, turn.now), reply_to(options.tag));
}

void NodeService::run(Turn& turn, const RequestOptions& options, protocol::ArithOp& op) {
    op.key = shared_.node.key(op.key.bytes);
    counters_.cmd_arith.add(1);
    turn.replies.add(shared_.node.arith(op, turn.now), reply_to(options.tag));
}

void NodeService::run(Turn& turn, const RequestOptions& options, protocol::ForgetOp& op) {
    counters_.cmd_forget.add(1);
    shared_.node.forget(shared_.node.key(op.key.bytes), turn.now);
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

// Answered at its end, in a later turn: a look at all leased items takes its time, and others have theirs meanwhile.
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
        apart = take_memory(text.size());
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

// It has come, or will not come, or does not matter.
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
        incoming.op.key = shared_.node.key(incoming.key);
        incoming.op.value = value;
        store(turn, address.second, incoming.op);
    }
    turn.replies.end();
    if (incoming.admitted) incoming_bytes_ -= incoming.progress.total;
    incoming_.erase(found);
    answered(address.first);
}

}  // namespace farcached::node
