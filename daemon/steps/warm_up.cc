// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/steps/warm_up.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/broken.h"
#include "base/check.h"
#include "daemon/engine/disk_gets.h"

namespace farcached::daemon {

using protocol::FlushOp;
using protocol::ForgetOp;
using protocol::GetOp;
using protocol::GetReply;
using protocol::SourceReply;
using protocol::StoreOp;
using protocol::StoreReply;

namespace {

// The old value does not matter to it.
bool replaces(const protocol::RequestOp& op) {
    const auto* store = std::get_if<StoreOp>(&op);
    if (std::holds_alternative<FlushOp>(op) || std::holds_alternative<ForgetOp>(op)) return true;
    return store != nullptr && store->mode == StoreOp::Mode::set;
}

}  // namespace

WarmUp::WarmUp(WarmSource& source, Waits& waits, ReplyPool& replies, Context& context)
    : SteppedRequests(replies, context),
      gets_(source, waits, *this, /* rests= */ true),
      changes_(source, waits, *this, /* rests= */ false) {}

void WarmUp::stop() {
    SteppedRequests::stop();
    gets_.stop();
    changes_.stop();
}

// ---- steps -------------------------------------------------------------------------------------------

void WarmUp::begin(Request& request) {
    const protocol::RequestOp& op = request.asked.op;
    if (request.settled) return execute(request);
    if (request.is_get()) return get_first(request);
    replaces(op) ? change_source(request) : take_mark(request);
}

void WarmUp::get_first(Request& request) {
    const auto& op = std::get<GetOp>(request.asked.op);
    if (context_.router.local() == nullptr) return ask_links(request, op, request.wanted, step(&WarmUp::first_answered));
    if (!get_here(request, op, /* misses_answer= */ false)) take_mark(request);
}

void WarmUp::first_answered(Request& request, ReplySlot& slot) {
    if (!slot.available()) return fail(request, "the node did not reply");
    if (std::get<GetReply>(slot.reply()).status == GetReply::Status::miss) return take_mark(request);
    answer(request, slot.reply(), slot.value());
}

void WarmUp::take_mark(Request& request) {
    const StoreOp op = request.mark_op();
    LocalPeer* const peer = context_.router.local();
    if (peer == nullptr) return ask_links(request, op, {}, step(&WarmUp::mark_answered));
    marked(request, peer->execute(op, context_.now));
}

void WarmUp::mark_answered(Request& request, ReplySlot& slot) {
    marked(request, slot.available() ? std::get<StoreReply>(slot.reply()) : StoreReply());
}

void WarmUp::marked(Request& request, const StoreReply& reply) {
    request.mark = reply.cas;
    reply.status == StoreReply::Status::not_found ? fetch(request) : go_on(request);
}

// The source has no item for it.
void WarmUp::go_on(Request& request) { request.is_get() ? execute(request) : change_source(request); }

void WarmUp::fetch(Request& request) {
    context_.counters.warm_fetches.add(1);
    request.awaits = Request::Awaits::fetch;
    request.fetched_at = context_.now;
    gets_.ask(SourceLink::Kind::get, request.key().bytes, request.number);
}

void WarmUp::change_source(Request& request) {
    const bool flushes = std::holds_alternative<FlushOp>(request.asked.op);
    request.awaits = Request::Awaits::change;
    const uint64_t number = request.number;
    changes_.ask(flushes ? SourceLink::Kind::flush : SourceLink::Kind::remove, request.key().bytes, number);
    if (broken::s7_execute_first && find(number) != nullptr) execute(request);
}

void WarmUp::source_answered(uint64_t number, bool ok, const SourceReply& reply) noexcept {
    if (!ok) context_.counters.warm_failures.add(1);
    Request* const request = find(number);
    if (request == nullptr) return;  // stopped
    const auto awaited = std::exchange(request->awaits, Request::Awaits::nothing);
    if (awaited == Request::Awaits::fetch) return attempt(*request, [&] { fetched(*request, ok, reply); });
    if (!ok) return fail(*request, "the source of warm_from did not delete the key in time");
    attempt(*request, [&] { execute(*request); });
}

void WarmUp::fetched(Request& request, bool ok, const SourceReply& reply) {
    for (Request* behind = request.next; behind != nullptr && behind->is_get(); behind = behind->next)
        behind->settled = true;
    if (!ok || reply.status != SourceReply::Status::item) return go_on(request);
    if (reply.ttl_s >= 0) request.exptime = request.fetched_at + NodeSeconds(std::min<int64_t>(reply.ttl_s, INT32_MAX));
    if (has_expired(request.exptime, context_.now)) return go_on(request);
    context_.counters.warm_hits.add(1);
    keep_value(request, reply.value);
    request.flags = reply.flags;
    const StoreOp op = request.fill_op();
    const bool fits = !context_.router.too_large(op.key.bytes.size(), op.value.size());
    if (!protocol::is_mark(request.mark) || !fits) return filled(request, StoreReply());
    LocalPeer* const peer = context_.router.local();
    if (peer == nullptr) return ask_links(request, op, {}, step(&WarmUp::fill_answered));
    filled(request, peer->execute(op, context_.now));
}

void WarmUp::fill_answered(Request& request, ReplySlot& slot) {
    filled(request, slot.available() ? std::get<StoreReply>(slot.reply()) : StoreReply());
}

void WarmUp::filled(Request& request, const StoreReply& reply) {
    if (reply.status == StoreReply::Status::stored) context_.counters.warm_stored.add(1);
    if (!request.is_get()) return change_source(request);
    // Another request has stored a newer value.
    if (reply.status == StoreReply::Status::exists) return execute(request);
    answer_found(request, reply);
}

// The request as the client sent it.
void WarmUp::execute(Request& request) { context_.router.local() != nullptr ? execute_here(request) : pass_on(request); }

// ---- the embedded node -------------------------------------------------------------------------------

// False: a miss, without an answer.
bool WarmUp::get_here(Request& request, const GetOp& op, bool misses_answer) {
    node::Place away{};
    std::string value;
    const auto sink = [&](const protocol::ItemMeta& meta) -> char* {
        if (!request.wanted.value) return nullptr;
        value.resize(meta.value_len);
        return value.data();
    };
    context_.router.record_accesses(context_.now);
    const GetReply reply = context_.router.local()->execute(op, context_.now, sink, /* lent= */ nullptr,
                                                            context_.disk != nullptr ? &away : nullptr);
    if (reply.status == GetReply::Status::miss && !misses_answer) return false;
    if (away != node::Place{} && request.wanted.value) {
        context_.disk->get(request.ticket, op.key.bytes, reply, away);
        finish(request);
        return true;
    }
    answer(request, reply, value);
    return true;
}

void WarmUp::execute_here(Request& request) {
    LocalPeer& peer = *context_.router.local();
    peer.record_accesses(context_.now);
    std::visit(
        [&](const auto& op) {
            using Op = std::decay_t<decltype(op)>;
            if constexpr (std::is_same_v<Op, GetOp>) {
                get_here(request, op, /* misses_answer= */ true);
            } else if constexpr (is_clients<Op>) {
                const auto reply = peer.execute(op, context_.now);
                if constexpr (std::is_same_v<Op, FlushOp>)
                    if (!reply.done) return fail(request, "too many prefixes wait to be swept");
                answer(request, reply);
            } else {
                CHECK(false);  // no client asks for such an operation here
            }
        },
        request.asked.op);
}

}  // namespace farcached::daemon
