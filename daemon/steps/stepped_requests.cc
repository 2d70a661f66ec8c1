// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/steps/stepped_requests.h"

#include <type_traits>
#include <utility>
#include <variant>

#include "base/check.h"
#include "daemon/engine/links.h"
#include "protocol/layout.h"

namespace farcached::daemon {

using protocol::GetOp;
using protocol::GetReply;
using protocol::StoreOp;
using protocol::StoreReply;

namespace {

constexpr uint64_t bytes_crowded = 1 << 20;  // of values here, above which clients wait

}  // namespace

SteppedRequests::~SteppedRequests() { CHECK(queues_.empty()); }

// ---- order (T1) --------------------------------------------------------------------------------------

SubmitResult SteppedRequests::take(std::unique_ptr<Request> request) {
    request->session = replies_.session_of(request->ticket);
    Request& taken = queues_.add(std::move(request));
    try {
        taken.is_ahead = goes_ahead(taken);
        taken.is_ahead ? queues_.make_due(taken) : queues_.enqueue(taken);
    } catch (const std::bad_alloc&) {
        (void)queues_.remove(taken);
        throw;
    }
    if (const auto* store = std::get_if<StoreOp>(&taken.asked.op)) bytes_ += store->value.size();
    pump();
    return bytes_ > bytes_crowded ? SubmitResult::crowded : SubmitResult::later;
}

void SteppedRequests::wait_for_key(Request& request) {
    request.is_ahead = false;
    queues_.enqueue(request);
    pump();
}

void SteppedRequests::submit_own(const GetOp& op, Ticket ticket) {
    auto request = std::make_unique<Request>(op, Wanted{.value = false, .plain = false}, ticket);
    request->completes = true;
    take(std::move(request));
}

// Not recursive: the end of a request begins the next one.
void SteppedRequests::pump() noexcept {
    if (pumping_) return;
    pumping_ = true;
    while (Request* const due = queues_.take_due()) attempt(*due, [&] { begin(*due); });
    pumping_ = false;
}

void SteppedRequests::fail(Request& request, std::string_view why) noexcept {
    replies_.unavailable(request.ticket, why);
    finish(request);
}

void SteppedRequests::finish(Request& request) noexcept {
    if (const auto* store = std::get_if<StoreOp>(&request.asked.op)) bytes_ -= store->value.size();
    bytes_ -= request.value.size() + request.reply_value.size();
    SteppedRequest::Queue behind = queues_.remove(request);
    while (!behind.empty()) {
        Request& one = behind.pop();
        attempt(one, [&] { queues_.enqueue(one); });
    }
    pump();
}

void SteppedRequests::stop() {
    const KeyQueues::Requests all = queues_.take_all();
    bytes_ = 0;
    for (const auto& [number, request] : all) replies_.unavailable(request->ticket, "farcached stops");
}

// ---- steps -------------------------------------------------------------------------------------------

struct SteppedRequests::OwnRecord {
    SteppedRequests* requests;
    uint64_t number;
    SteppedRequests::Step then;
};

void SteppedRequests::own_answered(ReplySlot& slot, const ReplyTarget&) {
    const OwnRecord record = slot.record<OwnRecord>();
    Request* request = record.requests->find(record.number);
    if (request == nullptr) return;  // stopped
    record.requests->attempt(*request, [&] { (record.requests->*record.then)(*request, slot); });
}

Ticket SteppedRequests::open(const Request& request, Step then) {
    return replies_.open_own(request.session, OwnRecord{this, request.number, then}, &SteppedRequests::own_answered);
}

template <class Op>
void SteppedRequests::ask_links(Request& request, const Op& op, Wanted wanted, Step then) {
    Links& links = context_.router.links();
    ask(request, then, [&](Ticket ticket) {
        if constexpr (std::is_same_v<Op, GetOp>) links.get(links.peers().choose(op.key.bytes), op, wanted, ticket);
        else links.ask(op, ticket);
    });
}

template void SteppedRequests::ask_links(Request&, const GetOp&, Wanted, Step);
template void SteppedRequests::ask_links(Request&, const StoreOp&, Wanted, Step);
template void SteppedRequests::ask_links(Request&, const protocol::DeleteOp&, Wanted, Step);
template void SteppedRequests::ask_links(Request&, const protocol::ArithOp&, Wanted, Step);
template void SteppedRequests::ask_links(Request&, const protocol::ForgetOp&, Wanted, Step);

void SteppedRequests::ask_as_sent(Request& request, Step then) {
    std::visit(
        [&](const auto& op) {
            using Op = std::decay_t<decltype(op)>;
            if constexpr (is_clients<Op> && requires { op.key; }) ask_links(request, op, request.wanted, then);
        },
        request.asked.op);
}

void SteppedRequests::pass_on(Request& request) {
    Links& links = context_.router.links();
    std::visit(
        [&](const auto& op) {
            using Op = std::decay_t<decltype(op)>;
            if constexpr (std::is_same_v<Op, GetOp>)
                links.get(links.peers().choose_to_read(op.key.bytes, request.wanted.plain), op, request.wanted, request.ticket);
            else if constexpr (is_clients<Op>)
                links.ask(op, request.ticket);
        },
        request.asked.op);
    finish(request);
}

void SteppedRequests::keep_value(Request& request, std::string_view value) {
    request.value = value;
    bytes_ += value.size();
}

void SteppedRequests::keep_found(Request& request, const protocol::ItemMeta& meta, std::string_view value) {
    keep_value(request, value);
    request.flags = meta.flags;
    request.exptime = meta.exptime;
    request.cas = meta.cas;
    request.key_binary = meta.key_binary;
}

void SteppedRequests::keep_reply_value(Request& request, std::string_view value) {
    request.reply_value = value;
    bytes_ += value.size();
}

// ---- answers -----------------------------------------------------------------------------------------

void SteppedRequests::answer(Request& request, const protocol::ReplyOp& reply, std::string_view value) {
    replies_.answer(request.ticket, reply, value);
    finish(request);
}

void SteppedRequests::answer_found(Request& request, const StoreReply& stored) {
    const bool is_stored = stored.status == StoreReply::Status::stored;
    GetReply reply;
    reply.status = GetReply::Status::hit;
    reply.why = protocol::Miss::none;
    // Of a source, an item that is not stored here has no unique that a cas could compare with.
    if (context_.options.cas_enabled) reply.meta.cas = is_stored ? stored.cas : request.cas;
    reply.meta.value_len = uint32_t(request.value.size());
    reply.meta.flags = request.flags;
    reply.meta.item_bytes = uint32_t(layout::item_bytes(request.key().bytes.size(), request.value.size()));
    reply.meta.exptime = request.exptime;
    reply.meta.last_access = context_.now;
    reply.meta.key_binary = request.key_binary;
    reply.meta.size_class = is_stored ? stored.size_class : uint8_t(0);
    answer(request, reply, request.wanted.value ? std::string_view(request.value) : std::string_view());
}

}  // namespace farcached::daemon
