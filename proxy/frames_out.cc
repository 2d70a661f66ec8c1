// SPDX-License-Identifier: BSD-3-Clause
#include "proxy/frames_out.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace farcached::proxy {

namespace {

constexpr size_t building_kept_bytes = 256 * 1024;  // buffer memory kept between ticks

}  // namespace

FramesOut::FramesOut(uint32_t frame_bytes_max, uint32_t credits)
    : frame_bytes_max_(frame_bytes_max), credits_(credits), writer_(building_, frame_bytes_max) {
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

}  // namespace farcached::proxy
