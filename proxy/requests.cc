// SPDX-License-Identifier: BSD-3-Clause
#include "proxy/requests.h"

#include "base/check.h"
#include "base/hash.h"

namespace farcached::proxy {

namespace {

using protocol::ArithOp;
using protocol::DeleteOp;
using protocol::FlushOp;
using protocol::ForgetOp;
using protocol::GetOp;
using protocol::HoldOp;
using protocol::CopiesOp;
using protocol::RequestKind;
using protocol::StatsOp;
using protocol::StoreOp;

// The properties of an operation that the link needs.
struct RequestTraits {
    RequestKind kind;
    bool mutation;
    bool has_key = true;
    bool wants_grant = false;
};

// A get that creates or touches an item, or hands out its tokens, counts as a mutation: earlier one-sided reads must
// not see its effect.
RequestTraits traits_of(const GetOp& op) {
    const bool mutation = op.touch.has_value() || op.vivify.has_value() || op.recache_before.has_value();
    return {RequestKind::get, mutation, true, op.lease};
}
RequestTraits traits_of(const StoreOp& op) { return {RequestKind::store, true, true, op.lease}; }
RequestTraits traits_of(const DeleteOp&) { return {RequestKind::remove, true}; }
RequestTraits traits_of(const ArithOp& op) { return {RequestKind::arith, true, true, op.lease}; }
RequestTraits traits_of(const ForgetOp&) { return {RequestKind::forget, true}; }
RequestTraits traits_of(const FlushOp& op) {
    if (!op.prefix.empty()) return {RequestKind::flush_prefix, true, false};
    if (!op.kept.empty()) return {RequestKind::keep, true, false};
    return {op.at.has_value() ? RequestKind::flush_at : RequestKind::flush, true, false};
}
RequestTraits traits_of(const StatsOp&) { return {RequestKind::stats, false, false}; }
RequestTraits traits_of(const CopiesOp&) { return {RequestKind::copies, false, false}; }
RequestTraits traits_of(const HoldOp&) { return {RequestKind::hold, true}; }

// The first protocol version that has it.
template <class Op>
uint32_t first_version(const Op& op) {
    if constexpr (std::is_same_v<Op, FlushOp>) {
        if (!op.kept.empty()) return protocol::version_with_right;
        return op.prefix.empty() ? 0 : protocol::version_with_prefix_deletes;
    }
    if constexpr (std::is_same_v<Op, HoldOp> || std::is_same_v<Op, CopiesOp>) return protocol::version_with_holds;
    if constexpr (std::is_same_v<Op, StoreOp>) {
        if (op.moved_since.has_value()) return protocol::version_with_list_of_mark;
        return op.spilled ? protocol::version_with_spilled : 0;
    }
    if constexpr (std::is_same_v<Op, GetOp>) return op.moved_since.has_value() ? protocol::version_with_list_of_mark : 0;
    return 0;
}

// Converts the operation's times to the node's clock.
template <class Op>
void to_node_times(Op& op, const NodeClockEstimate& clock) {
    const auto convert = [&](std::optional<NodeSeconds>& moment) {
        if (moment.has_value()) moment = clock.to_node(*moment);
    };
    if constexpr (requires { op.exptime; }) op.exptime = clock.to_node(op.exptime);
    if constexpr (requires { op.touch; }) convert(op.touch);
    if constexpr (requires { op.vivify; }) convert(op.vivify);
    if constexpr (requires { op.recache_before; }) convert(op.recache_before);
    if constexpr (requires { op.at; }) convert(op.at);
}

// Could an earlier request of its session overtake this one, or be overtaken by it (K3)?
bool must_wait(const RequestTraits& traits, KeyOrder::Of of, const KeyOrder& order, const Reads& reads) {
    using Kind = KeyOrder::Kind;
    if (!traits.has_key) {
        if (!traits.mutation) return false;
        if (order.any_of_session(Kind::large, of)) return true;
        return order.any_of_session(Kind::read, of) && reads.awaited().any_of_session(of.session);
    }
    if (order.any(Kind::large, of)) return true;
    return traits.mutation && order.any(Kind::read, of) && reads.awaited().any(of);
}

}  // namespace

Requests::Requests(const Config& config, const Parts& parts)
    : config_(config),
      lending_(parts.lending),
      clock_(parts.clock),
      counters_(parts.counters),
      notes_(parts.notes),
      exchanges_(config.under_way),
      reads_(parts.landing, order_, clock_, counters_, parts.events, config.reads_max, config.count_reads),
      pointers_({parts.table, reads_, clock_, counters_, notes_, parts.events}),
      index_({parts.table, reads_, clock_, counters_, notes_, parts.events}, config.probe_index),
      refusals_(counters_) {}

// ---- the connection ---------------------------------------------------------------------------------

void Requests::open(const protocol::Welcome& welcome, fabric::Channel& channel) {
    one_sided_ = protocol::reads_one_sided(welcome.version);
    version_ = welcome.version;
    hash_seed_ = welcome.hash_seed;
    channel_ = &channel;
    progress_ns_ = 0;
    frames_.emplace(welcome.frame_bytes_max, welcome.credits, version_ >= protocol::version_with_epoch);
    if (lending_ != nullptr && channel.lends() > 0) frames_->lend(*lending_, channel.lends());
    replies_.emplace(RepliesIn::Parts{exchanges_, *frames_, pointers_, order_, clock_, counters_},
                     protocol::agreed_limits(welcome, protocol::Sender::node),
                     config_.large_bytes_max + 2 * welcome.item_bytes_max);
    pointers_.greeted(welcome);
    index_.greeted(welcome);
    accepting_ = true;
}

void Requests::end_asking(bool broken) {
    accepting_ = false;
    if (broken) channel_ = nullptr;
}

void Requests::fail_all(AskFailure why) {
    end_asking(/* broken= */ true);
    const Failed failed{why, std::nullopt};
    reads_.fail_all(failed);
    exchanges_.for_each([&](Exchange& exchange) {
        if (!exchange.late()) counters_.node_failures.add(1);
        replies_->fail(exchange, failed);
        frames_->take_back(exchange);
        exchanges_.close(exchange);
    });
    CHECK(exchanges_.live() == 0);
    CHECK(reads_.live() == 0);
    for (uint32_t kind = 0; kind < KeyOrder::kinds; kind++)
        CHECK(order_.all(KeyOrder::Kind(kind)) == 0);
    replies_.reset();
    frames_.reset();
}

// ---- asking -----------------------------------------------------------------------------------------

bool Requests::value_follows(const StoreOp& op) const {
    CHECK(frames_.has_value());
    return protocol::must_follow(op, frames_->frame_bytes_max());
}

bool Requests::can_ask() const {
    if (!accepting_ || !exchanges_.room() || !frames_->room()) return false;
    return channel_->out_pending() < config_.unsent_bytes_max;
}

uint64_t Requests::bytes_under_way() const {
    uint64_t bytes = exchanges_.bytes();
    if (replies_.has_value()) bytes += replies_->large_bytes();
    if (channel_ != nullptr) bytes += channel_->out_pending();
    return bytes;
}

template <class Op>
AskResult Requests::ask(const Op& op, const AskOptions& options, ReplySink& sink) {
    uint64_t key_hash = 0;
    if constexpr (requires { op.key; }) key_hash = hash_key(op.key.bytes, hash_seed_);
    return ask(op, key_hash, options, sink);
}

template AskResult Requests::ask(const GetOp&, const AskOptions&, ReplySink&);
template AskResult Requests::ask(const StoreOp&, const AskOptions&, ReplySink&);
template AskResult Requests::ask(const DeleteOp&, const AskOptions&, ReplySink&);
template AskResult Requests::ask(const ArithOp&, const AskOptions&, ReplySink&);
template AskResult Requests::ask(const ForgetOp&, const AskOptions&, ReplySink&);
template AskResult Requests::ask(const FlushOp&, const AskOptions&, ReplySink&);
template AskResult Requests::ask(const StatsOp&, const AskOptions&, ReplySink&);
template AskResult Requests::ask(const HoldOp&, const AskOptions&, ReplySink&);
template AskResult Requests::ask(const CopiesOp&, const AskOptions&, ReplySink&);

template <class Op>
AskResult Requests::ask(const Op& op, uint64_t key_hash, const AskOptions& options, ReplySink& sink) {
    if (!accepting_) return AskResult::down;
    if (version_ < first_version(op)) {
        counters_.node_too_old.add(1);
        return AskResult::down;
    }
    // The reply to a get that could not be one-sided may show the key's access count.
    if constexpr (std::is_same_v<Op, GetOp>)
        if (!options.one_sided) notes_.shown(key_hash);
    if (!can_ask()) return refusals_.busy();
    if (must_wait(traits_of(op), {options.session, key_hash}, order_, reads_)) return refusals_.ordered();
    return write(op, key_hash, options, sink);
}

// Writes the request into the frame of this tick. All that can fail comes first.
template <class Op>
AskResult Requests::write(const Op& op, uint64_t key_hash, const AskOptions& options, ReplySink& sink) {
    const RequestTraits traits = traits_of(op);
    std::string_view follows;  // the value of a store, if it follows the request
    if constexpr (std::is_same_v<Op, StoreOp>)
        if (value_follows(op)) follows = op.value;
    CHECK(follows.empty() || options.value != nullptr);
    protocol::RequestOptions with;
    with.tag = exchanges_.next_tag();
    with.no_value = options.no_value && traits.kind == RequestKind::get;
    with.want_grant = traits.wants_grant && pointers_possible();
    with.value_follows = !follows.empty();
    Op there = op;
    to_node_times(there, clock_);
    if constexpr (std::is_same_v<Op, CopiesOp>)
        if (version_ < protocol::version_with_moved) there.name = 0;
    if (!follows.empty()) frames_->reserve_following();
    frames_->name_epoch(options.epoch);
    FramesOut::Place place;
    if (!frames_->add(there, with, place)) return refusals_.busy();
    const size_t bytes = protocol::request_bytes(there, with) + follows.size();
    Exchange& exchange = exchanges_.open(options, sink, uint32_t(bytes));
    exchange.kind = traits.kind;
    exchange.wants_grant = with.want_grant;
    exchange.sequence = place.sequence;
    exchange.frame = place.frame;
    if constexpr (requires { op.key; }) {
        exchange.key_hash = key_hash;
        exchange.key_len = uint16_t(op.key.bytes.size());
    }
    if (traits.mutation) {
        exchange.order = follows.empty() ? KeyOrder::Kind::mutation : KeyOrder::Kind::large;
        if (!traits.has_key) exchange.order = KeyOrder::Kind::flush;
        exchange.order_of = {options.session, key_hash};
        order_.begun(*exchange.order, exchange.order_of);
    }
    if (!follows.empty()) {
        counters_.values_sent.add(1);
        exchange.value_owner = options.value;
        exchange.value = follows;
        frames_->follow(exchange);
    }
    if (traits.kind == RequestKind::get)
        counters_.get_twosided.add(1);
    else if (traits.kind == RequestKind::store)
        counters_.set_twosided.add(1);
    else
        counters_.other_twosided.add(1);
    return AskResult::accepted;
}

AskResult Requests::get(const GetOp& op, const AskOptions& options, ReplySink& sink, uint64_t now_ns) {
    if (!accepting_) return AskResult::down;
    const uint64_t key_hash = hash_key(op.key.bytes, hash_seed_);
    const bool by_pointer = op.lease && pointers_.enabled();
    if (!options.one_sided || !reads_possible()) return ask(op, key_hash, options, sink);
    if (!by_pointer && !index_.enabled()) return ask(op, key_hash, options, sink);
    CHECK(!op.touch.has_value());
    CHECK(!op.vivify.has_value());
    CHECK(!op.recache_before.has_value());
    CHECK(!op.peek);
    if (order_.changing({options.session, key_hash})) {
        counters_.pointer_bypassed.add(1);
        return ask(op, key_hash, options, sink);
    }
    GetOp hashed = op;
    hashed.key.hash = key_hash;
    if (!clock_.may_read(now_ns)) {  // S17
        counters_.right_over.add(1);
        return ask(op, key_hash, options, sink);
    }
    if (by_pointer && pointers_.begin(*channel_, hashed, options, sink, now_ns)) return AskResult::accepted;
    if (index_.enabled() && index_.begin(*channel_, hashed, options, sink)) return AskResult::accepted;
    return ask(op, key_hash, options, sink);
}

std::optional<Elsewhere> Requests::read_for_home(const GetOp& op, const AskOptions& options, ReplySink& home,
                                                 const ForHome& way) {
    if (!accepting_ || !pointers_possible()) return std::nullopt;
    const Read* read = pointers_.begin_for_home(*channel_, op, options, home, way);
    if (read == nullptr) return std::nullopt;
    return Elsewhere{&reads_, read->number(), way.leased.ptr};
}

void Requests::expect(std::string_view key) const {
    if (accepting_ && pointers_possible()) pointers_.prefetch(hash_key(key, hash_seed_));
}

void Requests::forget_sink(const ReplySink& sink) {
    exchanges_.forget_sink(sink);
    reads_.forget_sink(sink);
}

// ---- ticks ------------------------------------------------------------------------------------------

uint32_t Requests::send(OutBuffer& out, uint64_t now_ns) {
    if (!anything_to_send()) return 0;
    if (frames_->requests_to_send()) notes_.before_requests(out);
    const uint32_t count = frames_->send(out, now_ns);
    counters_.node_frames.add(count);
    return count;
}

bool Requests::feed_values(fabric::Channel& channel) {
    if (!frames_.has_value() || !frames_->anything_follows()) return false;
    OutBuffer& out = channel.out();
    const uint64_t lent = frames_->values_lent();
    const bool fed = frames_->feed(out, channel.out_pending() - out.size());
    counters_.values_lent.add(frames_->values_lent() - lent);
    return fed;
}

protocol::FrameError Requests::take(const protocol::Frame& frame, uint64_t now_ns) {
    if (frame.sequence == frames_->oldest_sequence()) progress_ns_ = now_ns;
    switch (frame.kind) {
        case protocol::FrameKind::replies: return replies_->replies(frame, now_ns);
        case protocol::FrameKind::chunk: return replies_->chunk(frame);
        default: return replies_->unlent(frame);
    }
}

void Requests::judge_reads(uint64_t now_ns) {
    reads_.settle([&](Read& read) {
        if (std::holds_alternative<fabric::IndexProbe>(read.way))
            index_.judge(channel_, read, now_ns);
        else
            pointers_.judge(read, now_ns);
    });
}

bool Requests::ask_fallbacks() {
    if (!reads_.anything_to_ask()) return false;
    if (!accepting_) {
        reads_.fail_unasked({AskFailure::node_down, std::nullopt});
        return true;
    }
    bool asked = false;
    reads_.ask_two_sided([&](const Reads::Fallback& get) {
        if (!can_ask()) return false;
        if (write(get.op, get.op.key.hash, get.options, get.sink) != AskResult::accepted) return false;
        asked = true;  // flush() must send it
        return true;
    });
    return asked;
}

bool Requests::expire(uint64_t now_ns) {
    bool any = false;
    exchanges_.expire(now_ns, progress_ns_, [&](Exchange& exchange) {
        counters_.node_timeouts.add(1);
        frames_->stop_following(exchange);
        any = true;
        replies_->fail(exchange, {AskFailure::timed_out, std::nullopt});
    });
    return reads_.expire(now_ns, progress_ns_) || any;
}

}  // namespace farcached::proxy
