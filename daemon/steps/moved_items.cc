// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/steps/moved_items.h"

#include <variant>

#include "base/broken.h"
#include "base/node_clock.h"
#include "daemon/engine/links.h"
#include "protocol/op.h"

namespace farcached::daemon {

using protocol::GetOp;
using protocol::GetReply;
using protocol::StoreOp;
using protocol::StoreReply;

namespace {

// Does its result depend on the item that is there before?
bool depends(const protocol::RequestOp& op) {
    const auto* store = std::get_if<StoreOp>(&op);
    if (store != nullptr) return store->mode != StoreOp::Mode::set || store->cas_compare.has_value();
    return !std::holds_alternative<protocol::ForgetOp>(op) && !std::holds_alternative<protocol::FlushOp>(op);
}

}  // namespace

bool MovedItems::takes_gets(std::string_view key) const { return context_.router.links().peers().former_home(key).has_value(); }

bool MovedItems::takes_changes(std::string_view key) const {
    return !queues().empty() || (!key.empty() && takes_gets(key));  // a flush has no key
}

bool MovedItems::goes_ahead(const Request& request) const {
    return request.is_get() && !queues().waits(request.key().bytes, request.session);
}

void MovedItems::begin(Request& request) {
    const protocol::RequestOp& op = request.asked.op;
    if (!depends(op) || !takes_gets(request.key().bytes)) return execute(request);
    if (!request.is_get()) return take_mark(request);
    ask_links(request, std::get<GetOp>(op), request.wanted, step(&MovedItems::first_answered));
}

void MovedItems::first_answered(Request& request, ReplySlot& slot) {
    if (!slot.available()) return slot.failure() == list_is_old ? pass_on(request) : fail(request, slot.failure());
    if (std::get<GetReply>(slot.reply()).status == GetReply::Status::hit) return answer(request, slot.reply(), slot.value());
    if (!request.is_ahead) return take_mark(request);
    // Changes that its session has asked for since come later.
    queues().waits_to_change(request.key().bytes, request.session) ? answer(request, GetReply()) : wait_for_key(request);
}

void MovedItems::take_mark(Request& request) {
    const auto home = context_.router.links().peers().former_home(request.key().bytes);
    if (!home.has_value()) return bring_nothing(request);
    StoreOp op = request.mark_op();
    if (!broken::s7_ignore_touched) op.moved_since = home->since;
    ask_links(request, op, {}, step(&MovedItems::mark_answered));
}

void MovedItems::mark_answered(Request& request, ReplySlot& slot) {
    const StoreReply reply = slot.available() ? std::get<StoreReply>(slot.reply()) : StoreReply();
    const bool is_missing = reply.status == StoreReply::Status::not_found;
    if (is_missing && protocol::is_mark(reply.cas) && reply.cas != protocol::mark_bit) {
        request.mark = reply.cas;
        return fetch(request);
    }
    reply.status == StoreReply::Status::exists ? execute(request) : bring_nothing(request);
}

void MovedItems::bring_nothing(Request& request) {
    request.is_get() ? answer(request, GetReply()) : execute(request);
}

// As the client sent it. A mutation stays here until it has its reply, so that an earlier get that goes ahead learns of it.
void MovedItems::execute(Request& request) {
    const bool is_flush = std::holds_alternative<protocol::FlushOp>(request.asked.op);
    if (request.is_get() || is_flush) return pass_on(request);
    ask_as_sent(request, step(&MovedItems::executed));
}

void MovedItems::executed(Request& request, ReplySlot& slot) {
    slot.available() ? answer(request, slot.reply(), slot.value()) : fail(request, slot.failure());
}

void MovedItems::fetch(Request& request) {
    Links& links = context_.router.links();
    const auto home = links.peers().former_home(request.key().bytes);
    if (!home.has_value()) return bring_nothing(request);
    context_.counters.moved_fetches.add(1);
    GetOp op;
    op.key = request.key();
    op.moved_since = home->since;
    ask(request, step(&MovedItems::fetched), [&](Ticket ticket) { links.ask(op, *home, ticket); });
}

void MovedItems::fetched(Request& request, ReplySlot& slot) {
    const auto* reply = slot.available() ? std::get_if<GetReply>(&slot.reply()) : nullptr;
    const bool is_hit = reply != nullptr && reply->status == GetReply::Status::hit;
    if (!is_hit || has_expired(reply->meta.exptime, context_.now)) return bring_nothing(request);
    context_.counters.moved_hits.add(1);
    keep_found(request, reply->meta, slot.value());
    ask_links(request, request.fill_op(), {}, step(&MovedItems::filled));
}

// If the item was not stored, a mutation came in between: it was the key's when the node gave the mark.
void MovedItems::filled(Request& request, ReplySlot& slot) {
    const StoreReply reply = slot.available() ? std::get<StoreReply>(slot.reply()) : StoreReply();
    if (!request.is_get() || reply.status == StoreReply::Status::exists) return execute(request);
    answer_found(request, reply);
}

}  // namespace farcached::daemon
