// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/steps/replicas.h"

#include <utility>
#include <variant>

#include "base/broken.h"
#include "base/node_clock.h"
#include "base/random_word.h"
#include "daemon/engine/links.h"
#include "daemon/steps/copy_plan.h"
#include "protocol/op.h"

namespace farcached::daemon {

using protocol::FlushOp;
using protocol::GetOp;
using protocol::GetReply;
using protocol::HoldOp;
using protocol::StoreReply;

namespace {

constexpr uint64_t again_ns = 10'000'000;  // a newer list arrives within this time, or a few of it
constexpr uint32_t tries_max = 100;
constexpr uint64_t hold_age_ns = 5'000'000'000;
constexpr uint64_t closed_ns = (protocol::CopiesOp::closed_s - 5) * UINT64_C(1'000'000'000);

// A recache token stays at the primary.
bool is_mutation(const protocol::RequestOp& op) {
    const auto* get = std::get_if<GetOp>(&op);
    return get == nullptr ? !std::holds_alternative<FlushOp>(op) : get->touch.has_value() || get->vivify.has_value();
}

bool is_hit(const GetReply& reply) { return reply.status == GetReply::Status::hit; }

}  // namespace

Replicas::Replicas(ReplyPool& replies, Context& context)
    : SteppedRequests(replies, context),
      completion_(replies, context, [this](const GetOp& op, Ticket ticket) { submit_own(op, ticket); }) {}

bool Replicas::takes_gets(std::string_view) const { return context_.router.links().peers().refills(); }

bool Replicas::list_is_same(const Request& request) const { return request.list == context_.router.links().peers().set(); }

template <class Op>
void Replicas::ask_copy(Request& request, const Op& op, Step then) {
    ask(request, then, [&](Ticket ticket) { context_.router.links().ask_copy(op, ticket); });
}

bool Replicas::goes_ahead(const Request& request) const {
    return request.is_get() && !request.completes && !queues().waits(request.key().bytes, request.session);
}

void Replicas::begin(Request& request) {
    const protocol::RequestOp& op = request.asked.op;
    Links& links = context_.router.links();
    if (!links.peers().has_copies() && !is_mutation(op)) return pass_on(request);
    request.list = links.peers().set();
    if (std::holds_alternative<FlushOp>(op)) return begin_flush(request);
    if (is_mutation(op)) return begin_mutation(request);
    if (!request.completes && !request.is_get()) return pass_on(request);
    LinkPeer* const near = request.wanted.near ? links.peers().copy_that_answers(request.key().bytes) : nullptr;
    if (near == nullptr) return begin_get(request);
    ask(request, step(&Replicas::near_answered),
        [&](Ticket ticket) { links.get(near, std::get<GetOp>(op), request.wanted, ticket); });
}

// ---- a flush (C6) ---------------------------------------------------------------------------------------

void Replicas::ask_all(Request& request, protocol::CopiesOp::What what, Step then) {
    const protocol::CopiesOp op{what, uint32_t(request.mark)};
    ask(request, then, [&](Ticket ticket) { context_.router.links().ask(op, ticket); });
}

// A node knows by itself what to do at the moment of a scheduled one (node/store/flush_schedule.h).
void Replicas::begin_flush(Request& request) {
    if (std::get<FlushOp>(request.asked.op).at.has_value()) return pass_on(request);
    request.held_ns = boottime_ns();
    request.mark = uint32_t(random_word() | 1);  // the name of the close
    ask_all(request, protocol::CopiesOp::What::close, step(&Replicas::closed));
}

void Replicas::closed(Request& request, ReplySlot& slot) {
    if (!slot.available() || !list_is_same(request)) {
        ask_all(request, protocol::CopiesOp::What::open, step(&Replicas::done));  // one out of reach opens by itself
        return slot.available() ? begin_again(request) : fail(request, "a node did not flush in time");
    }
    ask(request, step(&Replicas::flushed),
        [&](Ticket ticket) { context_.router.links().ask(std::get<FlushOp>(request.asked.op), ticket); });
}

void Replicas::flushed(Request& request, ReplySlot& slot) {
    const bool in_time = boottime_ns() - request.held_ns < closed_ns && list_is_same(request);
    ask_all(request, protocol::CopiesOp::What::open, step(&Replicas::done));
    if (!slot.available() && again_later(request, slot)) return;
    if (!slot.available() || !in_time) return fail(request, "a node did not flush in time");
    answer(request, slot.reply());
}

// ---- a newer list -------------------------------------------------------------------------------------

void Replicas::begin_again(Request& request) {
    end_hold(request);
    if (++request.tries > tries_max) {
        if (request.completes) return fail_to_complete(request);
        return fail(request, "the list of nodes changes");
    }
    begin(request);
}

// The node has a newer list than this process, and has not executed the request.
bool Replicas::again_later(Request& request, const ReplySlot& slot) {
    if (slot.failure() != list_is_old || request.tries > tries_max) return false;
    end_hold(request);
    waiting_.push_back(request.number);
    if (again_at_ns_ == UINT64_MAX) again_at_ns_ = boottime_ns() + again_ns;
    return true;
}

void Replicas::timer_due() {
    completion_.timer_due();
    if (again_at_ns_ > boottime_ns()) return;
    again_at_ns_ = UINT64_MAX;
    for (const uint64_t number : std::exchange(waiting_, {}))
        if (Request* request = find(number)) attempt(*request, [&] { begin_again(*request); });
}

void Replicas::stop() {
    completion_.stop();
    waiting_.clear();
    again_at_ns_ = UINT64_MAX;
    SteppedRequests::stop();
}

// ---- a get ------------------------------------------------------------------------------------------

void Replicas::begin_get(Request& request) {
    Links& links = context_.router.links();
    request.list = links.peers().set();
    PeerSet& peers = links.peers();
    const bool asks_copy = request.completes || (peers.refills() && !peers.prefers_copy(request.key().bytes));
    if (!asks_copy) return pass_on(request);
    ask_links(request, std::get<GetOp>(request.asked.op), request.wanted, step(&Replicas::first_answered));
}

// The primary may already have executed a later request of the session: this get must not see its effect.
void Replicas::near_answered(Request& request, ReplySlot& slot) {
    const auto* reply = slot.available() ? std::get_if<GetReply>(&slot.reply()) : nullptr;
    if (reply != nullptr && is_hit(*reply) && !CopyPlan::has_tokens(reply->meta)) {
        context_.counters.replica_reads.add(1);
        return answer(request, slot.reply(), slot.value());
    }
    if (reply == nullptr && slot.failure() != list_is_old) context_.router.links().peers().near_copy_failed();
    const bool is_behind = request.is_ahead && queues().waits_to_change(request.key().bytes, request.session);
    is_behind ? answer(request, GetReply()) : begin_get(request);
}

void Replicas::first_answered(Request& request, ReplySlot& slot) {
    const std::string_view key = request.key().bytes;
    const auto is_behind = [&] { return request.is_ahead && queues().waits_to_change(key, request.session); };
    if (!slot.available()) return is_behind() ? answer(request, GetReply()) : give_up_refill(request);
    const bool hit = is_hit(std::get<GetReply>(slot.reply()));
    if (hit && request.completes && !context_.router.links().peers().keeps_copy(key)) return answer(request, GetReply());
    if (hit && request.completes) return ask_copy(request, std::get<GetOp>(request.asked.op), step(&Replicas::second_looked));
    if (hit) return answer(request, slot.reply(), slot.value());
    if (request.is_ahead) return is_behind() ? answer(request, GetReply()) : wait_for_key(request);
    ask_links(request, request.mark_op(), {}, step(&Replicas::mark_answered));
}

void Replicas::mark_answered(Request& request, ReplySlot& slot) {
    const auto* reply = slot.available() ? std::get_if<StoreReply>(&slot.reply()) : nullptr;
    const bool is_missing = reply != nullptr && reply->status == StoreReply::Status::not_found;
    const bool is_closed = is_missing && reply->cas == protocol::mark_bit;  // a flush is near
    if (!is_missing || is_closed || !list_is_same(request)) return give_up_refill(request);
    request.mark = reply->cas;
    GetOp op;
    op.key = request.key();
    ask_copy(request, op, step(&Replicas::copy_answered));
}

void Replicas::copy_answered(Request& request, ReplySlot& slot) {
    const auto* reply = slot.available() ? std::get_if<GetReply>(&slot.reply()) : nullptr;
    if (reply == nullptr && request.completes) return fail_to_complete(request);
    if (reply == nullptr || !is_hit(*reply) || CopyPlan::has_tokens(reply->meta) || has_expired(reply->meta.exptime, context_.now))
        return answer(request, GetReply());
    if (!list_is_same(request)) return give_up_refill(request);
    keep_found(request, reply->meta, slot.value());
    if (request.completes) completion_.count_copied(slot.value().size());
    ask_links(request, request.fill_op(), {}, step(&Replicas::fill_answered));
}

void Replicas::fill_answered(Request& request, ReplySlot& slot) {
    if (!slot.available() && request.completes) return fail_to_complete(request);
    const StoreReply reply = slot.available() ? std::get<StoreReply>(slot.reply()) : StoreReply();
    if (reply.status == StoreReply::Status::stored) context_.counters.replica_refills.add(1);
    if (reply.status == StoreReply::Status::exists) return pass_on(request);  // another request has stored a value
    // The mark has changed: by a mutation of this key, or of one that shares the mark. The copy was not older when it was read.
    const bool is_missing = reply.status == StoreReply::Status::not_found;
    if (is_missing && reply.cas == protocol::mark_bit) return give_up_refill(request);  // a flush is near
    is_missing && request.completes ? fail_to_complete(request) : answer_found(request, reply);
}

// A client gets what the primary has. A completion is put off.
void Replicas::give_up_refill(Request& request) { request.completes ? fail_to_complete(request) : pass_on(request); }

// ---- missing copies (C5, C7) ---------------------------------------------------------------------------

// The first node has the item.
void Replicas::second_looked(Request& request, ReplySlot& slot) {
    const auto* reply = slot.available() ? std::get_if<GetReply>(&slot.reply()) : nullptr;
    if (reply == nullptr || !list_is_same(request)) return fail_to_complete(request);
    is_hit(*reply) ? answer(request, GetReply()) : take_hold(request);
}

void Replicas::fail_to_complete(Request& request) {
    completion_.failed(request.key().bytes);
    end_hold(request);
    fail(request, "the key has no copy");
}

// ---- a mutation ---------------------------------------------------------------------------------------

void Replicas::begin_mutation(Request& request) {
    Links& links = context_.router.links();
    const std::string_view key = request.key().bytes;
    if (links.peers().choose(key) == nullptr) return pass_on(request);  // it fails, and the copy stays
    if (links.peers().copies_may_be_elsewhere(key)) return fail(request, "a former node of the key has no connection");
    if (!links.peers().has_copies()) return pass_on(request);  // one node has all keys
    if (broken::s20_keep_copy) return execute(request);
    take_hold(request);
}

void Replicas::take_hold(Request& request) {
    request.held_ns = boottime_ns();
    ask_copy(request, HoldOp{request.key(), request.completes ? completion_hold_s : hold_s}, step(&Replicas::held));
}

void Replicas::held(Request& request, ReplySlot& slot) {
    if (!slot.available()) {
        if (again_later(request, slot)) return;
        if (request.completes) return fail_to_complete(request);
        context_.counters.replica_refusals.add(1);
        return fail(request, "the node with the copy did not reply");
    }
    request.mark = std::get<StoreReply>(slot.reply()).cas;
    const bool is_old = boottime_ns() - request.held_ns > hold_age_ns;  // C3
    if (is_old || !list_is_same(request)) return begin_again(request);
    request.completes ? look(request) : execute(request);
}

void Replicas::execute(Request& request) {
    ask_as_sent(request, step(&Replicas::executed));
}

void Replicas::executed(Request& request, ReplySlot& slot) {
    if (!slot.available()) {
        if (again_later(request, slot)) return;
        completion_.lost(request.key().bytes);  // C3
        return fail(request, "the node did not reply");
    }
    request.reply = slot.reply();
    keep_reply_value(request, slot.value());
    if (request.mark == 0) return answer(request, request.reply, request.reply_value);
    if (!context_.router.links().peers().keeps_copy(request.key().bytes)) return release(request);
    const CopyPlan plan(request, request.reply, request.reply_value);
    switch (plan.what()) {
        case CopyPlan::What::nothing: return release(request);
        case CopyPlan::What::look: return look(request);
        case CopyPlan::What::store: return copy(request, plan.item());
    }
}

void Replicas::look(Request& request) {
    GetOp op;
    op.key = request.key();
    op.peek = true;
    ask_links(request, op, {.value = true, .plain = false}, step(&Replicas::looked));
}

void Replicas::looked(Request& request, ReplySlot& slot) {
    const auto* reply = slot.available() ? std::get_if<GetReply>(&slot.reply()) : nullptr;
    if (reply == nullptr) return lose_copy(request);
    if (!is_hit(*reply) || CopyPlan::has_tokens(reply->meta)) return release(request);
    if (request.completes) completion_.count_copied(slot.value().size());
    copy(request, {slot.value(), reply->meta.flags, reply->meta.exptime, reply->meta.cas, reply->meta.key_binary});
}

// With a newer list the key may have other nodes: it has no copy then.
void Replicas::copy(Request& request, const SteppedRequest::Item& item) {
    if (has_expired(item.exptime, context_.now)) return release(request);
    if (!list_is_same(request)) return lose_copy(request);
    ask_copy(request, request.store_op(item), step(&Replicas::copied));
}

void Replicas::copied(Request& request, ReplySlot& slot) {
    const auto* reply = slot.available() ? std::get_if<StoreReply>(&slot.reply()) : nullptr;
    request.mark = 0;
    const bool never_fits = reply != nullptr && reply->status == StoreReply::Status::too_large;
    if (never_fits && request.completes) return answer(request, GetReply());
    if (reply == nullptr || reply->status != StoreReply::Status::stored) return lose_copy(request);
    context_.counters.replica_copies.add(1);
    answer(request, request.reply, request.reply_value);
}

// C7. The client need not wait for that.
void Replicas::lose_copy(Request& request) {
    if (request.completes) return fail_to_complete(request);
    context_.counters.replica_copies_lost.add(1);
    completion_.lost(request.key().bytes);
    end_hold(request);
    answer(request, request.reply, request.reply_value);
}

void Replicas::release(Request& request) {
    end_hold(request);
    answer(request, request.reply, request.reply_value);
}

// If a newer list names another node, that does not know the hold.
void Replicas::end_hold(Request& request) {
    const uint64_t hold = std::exchange(request.mark, 0);
    if (protocol::is_hold(hold)) ask_copy(request, HoldOp{request.key(), 0, hold}, step(&Replicas::done));
}

}  // namespace farcached::daemon
