// SPDX-License-Identifier: BSD-3-Clause
// NodeLink: turns requests into frame entries or one-sided reads.
// Owner, threads and invariants: see node_link.h.
#include <new>

#include "base/check.h"
#include "base/hash.h"
#include "proxy/node_link.h"

namespace farcached::proxy {

namespace {

using protocol::ArithOp;
using protocol::DeleteOp;
using protocol::FlushOp;
using protocol::ForgetOp;
using protocol::GetOp;
using protocol::RequestKind;
using protocol::StatsOp;
using protocol::StoreOp;

// The properties of an operation that the link needs.
struct RequestTraits {
    RequestKind kind;
    const protocol::Key* key;  // nullptr: none
    bool mutation;
    bool wants_grant = false;
};

// A get that creates or touches an item, or hands out its tokens, counts as a mutation: earlier one-sided reads must
// not see its effect.
RequestTraits traits_of(const GetOp& op) {
    const bool mutation = op.touch.has_value() || op.vivify.has_value() || op.recache_before.has_value();
    return {RequestKind::get, &op.key, mutation, op.lease};
}
RequestTraits traits_of(const StoreOp& op) { return {RequestKind::store, &op.key, true, op.lease}; }
RequestTraits traits_of(const DeleteOp& op) { return {RequestKind::remove, &op.key, true}; }
RequestTraits traits_of(const ArithOp& op) { return {RequestKind::arith, &op.key, true, op.lease}; }
RequestTraits traits_of(const ForgetOp& op) { return {RequestKind::forget, &op.key, true}; }
RequestTraits traits_of(const FlushOp& op) {
    if (!op.prefix.empty()) return {RequestKind::flush_prefix, nullptr, true};
    return {op.at.has_value() ? RequestKind::flush_at : RequestKind::flush, nullptr, true};
}
RequestTraits traits_of(const StatsOp&) { return {RequestKind::stats, nullptr, false}; }

// Converts the operation's times to the node's clock.
using Times = const NodeClockEstimate&;
void convert(std::optional<NodeSeconds>& moment, Times clock) {
    if (moment.has_value()) moment = clock.to_node(*moment);
}
void to_node_times(GetOp& op, Times clock) {
    convert(op.touch, clock);
    convert(op.vivify, clock);
    convert(op.recache_before, clock);
}
void to_node_times(StoreOp& op, Times clock) {
    op.exptime = clock.to_node(op.exptime);
    convert(op.vivify, clock);
}
void to_node_times(DeleteOp& op, Times clock) { convert(op.touch, clock); }
void to_node_times(ArithOp& op, Times clock) {
    convert(op.vivify, clock);
    convert(op.touch, clock);
}
void to_node_times(FlushOp& op, Times clock) { convert(op.at, clock); }
void to_node_times(ForgetOp&, Times) {}
void to_node_times(StatsOp&, Times) {}

KeyOrder::Of order_of(const RequestTraits& traits, const AskOptions& options) {
    return {options.session, traits.key == nullptr ? 0 : traits.key->hash};
}

// Could an earlier request of its session overtake this one, or be overtaken by it (K3)?
bool must_wait(const RequestTraits& traits, KeyOrder::Of of, const KeyOrder& order, const Reads& reads) {
    using Kind = KeyOrder::Kind;
    if (traits.key == nullptr) {
        if (!traits.mutation) return false;
        if (order.any_of_session(Kind::large, of)) return true;
        return order.any_of_session(Kind::read, of) && reads.awaited_of_session(of.session);
    }
    if (order.any(Kind::large, of)) return true;
    return traits.mutation && order.any(Kind::read, of) && reads.awaited(of);
}

// The value of a store, if it follows the request.
std::string_view following_value(const StoreOp& op, uint32_t frame_bytes_max) {
    return must_follow(op, frame_bytes_max) ? op.value : std::string_view();
}
template <class Op>
std::string_view following_value(const Op&, uint32_t) {
    return {};
}

}  // namespace

bool NodeLink::value_follows(const StoreOp& op) const {
    CHECK(up());
    return protocol::must_follow(op, frames_->frame_bytes_max());
}

bool NodeLink::can_ask() const {
    if (!up() || down_.has_value()) return false;
    if (!exchanges_.room() || !frames_->room()) return false;
    return channel_->out_pending() < config_.unsent_bytes_max;
}

uint64_t NodeLink::bytes_under_way() const {
    uint64_t bytes = exchanges_.bytes();
    if (replies_.has_value()) bytes += replies_->large_bytes();
    if (channel_ != nullptr) bytes += channel_->out_pending();
    return bytes;
}

bool NodeLink::reads_possible() const { return one_sided_ && channel_->can_read(); }

bool NodeLink::pointers_possible() const { return pointers_.enabled() && reads_possible(); }

template <class Op>
SubmitResult NodeLink::ask_any(const Op& op, const AskOptions& options, ReplySink& sink) {
    if (!up() || down_.has_value()) return SubmitResult::down;
    if (!can_ask()) {
        counters_.node_busy.add(1);
        was_busy_ = true;
        return SubmitResult::busy;
    }
    Op hashed = op;
    if constexpr (requires { hashed.key; })
        hashed.key.hash = hash_key(hashed.key.bytes, welcome_.hash_seed);
    const RequestTraits traits = traits_of(hashed);
    if (must_wait(traits, order_of(traits, options), order_, reads_)) {
        counters_.node_ordered.add(1);
        was_ordered_ = true;
        return SubmitResult::ordered;
    }
    return write(hashed, options, sink);
}

// Writes the request into the frame of this tick. Its key's hash is set.
template <class Op>
SubmitResult NodeLink::write(const Op& op, const AskOptions& options, ReplySink& sink) {
    const RequestTraits traits = traits_of(op);
    const std::string_view follows = following_value(op, frames_->frame_bytes_max());
    CHECK(follows.empty() || options.value != nullptr);
    protocol::RequestOptions with;
    with.tag = exchanges_.next_tag();
    with.no_value = options.no_value && traits.kind == RequestKind::get;
    with.want_grant = traits.wants_grant && pointers_possible();
    with.value_follows = !follows.empty();
    Op there = op;
    to_node_times(there, clock_);
    FramesOut::Place place;
    if (!frames_->add(there, with, place)) {
        counters_.node_busy.add(1);
        was_busy_ = true;
        return SubmitResult::busy;
    }
    const size_t bytes = protocol::request_bytes(there, with) + follows.size();
    Exchange& exchange = exchanges_.open(options, sink, uint32_t(bytes));
    exchange.kind = traits.kind;
    exchange.wants_grant = with.want_grant;
    exchange.sequence = place.sequence;
    exchange.frame = place.frame;
    if (traits.key != nullptr) {
        exchange.key_hash = traits.key->hash;
        exchange.key_len = uint16_t(traits.key->bytes.size());
    }
    if (traits.mutation) {
        exchange.order = follows.empty() ? KeyOrder::Kind::mutation : KeyOrder::Kind::large;
        if (traits.key == nullptr) exchange.order = KeyOrder::Kind::flush;
        exchange.order_of = order_of(traits, options);
        order_.begun(*exchange.order, exchange.order_of);
    }
    if (!follows.empty()) {
        counters_.values_sent.add(1);
        exchange.value_owner = options.value;
        exchange.value = follows;
        follow(exchange);
    }
    if (traits.kind == RequestKind::get)
        counters_.get_twosided.add(1);
    else if (traits.kind == RequestKind::store)
        counters_.set_twosided.add(1);
    else
        counters_.other_twosided.add(1);
    return SubmitResult::accepted;
}

// The frame announced the value, so the node waits for it. Without memory the connection ends with this tick.
void NodeLink::follow(Exchange& exchange) noexcept {
    try {
        frames_->follow(exchange);
    } catch (const std::bad_alloc&) {
        break_off(LinkDown::no_memory, std::string(no_memory_text));
    }
}

// The reply to a get that could not be one-sided may show the key's access count.
SubmitResult NodeLink::ask(const GetOp& op, const AskOptions& options, ReplySink& sink) {
    if (!options.one_sided && up()) notes_.shown(hash_key(op.key.bytes, welcome_.hash_seed));
    return ask_any(op, options, sink);
}
SubmitResult NodeLink::ask(const StoreOp& op, const AskOptions& options, ReplySink& sink) {
    return ask_any(op, options, sink);
}
SubmitResult NodeLink::ask(const DeleteOp& op, const AskOptions& options, ReplySink& sink) {
    return ask_any(op, options, sink);
}
SubmitResult NodeLink::ask(const ArithOp& op, const AskOptions& options, ReplySink& sink) {
    return ask_any(op, options, sink);
}
SubmitResult NodeLink::ask(const ForgetOp& op, const AskOptions& options, ReplySink& sink) {
    return ask_any(op, options, sink);
}
SubmitResult NodeLink::ask(const FlushOp& op, const AskOptions& options, ReplySink& sink) {
    if (!op.prefix.empty() && up() && limits_.version < protocol::version_with_prefix_deletes) {
        counters_.node_too_old.add(1);
        return SubmitResult::down;
    }
    return ask_any(op, options, sink);
}
SubmitResult NodeLink::ask(const StatsOp& op, const AskOptions& options, ReplySink& sink) {
    return ask_any(op, options, sink);
}

SubmitResult NodeLink::get(const GetOp& op, const AskOptions& options, ReplySink& sink, uint64_t now_ns) {
    if (!up() || down_.has_value()) return SubmitResult::down;
    const bool by_pointer = op.lease && pointers_.enabled();
    if (!options.one_sided || !reads_possible()) return ask(op, options, sink);
    if (!by_pointer && !index_.enabled()) return ask(op, options, sink);
    CHECK(!op.touch.has_value());
    CHECK(!op.vivify.has_value());
    CHECK(!op.recache_before.has_value());
    CHECK(!op.peek);
    GetOp hashed = op;
    hashed.key.hash = hash_key(op.key.bytes, welcome_.hash_seed);
    const KeyOrder::Of of{options.session, hashed.key.hash};
    if (order_.changing(of)) {
        counters_.pointer_bypassed.add(1);
        return ask(op, options, sink);
    }
    if (by_pointer && pointers_.begin(*channel_, hashed, options, sink, now_ns)) return SubmitResult::accepted;
    if (index_.enabled() && index_.begin(*channel_, hashed, options, sink)) return SubmitResult::accepted;
    return ask(op, options, sink);
}

void NodeLink::expect(std::string_view key) const {
    if (up() && pointers_possible()) pointers_.prefetch(hash_key(key, welcome_.hash_seed));
}

void NodeLink::ask_fallbacks() {
    if (!reads_.anything_to_ask()) return;
    if (state_ == LinkState::leaving) {
        reads_.fail_unasked({AskFailure::node_down, std::nullopt});
        told_ = true;
        return;
    }
    reads_.ask_two_sided([&](const Reads::Fallback& get) {
        if (!can_ask()) return false;
        if (write(get.op, get.options, get.sink) != SubmitResult::accepted) return false;
        told_ = true;  // flush() must send it
        return true;
    });
}

bool NodeLink::note_access(uint64_t key_hash, uint64_t generation, uint64_t offset, uint32_t region) {
    return notes_.note(key_hash, offset, region, generation);
}

void NodeLink::forget_sink(const ReplySink& sink) {
    exchanges_.forget_sink(sink);
    reads_.forget_sink(sink);
}

}  // namespace farcached::proxy
