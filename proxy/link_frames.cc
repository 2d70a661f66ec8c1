// SPDX-License-Identifier: BSD-3-Clause
#include "proxy/link_frames.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"

namespace farcached::proxy {

namespace {

constexpr size_t building_kept_bytes = 256 * 1024;  // buffer memory kept between ticks

}  // namespace

FramesOut::FramesOut(uint32_t frame_bytes_max, uint32_t credits, bool knows_epochs)
    : frame_bytes_max_(frame_bytes_max),
      credits_(credits),
      knows_epochs_(knows_epochs),
      writer_(building_, frame_bytes_max) {
    CHECK(credits > 0);
    frames_.resize(credits);
    for (uint32_t number = credits; number > 0; number--) free_.push_back(number - 1);
    unsent_.reserve(credits);
    unanswered_.reserve(credits);
    static_assert(request_bytes_most + sizeof(protocol::FrameHeader) <= protocol::frame_bytes_lowest);
}

bool FramesOut::room_for(size_t bytes) const {
    if (unanswered_.size() < credits_) return true;
    if (!writer_.open()) return false;
    if (writer_.count() == UINT16_MAX) return false;
    return building_.size() - current_start_ + bytes <= frame_bytes_max_;
}

bool FramesOut::begin_frame() {
    if (unanswered_.size() == credits_) return false;
    current_ = free_.back();
    free_.pop_back();
    frames_[current_] = {++sequence_, 0, 0, false};
    unsent_.push_back(current_);
    unanswered_.push_back(sequence_);
    current_start_ = building_.size();
    writer_.begin(protocol::FrameKind::requests, sequence_);
    return true;
}

FramesOut::Place FramesOut::place_of_current() {
    frames_[current_].requests++;
    return {frames_[current_].sequence, current_};
}

void FramesOut::answered(uint32_t number) {
    Frame& frame = frames_[number];
    CHECK(frame.sent);
    CHECK(frame.requests > 0);
    if (--frame.requests > 0) return;
    const auto at = std::lower_bound(unanswered_.begin(), unanswered_.end(), frame.sequence);
    CHECK(at != unanswered_.end());
    CHECK(*at == frame.sequence);
    unanswered_.erase(at);
    free_.push_back(number);
}

uint32_t FramesOut::send(OutBuffer& out, uint64_t now_ns) {
    if (writer_.open()) writer_.end();
    const uint32_t count = uint32_t(unsent_.size());
    for (uint32_t number : unsent_) {
        frames_[number].sent_ns = now_ns;
        frames_[number].sent = true;
    }
    unsent_.clear();
    for (OutBuffer* whole : {&building_, &small_}) {
        if (!whole->empty()) out.append({whole->data(), whole->size()});
        whole->clear(building_kept_bytes);
    }
    return count;
}

void FramesOut::stop_following(Exchange& exchange) {
    auto at = std::find(following_.begin(), following_.end(), &exchange);
    if (at == following_.end()) return;
    following_.erase(at);
    protocol::append_abandoned(small_, exchange.sequence, exchange.tag);
}

bool FramesOut::feed(OutBuffer& out, size_t unsent) {
    const size_t ahead_bytes = 2 * size_t(frame_bytes_max_);
    bool fed = false;
    while (!following_.empty() && unsent + out.size() < ahead_bytes) {
        Exchange& exchange = *following_.front();
        if (!frames_[exchange.frame].sent) break;
        if (!lend_value(exchange, out)) feed_chunk(exchange, out);
        if (exchange.value_sent == exchange.value.size()) following_.erase(following_.begin());
        fed = true;
    }
    return fed;
}

void FramesOut::feed_chunk(Exchange& exchange, OutBuffer& out) {
    const uint64_t left = exchange.value.size() - exchange.value_sent;
    const uint32_t size = protocol::chunk_size(left, frame_bytes_max_);
    char* to = out.reserve(protocol::chunk_head_bytes + size);
    to = protocol::write_chunk_head(to, exchange.sequence, exchange.tag, exchange.value_sent, size);
    protocol::wire::put_bytes(to, exchange.value.substr(exchange.value_sent, size));
    out.commit(protocol::chunk_head_bytes + size);
    exchange.value_sent += size;
}

// ---- values that the node READs ---------------------------------------------------------------------

bool FramesOut::lend_value(Exchange& exchange, OutBuffer& out) {
    const std::string_view value = exchange.value;
    if (exchange.value_sent != 0 || exchange.unlent || value.size() > lent_bytes_max_) return false;
    exchange.lent = lending_->lend(value.size());
    if (exchange.lent == nullptr) return false;
    std::memcpy(exchange.lent, value.data(), value.size());
    const uint64_t offset = uint64_t(reinterpret_cast<char*>(exchange.lent) - lending_->data());
    protocol::append_lent(out, exchange.sequence, {exchange.tag, 0, offset, protocol::lent_check(value)});
    exchange.value_sent = value.size();
    values_lent_++;
    return true;
}

void FramesOut::take_back(Exchange& exchange) {
    if (exchange.lent == nullptr) return;
    lending_->give_back(exchange.lent);
    exchange.lent = nullptr;
}

bool FramesOut::unlent(Exchange& exchange) {
    if (exchange.lent == nullptr) return false;
    take_back(exchange);
    exchange.unlent = true;
    exchange.value_sent = 0;
    if (exchange.late())
        protocol::append_abandoned(small_, exchange.sequence, exchange.tag);
    else
        follow(exchange);
    return true;
}

namespace {

using protocol::FrameError;
using protocol::RequestKind;
using protocol::ValueForm;

bool is_answer_to(RequestKind kind, const protocol::ReplyOp& op) {
    if (std::holds_alternative<protocol::RefusedReply>(op)) return true;
    switch (kind) {
        case RequestKind::get: return std::holds_alternative<protocol::GetReply>(op);
        case RequestKind::hold:
        case RequestKind::store: return std::holds_alternative<protocol::StoreReply>(op);
        case RequestKind::remove: return std::holds_alternative<protocol::DeleteReply>(op);
        case RequestKind::arith: return std::holds_alternative<protocol::ArithReply>(op);
        case RequestKind::forget:
        case RequestKind::flush:
        case RequestKind::flush_prefix:
        case RequestKind::keep:
        case RequestKind::flush_at: return std::holds_alternative<protocol::DoneReply>(op);
        case RequestKind::copies:
        case RequestKind::stats: return std::holds_alternative<protocol::StatsReply>(op);
    }
    return false;
}

bool is_hit(const protocol::ReplyOp& op) {
    const auto* get = std::get_if<protocol::GetReply>(&op);
    return get != nullptr && get->status == protocol::GetReply::Status::hit;
}

// Could this reply have granted a pointer?
bool could_grant(const protocol::ReplyOp& op) {
    using Store = protocol::StoreReply::Status;
    using Arith = protocol::ArithReply::Status;
    if (const auto* store = std::get_if<protocol::StoreReply>(&op)) return store->status == Store::stored;
    if (const auto* arith = std::get_if<protocol::ArithReply>(&op))
        return arith->status == Arith::ok || arith->status == Arith::vivified;
    return is_hit(op);
}

uint32_t value_len_of(const protocol::ReplyOp& op) {
    if (const auto* get = std::get_if<protocol::GetReply>(&op)) return get->meta.value_len;
    if (const auto* store = std::get_if<protocol::StoreReply>(&op)) return store->value_len;
    if (const auto* arith = std::get_if<protocol::ArithReply>(&op)) return arith->meta.value_len;
    return 0;
}

}  // namespace

Exchange* RepliesIn::answered_exchange(const protocol::NodeReply& reply, uint64_t sequence) {
    Exchange* exchange = parts_.exchanges.find(reply.tag, sequence);
    if (exchange == nullptr) return nullptr;
    if (exchange->state != Exchange::State::asked) return nullptr;
    if (!parts_.frames.was_sent(exchange->frame)) return nullptr;
    return is_answer_to(exchange->kind, reply.op) ? exchange : nullptr;
}

FrameError RepliesIn::replies(const protocol::Frame& frame, uint64_t now_ns) {
    protocol::ReplyReader reader(frame, limits_);
    protocol::NodeReply reply;
    bool clock_seen = false;
    for (;;) {
        const protocol::FrameStep step = reader.next(reply);
        if (step == protocol::FrameStep::end) return FrameError::none;
        if (step == protocol::FrameStep::bad) return reader.error();
        Exchange* exchange = answered_exchange(reply, frame.sequence);
        if (exchange == nullptr) return FrameError::reply_stranger;
        if (!clock_seen)
            parts_.clock.saw(reader.now(), parts_.frames.sent_ns(exchange->frame), now_ns);
        clock_seen = true;
        if (exchange->late()) parts_.counters.replies_late.add(1);
        if (exchange->value_sent < exchange->value.size()) parts_.frames.stop_following(*exchange);
        note_pointer(*exchange, reply, now_ns);
        to_host_times(reply.op);
        settle(*exchange, reply);
    }
}

// A delete keeps the key's pointer, as does a mutation without an answer. A later set may revive the slot (S1); until
// then a READ meets a dead guard.
void RepliesIn::note_pointer(Exchange& exchange, const protocol::NodeReply& reply, uint64_t now_ns) {
    if (!exchange.wants_grant) return;
    if (reply.grant.has_value()) {
        parts_.pointers.keep(*reply.grant,
                             {exchange.key_hash, exchange.key_len, value_len_of(reply.op),
                              parts_.frames.sent_ns(exchange.frame), now_ns});
        return;
    }
    if (!could_grant(reply.op)) return;
    parts_.counters.lease_denied.add(1);
    parts_.counters.count_denied(reply.denied);
    parts_.pointers.forget(exchange.key_hash);
}

void RepliesIn::to_host_times(protocol::ReplyOp& op) const {
    const NodeClockEstimate& clock = parts_.clock;
    auto convert = [&](protocol::ItemMeta& meta) {
        meta.exptime = clock.to_host(meta.exptime);
        meta.last_access = clock.to_host(meta.last_access);
    };
    if (auto* get = std::get_if<protocol::GetReply>(&op)) convert(get->meta);
    if (auto* arith = std::get_if<protocol::ArithReply>(&op)) convert(arith->meta);
    if (auto* store = std::get_if<protocol::StoreReply>(&op))
        store->exptime = clock.to_host(store->exptime);
}

void RepliesIn::settle(Exchange& exchange, protocol::NodeReply& reply) {
    if (reply.form == ValueForm::follows) {
        exchange.state = Exchange::State::receiving;
        exchange.head = std::move(reply.op);
        exchange.progress = {reply.value_bytes, 0};
        return;
    }
    if (const auto* refused = std::get_if<protocol::RefusedReply>(&reply.op)) {
        if (!exchange.late()) parts_.counters.node_refusals.add(1);
        fail(exchange, {AskFailure::refused, refused->reason});
        close(exchange);
        return;
    }
    const bool misses_value = is_hit(reply.op) && reply.form == ValueForm::none &&
                              value_len_of(reply.op) != 0 && !exchange.no_value;
    if (misses_value) {
        fail(exchange, {AskFailure::bad_reply, std::nullopt});
        close(exchange);
        return;
    }
    tell(exchange, std::move(reply.op), reply.value, nullptr);
}

FrameError RepliesIn::chunk(const protocol::Frame& frame) {
    protocol::Chunk chunk;
    FrameError error = protocol::parse_chunk(frame, chunk);
    if (error != FrameError::none) return error;
    Exchange* exchange = parts_.exchanges.find(chunk.tag, frame.sequence);
    if (exchange == nullptr) return FrameError::chunk_stranger;
    if (exchange->state != Exchange::State::receiving) return FrameError::chunk_stranger;
    error = exchange->progress.accept(chunk);
    if (error != FrameError::none) return error;
    if (chunk.abandoned) {
        fail(*exchange, {AskFailure::refused, protocol::RequestRefusal::abandoned});
        close(*exchange);
        return FrameError::none;
    }
    if (!exchange->late() && exchange->received == nullptr && !take_room(*exchange)) {
        parts_.counters.values_no_memory.add(1);
        fail(*exchange, {AskFailure::no_memory, std::nullopt});
    }
    if (exchange->received != nullptr)
        std::memcpy(exchange->received.get() + chunk.offset, chunk.bytes.data(), chunk.bytes.size());
    if (!exchange->progress.whole()) return FrameError::none;
    parts_.counters.values_received.add(1);
    if (exchange->late()) {
        close(*exchange);
        return FrameError::none;
    }
    const std::string_view value(exchange->received.get(), exchange->progress.total);
    tell(*exchange, std::move(exchange->head), value, std::move(exchange->received));
    return FrameError::none;
}

FrameError RepliesIn::unlent(const protocol::Frame& frame) {
    protocol::UnlentRecord unlent;
    const FrameError error = protocol::parse_unlent(frame, unlent);
    if (error != FrameError::none) return error;
    Exchange* exchange = parts_.exchanges.find(unlent.tag, frame.sequence);
    if (exchange == nullptr || !parts_.frames.unlent(*exchange)) return FrameError::chunk_stranger;
    parts_.counters.values_unlent.add(1);
    return FrameError::none;
}

bool RepliesIn::take_room(Exchange& exchange) {
    const uint64_t bytes = exchange.progress.total;
    if (large_bytes_ != 0 && large_bytes_ + bytes > large_bytes_max_) return false;
    exchange.received.reset(new (std::nothrow) char[bytes]);
    if (exchange.received == nullptr) return false;
    large_bytes_ += bytes;
    return true;
}

void RepliesIn::drop_received(Exchange& exchange) {
    if (exchange.received == nullptr) return;
    large_bytes_ -= exchange.progress.total;
    exchange.received.reset();
}

void RepliesIn::fail(Exchange& exchange, const Failed& why) {
    drop_received(exchange);
    const Exchanges::Sink to = parts_.exchanges.take_sink(exchange);
    if (exchange.order.has_value()) parts_.order.over(*exchange.order, exchange.order_of);
    exchange.order.reset();
    if (to.sink != nullptr) to.sink->failed(to.ticket, why);
}

// Frees the slot before the sink's call, which may submit a new request at once.
void RepliesIn::tell(Exchange& exchange, protocol::ReplyOp&& op, std::string_view value,
                     std::unique_ptr<char[]> owned) {
    if (owned != nullptr) large_bytes_ -= exchange.progress.total;
    const Exchanges::Sink to = parts_.exchanges.take_sink(exchange);
    const protocol::ReplyOp told = std::move(op);
    close(exchange);
    if (to.sink == nullptr) return;
    Answer answer{told, value, /* one_sided= */ false, /* by_index= */ false, std::move(owned)};
    to.sink->answered(to.ticket, answer);
}

void RepliesIn::close(Exchange& exchange) {
    if (exchange.order.has_value()) parts_.order.over(*exchange.order, exchange.order_of);
    parts_.frames.take_back(exchange);
    parts_.frames.answered(exchange.frame);
    parts_.exchanges.close(exchange);
}

}  // namespace farcached::proxy
