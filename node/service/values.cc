// SPDX-License-Identifier: BSD-3-Clause
#include "node/service/values.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>
#include <variant>

#include "base/check.h"
#include "protocol/frame_writer.h"

namespace farcached::node {

using protocol::Frame;
using protocol::FrameError;
using protocol::RequestRefusal;

namespace {

std::unique_ptr<char[]> take_memory(uint64_t bytes) {  // nullptr: no memory
    return std::unique_ptr<char[]>(new (std::nothrow) char[bytes]);
}

}  // namespace

// ---- received -------------------------------------------------------------------------------------------

ReceivedValues::~ReceivedValues() {
    for (const auto& [token, fetch] : fetches_) connection_.shared.fetches->give_back(fetch.landing);
}

void ReceivedValues::clear() {
    for (const auto& [id, one] : incoming_) uncharge(one);
    incoming_.clear();
}

void ReceivedValues::uncharge(const Incoming& incoming) {
    connection_.account.give_back(record_bytes + incoming.charged, incoming.since_ms);
}

ReceivedValues::Announced ReceivedValues::announce(const RequestId& id, const protocol::NodeRequest& request, bool lease) {
    const ServiceLimits& limits = connection_.shared.limits;
    if (incoming_.size() >= limits.incoming_values_max) return Announced::too_many;
    auto [place, fresh] = incoming_.try_emplace(id);
    if (!fresh) return Announced::repeated;
    Incoming& incoming = place->second;
    incoming.since_ms = connection_.now_ms();
    if (!connection_.account.take(record_bytes, incoming.since_ms, incoming.since_ms, PeerBudget::For::frame)) {
        incoming_.erase(place);
        return Announced::over_budget;
    }
    incoming.op = std::get<protocol::StoreOp>(request.op);
    incoming.key = incoming.op.key.bytes;
    incoming.op.lease = lease;
    incoming.epoch = connection_.epoch;
    incoming.progress.total = request.value_bytes;
    incoming.too_large = connection_.shared.node.too_large(incoming.key.size(), request.value_bytes);
    const bool allowed = connection_.may(request.op);
    if (!allowed) incoming.refusal = RequestRefusal::not_allowed;
    if (connection_.stopping) incoming.refusal = RequestRefusal::stopping;
    const uint64_t room = limits.incoming_bytes_max;
    const bool fits = bytes_ == 0 || (bytes_ < room && request.value_bytes <= room - bytes_);
    incoming.admitted = fits && !incoming.too_large && !connection_.stopping && allowed;
    if (incoming.admitted) bytes_ += request.value_bytes;
    return Announced::waits;
}

FrameError ReceivedValues::chunk(const Frame& frame, Over over) {
    protocol::Chunk piece;
    FrameError error = protocol::parse_chunk(frame, piece);
    if (error != FrameError::none) return error;
    const auto found = incoming_.find({frame.sequence, piece.tag});
    if (found == incoming_.end()) return FrameError::chunk_stranger;
    Incoming& incoming = found->second;
    error = incoming.fetching ? FrameError::chunk_order : incoming.progress.accept(piece);
    if (error != FrameError::none) return error;
    if (!piece.abandoned && incoming.admitted) {
        if (incoming.value == nullptr) incoming.value = take_memory(incoming.progress.total);
        const uint64_t size = piece.bytes.size();
        if (incoming.value == nullptr ||
            !connection_.account.take(size, incoming.since_ms, connection_.now_ms(), PeerBudget::For::value)) {
            drop(incoming);
        } else {
            incoming.charged += size;
            std::memcpy(incoming.value.get() + piece.offset, piece.bytes.data(), size);
        }
    }
    if (piece.abandoned || incoming.progress.whole())
        end(found, piece.abandoned, {incoming.value.get(), incoming.value ? incoming.progress.total : 0}, over);
    return FrameError::none;
}

// No room for the value: its pieces are discarded, and it is refused at the end.
void ReceivedValues::drop(Incoming& incoming) {
    if (incoming.value != nullptr) connection_.counters.values_over_budget.add(1);
    connection_.account.give_back(incoming.charged, incoming.since_ms);
    incoming.charged = 0;
    incoming.value.reset();
    incoming.admitted = false;
    bytes_ -= incoming.progress.total;
}

FrameError ReceivedValues::lent(const Frame& frame, Over over) {
    protocol::LentRecord record;
    const FrameError error = protocol::parse_lent(frame, record);
    if (error != FrameError::none) return error;
    const auto found = incoming_.find({frame.sequence, record.tag});
    if (found == incoming_.end()) return FrameError::chunk_stranger;
    const Incoming& incoming = found->second;
    if (incoming.fetching || incoming.progress.received != 0) return FrameError::chunk_order;
    if (!incoming.admitted) {
        end(found, /* abandoned= */ false, {}, over);
    } else if (!fetch(found, record)) {
        connection_.counters.values_unfetched.add(1);
        protocol::append_unlent(connection_.channel->out(), frame.sequence, record.tag);
    }
    return FrameError::none;
}

// False: no buffer, or the channel takes no READ now.
bool ReceivedValues::fetch(Incomings::iterator found, const protocol::LentRecord& lent) {
    Incoming& incoming = found->second;
    const uint64_t bytes = incoming.progress.total;
    FetchPool* buffers = connection_.shared.fetches;
    if (buffers == nullptr || bytes > buffers->size()) return false;
    uint64_t* landing = buffers->lend(bytes);
    if (landing == nullptr) return false;
    if (!connection_.channel->post_fetch({lent.offset, uint32_t(bytes), landing, next_fetch_})) {
        buffers->give_back(landing);
        return false;
    }
    fetches_.insert({next_fetch_++, {found->first, landing, lent.check}});
    incoming.fetching = true;
    return true;
}

FrameError ReceivedValues::read_done(uint64_t token, fabric::ReadStatus status, Over over) {
    const auto place = fetches_.find(token);
    CHECK(place != fetches_.end());
    const Fetch fetch = place->second;
    fetches_.erase(place);
    FrameError error = FrameError::none;
    const auto found = incoming_.find(fetch.id);
    if (found != incoming_.end()) {  // otherwise the connection is ending
        const std::string_view value(reinterpret_cast<const char*>(fetch.landing), found->second.progress.total);
        found->second.fetching = false;
        if (status != fabric::ReadStatus::done) {
            connection_.counters.values_unfetched.add(1);
            protocol::append_unlent(connection_.channel->out(), fetch.id.sequence, fetch.id.tag);
        } else if (protocol::lent_check(value) != fetch.check) {
            error = FrameError::lent_mismatch;
        } else {
            connection_.counters.values_fetched.add(1);
            end(found, /* abandoned= */ false, value, over);
        }
    }
    connection_.shared.fetches->give_back(fetch.landing);
    return error;
}

void ReceivedValues::end(Incomings::iterator found, bool abandoned, std::string_view value, Over over) {
    using How = Ended::How;
    Incoming& incoming = found->second;
    const How how = abandoned             ? How::abandoned
                    : incoming.too_large  ? How::too_large
                    : !incoming.admitted  ? How::refused
                                          : How::whole;
    if (how == How::abandoned) connection_.counters.values_abandoned.add(1);
    if (how == How::whole) {
        connection_.counters.values_received.add(1);
        incoming.op.key.bytes = incoming.key;  // hashed at the announcement
        incoming.op.value = value;
    }
    over(found->first, {how, incoming.refusal, incoming.op, incoming.epoch});
    if (incoming.admitted) bytes_ -= incoming.progress.total;
    uncharge(incoming);
    incoming_.erase(found);
}

// ---- sent -----------------------------------------------------------------------------------------------

SentValues::Value SentValues::reserve(uint64_t bytes) {
    Value value{nullptr, bytes, connection_.now_ms()};
    if (!connection_.account.take(bytes, value.since_ms, value.since_ms, PeerBudget::For::value)) {
        connection_.counters.values_over_budget.add(1);
        return value;
    }
    value.bytes = take_memory(bytes);
    if (value.bytes == nullptr) connection_.account.give_back(bytes, value.since_ms);
    return value;
}

void SentValues::send(const RequestId& id, Value value) {
    bytes_ += value.size;
    outgoing_.push_back({id, std::move(value), 0});
}

std::optional<uint64_t> SentValues::send_piece() {
    Outgoing next = std::move(outgoing_.front());
    outgoing_.pop_front();
    const uint32_t size = protocol::chunk_size(next.value.size - next.sent, connection_.limits.frame_bytes_max);
    OutBuffer& out = connection_.channel->out();
    char* to = out.reserve(protocol::chunk_head_bytes + size);
    to = protocol::write_chunk_head(to, next.id.sequence, next.id.tag, next.sent, size);
    std::memcpy(to, next.value.bytes.get() + next.sent, size);
    out.commit(protocol::chunk_head_bytes + size);
    next.sent += size;
    connection_.seat.used(connection_.shared.clock().seconds);
    if (next.sent < next.value.size) {
        outgoing_.push_back(std::move(next));
        return std::nullopt;
    }
    bytes_ -= next.value.size;
    connection_.account.give_back(next.value.size, next.value.since_ms);
    connection_.counters.values_sent.add(1);
    return next.id.sequence;
}

void SentValues::clear() {
    for (const Outgoing& one : outgoing_) connection_.account.give_back(one.value.size, one.value.since_ms);
    outgoing_.clear();
}

bool SentValues::may_parse() const {
    const ServiceLimits& limits = connection_.shared.limits;
    const uint64_t most = connection_.shared.budget.tight() ? std::min(limits.outgoing_bytes_max, limits.outgoing_bytes_max_tight)
                                                            : limits.outgoing_bytes_max;
    return may_send() && bytes_ < most;
}

size_t SentValues::out_mark() const {
    const ServiceLimits& limits = connection_.shared.limits;
    return connection_.shared.budget.tight() ? std::min(limits.out_bytes_mark, limits.out_bytes_mark_tight)
                                             : limits.out_bytes_mark;
}

// ---- streams --------------------------------------------------------------------------------------------

// The time restarts when as many bytes have moved as are held.
void StreamBytes::hold(const Connection& connection, uint64_t bytes, uint64_t moved, bool ends) {
    PeerBudget::Account& account = connection.account;
    if (bytes <= connection.shared.limits.free_bytes) bytes = 0;
    if (bytes == 0 && bytes_ == 0) return;
    moved_ += moved;
    if (moved_ >= bytes_) {
        account.give_back(bytes_, since_ms_);
        *this = {};
        since_ms_ = connection.now_ms();
    }
    if (bytes < bytes_) {
        account.give_back(bytes_ - bytes, since_ms_);
        bytes_ = bytes;
    }
    if (bytes == bytes_ || ends) return;
    if (account.take(bytes - bytes_, since_ms_, connection.now_ms(), PeerBudget::For::frame)) bytes_ = bytes;
}

}  // namespace farcached::node
