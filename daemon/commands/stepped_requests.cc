// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/commands/stepped_requests.h"

#include <type_traits>
#include <utility>
#include <variant>

#include "base/check.h"
#include "daemon/engine/links.h"
#include "protocol/layout.h"

namespace farcached::daemon {

using protocol::FlushOp;
using protocol::GetOp;
using protocol::GetReply;
using protocol::StoreOp;
using protocol::StoreReply;

namespace {

constexpr uint64_t bytes_crowded = 1 << 20;  // of values here, above which clients wait

// Operations that clients ask for, except for statistics.
template <class Op>
constexpr bool is_clients = !std::is_same_v<Op, protocol::StatsOp> && !std::is_same_v<Op, protocol::HoldOp> &&
                            !std::is_same_v<Op, protocol::CopiesOp>;

}  // namespace

SteppedRequests::~SteppedRequests() { CHECK(requests_.empty()); }

bool SteppedRequests::is_get(const protocol::RequestOp& op) {
    const auto* get = std::get_if<GetOp>(&op);
    return get != nullptr && !get->touch.has_value() && !get->vivify.has_value() && !get->recache_before.has_value();
}

const protocol::Key& SteppedRequests::key_of(const protocol::RequestOp& op) {
    static constexpr protocol::Key none{{}, 0};
    return std::visit(
        [](const auto& one) -> const protocol::Key& {
            if constexpr (requires { one.key; }) return one.key;
            else return none;
        },
        op);
}

StoreOp SteppedRequests::mark_op(const protocol::Key& key) {
    StoreOp op;
    op.key = key;
    op.mode = StoreOp::Mode::cas;
    op.cas_compare = 0;
    return op;
}

// ---- order (T1) --------------------------------------------------------------------------------------

void SteppedRequests::Queue::push(Request& request) noexcept {
    request.next = nullptr;
    (first == nullptr ? first : last->next) = &request;
    last = &request;
}

SteppedRequests::Request& SteppedRequests::Queue::pop() noexcept {
    Request& popped = *first;
    first = popped.next;
    return popped;
}

SubmitResult SteppedRequests::take(std::unique_ptr<Request> request) {
    Request& taken = *request;
    taken.number = ++numbers_;
    taken.session = replies_.session_of(taken.ticket);
    requests_.emplace(taken.number, std::move(request));
    try {
        taken.is_ahead = goes_ahead(taken);
        taken.is_ahead ? make_due(taken) : enqueue(taken);
    } catch (const std::bad_alloc&) {
        requests_.erase(taken.number);
        throw;
    }
    if (const auto* store = std::get_if<StoreOp>(&taken.asked.op)) bytes_ += store->value.size();
    pump();
    return bytes_ > bytes_crowded ? SubmitResult::crowded : SubmitResult::later;
}

void SteppedRequests::wait_for_key(Request& request) {
    request.is_ahead = false;
    enqueue(request);
    pump();
}

// Does such a request for the key wait here, or a flush?
template <class Is>
bool SteppedRequests::any_waits(std::string_view key, Is&& is) const {
    if (flush_ != nullptr) return true;
    const auto at = keys_.empty() ? keys_.end() : keys_.find(key);
    if (at == keys_.end()) return false;
    for (const Request* one = at->second.first; one != nullptr; one = one->next)
        if (is(*one)) return true;
    return false;
}

bool SteppedRequests::waits(std::string_view key, uint64_t session) const {
    return any_waits(key, [session](const Request& one) { return one.session == session; });
}

bool SteppedRequests::waits_to_change(std::string_view key, uint64_t session) const {
    return any_waits(key, [session](const Request& one) { return one.session == session && !is_get(one.asked.op); });
}

void SteppedRequests::submit_own(const GetOp& op, Ticket ticket) {
    auto request = std::make_unique<Request>(op, Wanted{.value = false, .plain = false}, ticket);
    request->completes = true;
    take(std::move(request));
}

// Throws std::bad_alloc, with no effect.
void SteppedRequests::enqueue(Request& request) {
    if (flush_ != nullptr) return behind_flush_.push(request);
    if (std::holds_alternative<FlushOp>(request.asked.op)) {
        flush_ = &request;
        if (keys_.empty()) make_due(request);
        return;
    }
    const auto [at, is_new] = keys_.try_emplace(std::string(key_of(request.asked.op).bytes));
    request.key = &*at;
    at->second.push(request);
    if (is_new) make_due(request);
}

SteppedRequests::Request* SteppedRequests::find(uint64_t number) noexcept {
    const auto at = requests_.find(number);
    return at == requests_.end() ? nullptr : at->second.get();
}

void SteppedRequests::make_due(Request& request) noexcept {
    request.next_due = nullptr;
    (first_due_ == nullptr ? first_due_ : last_due_->next_due) = &request;
    last_due_ = &request;
}

// Not recursive: the end of a request begins the next one.
void SteppedRequests::pump() noexcept {
    if (pumping_) return;
    pumping_ = true;
    while (first_due_ != nullptr) {
        Request& request = *first_due_;
        first_due_ = request.next_due;
        attempt(request, [&] { begin(request); });
    }
    pumping_ = false;
}

void SteppedRequests::fail(Request& request, std::string_view why) noexcept {
    replies_.unavailable(request.ticket, why);
    finish(request);
}

void SteppedRequests::finish(Request& request) noexcept {
    if (const auto* store = std::get_if<StoreOp>(&request.asked.op)) bytes_ -= store->value.size();
    bytes_ -= request.value.size() + request.reply_value.size();
    const bool had_turn = request.key != nullptr;
    const bool flushed = &request == flush_;
    if (request.key != nullptr) {
        Queue& queue = request.key->second;
        CHECK(queue.first == &request);
        queue.pop();
        if (queue.empty())
            keys_.erase(keys_.find(request.key->first));
        else
            make_due(*queue.first);
    }
    requests_.erase(request.number);
    if (flushed) {
        flush_ = nullptr;
        Queue waiting = std::exchange(behind_flush_, {});
        while (!waiting.empty()) {
            Request& one = waiting.pop();
            attempt(one, [&] { enqueue(one); });
        }
    } else if (had_turn && flush_ != nullptr && keys_.empty()) {
        make_due(*flush_);
    }
    pump();
}

void SteppedRequests::stop() {
    std::unordered_map<uint64_t, std::unique_ptr<Request>> all;
    std::swap(all, requests_);
    keys_.clear();
    behind_flush_ = {};
    first_due_ = flush_ = nullptr;
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

StoreOp SteppedRequests::store_op(const Request& request, const Item& item) {
    StoreOp op;
    op.key = key_of(request.asked.op);
    op.mode = StoreOp::Mode::cas;
    op.cas_compare = request.mark;
    if (item.cas != 0) op.cas_set = item.cas;
    op.value = item.value;
    op.flags = item.flags;
    op.exptime = item.exptime;
    op.key_binary = item.key_binary;
    return op;
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
    reply.meta.item_bytes = uint32_t(layout::item_bytes(key_of(request.asked.op).bytes.size(), request.value.size()));
    reply.meta.exptime = request.exptime;
    reply.meta.last_access = context_.now;
    reply.meta.key_binary = request.key_binary;
    reply.meta.size_class = is_stored ? stored.size_class : uint8_t(0);
    answer(request, reply, request.wanted.value ? std::string_view(request.value) : std::string_view());
}

}  // namespace farcached::daemon
