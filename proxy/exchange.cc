// SPDX-License-Identifier: BSD-3-Clause
#include "proxy/exchange.h"

#include <algorithm>

#include "base/check.h"

namespace farcached::proxy {

uint32_t Exchanges::next_tag() {
    if (free_.empty()) {
        if (free_.capacity() <= slots_.size()) free_.reserve(std::max<size_t>(16, 2 * slots_.size()));  // close() never throws
        slots_.emplace_back();
        slots_.back().tag = uint32_t(slots_.size() - 1);
        free_.push_back(slots_.back().tag);
    }
    return free_.back();
}

Exchange& Exchanges::open(const AskOptions& options, ReplySink& sink, uint32_t bytes) {
    const uint32_t tag = next_tag();
    free_.pop_back();
    Exchange& exchange = slots_[tag];
    CHECK(exchange.state == Exchange::State::free);
    exchange.state = Exchange::State::asked;
    exchange.ticket = options.ticket;
    exchange.deadline_ns = options.deadline_ns;
    exchange.patience_ns = options.patience_ns;
    exchange.no_value = options.no_value;
    exchange.bytes = bytes;
    exchange.sink_ = &sink;
    live_++;
    bytes_ += bytes;
    next_deadline_ns_ = std::min(next_deadline_ns_, options.deadline_ns);
    return exchange;
}

Exchange* Exchanges::find(uint32_t tag, uint64_t sequence) {
    if (tag >= slots_.size()) return nullptr;
    Exchange& exchange = slots_[tag];
    if (exchange.state == Exchange::State::free) return nullptr;
    return exchange.sequence == sequence ? &exchange : nullptr;
}

void Exchanges::close(Exchange& exchange) {
    CHECK(exchange.state != Exchange::State::free);
    CHECK(exchange.late());
    const uint32_t tag = exchange.tag;
    live_--;
    CHECK(bytes_ >= exchange.bytes);
    bytes_ -= exchange.bytes;
    exchange = Exchange();
    exchange.tag = tag;
    free_.push_back(tag);
}

Exchanges::Sink Exchanges::take_sink(Exchange& exchange) {
    const Sink sink{exchange.sink_, exchange.ticket};
    exchange.sink_ = nullptr;
    return sink;
}

void Exchanges::expire(uint64_t now_ns, uint64_t progress_ns, FunctionRef<void(Exchange&)> expired) {
    if (now_ns < next_deadline_ns_) return;
    next_deadline_ns_ = UINT64_MAX;
    for (size_t i = 0; i < slots_.size(); i++) {
        Exchange& exchange = slots_[i];
        if (exchange.state == Exchange::State::free || exchange.late()) continue;
        const uint64_t deadline_ns = put_off(exchange.deadline_ns, exchange.patience_ns, progress_ns);
        if (deadline_ns <= now_ns)
            expired(exchange);
        else
            next_deadline_ns_ = std::min(next_deadline_ns_, deadline_ns);
    }
}

void Exchanges::for_each(FunctionRef<void(Exchange&)> visit) {
    for (size_t i = 0; i < slots_.size(); i++)
        if (slots_[i].state != Exchange::State::free) visit(slots_[i]);
}

void Exchanges::forget_sink(const ReplySink& sink) {
    for (Exchange& exchange : slots_)
        if (exchange.sink_ == &sink) exchange.sink_ = nullptr;
}

}  // namespace farcached::proxy
