// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/warm_up.h"

#include <cstring>
#include <new>
#include <utility>

#include "base/broken.h"
#include "base/check.h"
#include "daemon/engine/disk_gets.h"
#include "daemon/engine/links.h"
#include "protocol/layout.h"

namespace farcached::daemon {

using protocol::ArithOp;
using protocol::DeleteOp;
using protocol::FlushOp;
using protocol::ForgetOp;
using protocol::GetOp;
using protocol::GetReply;
using protocol::SourceReply;
using protocol::StoreOp;
using protocol::StoreReply;

namespace {

constexpr uint64_t bytes_crowded = 1 << 20;  // of values here, above which clients wait

bool is_get(const protocol::RequestOp& op) {
    const auto* get = std::get_if<GetOp>(&op);
    return get != nullptr && !get->touch.has_value() && !get->vivify.has_value() && !get->recache_before.has_value();
}

// The old value does not matter to it.
bool replaces(const protocol::RequestOp& op) {
    const auto* store = std::get_if<StoreOp>(&op);
    if (std::holds_alternative<FlushOp>(op) || std::holds_alternative<ForgetOp>(op)) return true;
    return store != nullptr && store->mode == StoreOp::Mode::set;
}

const protocol::Key& key_of(const protocol::RequestOp& op) {
    static constexpr protocol::Key none{{}, 0};
    return std::visit(
        [](const auto& one) -> const protocol::Key& {
            if constexpr (requires { one.key; }) return one.key;
            else return none;
        },
        op);
}

// A compare in vain: exists, or not_found with the key's mark. A node of an earlier version replies without a mark.
StoreOp mark_op(const protocol::Key& key) {
    StoreOp op;
    op.key = key;
    op.mode = StoreOp::Mode::cas;
    op.cas_compare = 0;
    return op;
}

}  // namespace

WarmUp::WarmUp(WarmSource& source, Waits& waits, ReplyPool& replies, Context& context)
    : replies_(replies),
      context_(context),
      gets_(source, waits, *this, /* rests= */ true),
      changes_(source, waits, *this, /* rests= */ false) {}

WarmUp::~WarmUp() { CHECK(requests_.empty()); }

bool WarmUp::busy(std::string_view key) const {
    return flush_ != nullptr || (!keys_.empty() && keys_.contains(key));
}

// ---- order (U3) --------------------------------------------------------------------------------------

void WarmUp::Queue::push(Request& request) noexcept {
    request.next = nullptr;
    (first == nullptr ? first : last->next) = &request;
    last = &request;
}

WarmUp::Request& WarmUp::Queue::pop() noexcept {
    Request& popped = *first;
    first = popped.next;
    return popped;
}

SubmitResult WarmUp::take(std::unique_ptr<Request> request) {
    Request& taken = *request;
    taken.number = ++numbers_;
    taken.session = replies_.session_of(taken.ticket);
    requests_.emplace(taken.number, std::move(request));
    try {
        enqueue(taken);
    } catch (const std::bad_alloc&) {
        requests_.erase(taken.number);
        throw;
    }
    if (const auto* store = std::get_if<StoreOp>(&taken.asked.op)) bytes_ += store->value.size();
    pump();
    return bytes_ > bytes_crowded ? SubmitResult::crowded : SubmitResult::later;
}

// Throws std::bad_alloc, with no effect.
void WarmUp::enqueue(Request& request) {
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

WarmUp::Request* WarmUp::find(uint64_t number) noexcept {
    const auto at = requests_.find(number);
    return at == requests_.end() ? nullptr : at->second.get();
}

void WarmUp::make_due(Request& request) noexcept {
    (first_due_ == nullptr ? first_due_ : last_due_->next_due) = &request;
    last_due_ = &request;
}

// Not recursive: the end of a request begins the next one.
void WarmUp::pump() noexcept {
    if (pumping_) return;
    pumping_ = true;
    while (first_due_ != nullptr) {
        Request& request = *first_due_;
        first_due_ = request.next_due;
        attempt(request, [&] { begin(request); });
    }
    pumping_ = false;
}

// Without memory the request fails.
template <class Body>
void WarmUp::attempt(Request& request, Body body) noexcept {
    const uint64_t number = request.number;
    try {
        body();
    } catch (const std::bad_alloc&) {
        if (Request* failed = find(number)) fail(*failed, "no memory for a request while the cache warms up");
    }
}

void WarmUp::fail(Request& request, std::string_view why) noexcept {
    replies_.unavailable(request.ticket, why);
    finish(request);
}

void WarmUp::finish(Request& request) noexcept {
    if (const auto* store = std::get_if<StoreOp>(&request.asked.op)) bytes_ -= store->value.size();
    bytes_ -= request.value.size();
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
    } else if (flush_ != nullptr && keys_.empty()) {
        make_due(*flush_);
    }
    pump();
}

void WarmUp::stop() {
    std::unordered_map<uint64_t, std::unique_ptr<Request>> all;
    std::swap(all, requests_);
    keys_.clear();
    behind_flush_ = {};
    first_due_ = flush_ = nullptr;
    bytes_ = 0;
    for (const auto& [number, request] : all) replies_.unavailable(request->ticket, "farcached stops");
    gets_.stop();
    changes_.stop();
}

// ---- steps -------------------------------------------------------------------------------------------

void WarmUp::begin(Request& request) {
    const protocol::RequestOp& op = request.asked.op;
    if (request.settled) return execute(request);
    if (is_get(op)) return get_first(request);
    replaces(op) ? change_source(request) : take_mark(request);
}

struct WarmUp::OwnRecord {
    WarmUp* warm;
    uint64_t number;
    WarmUp::Step then;
};

void WarmUp::own_answered(ReplySlot& slot, const ReplyTarget&) {
    const OwnRecord record = slot.record<OwnRecord>();
    Request* request = record.warm->find(record.number);
    if (request == nullptr) return;  // stopped
    record.warm->attempt(*request, [&] { (record.warm->*record.then)(*request, slot); });
}

template <class Op>
void WarmUp::ask_links(Request& request, const Op& op, Wanted wanted, Step then) {
    const Ticket ticket = replies_.open_own(request.session, OwnRecord{this, request.number, then}, &WarmUp::own_answered);
    Links& links = context_.router.links();
    try {
        if constexpr (std::is_same_v<Op, GetOp>) links.get(links.choose(op.key.bytes), op, wanted, ticket);
        else links.ask(op, ticket);
    } catch (const std::bad_alloc&) {
        replies_.unavailable(ticket);
    }
}

void WarmUp::get_first(Request& request) {
    const auto& op = std::get<GetOp>(request.asked.op);
    if (context_.router.local() == nullptr) return ask_links(request, op, request.wanted, &WarmUp::first_answered);
    if (!get_here(request, op, /* misses_answer= */ false)) take_mark(request);
}

void WarmUp::first_answered(Request& request, ReplySlot& slot) {
    if (!slot.available()) return fail(request, "the node did not reply");
    if (std::get<GetReply>(slot.reply()).status == GetReply::Status::miss) return take_mark(request);
    answer(request, slot.reply(), slot.value());
}

void WarmUp::take_mark(Request& request) {
    const StoreOp op = mark_op(key_of(request.asked.op));
    LocalPeer* const peer = context_.router.local();
    if (peer == nullptr) return ask_links(request, op, {}, &WarmUp::mark_answered);
    marked(request, peer->node().store(op, context_.now));
}

void WarmUp::mark_answered(Request& request, ReplySlot& slot) {
    marked(request, slot.available() ? std::get<StoreReply>(slot.reply()) : StoreReply());
}

void WarmUp::marked(Request& request, const StoreReply& reply) {
    request.mark = reply.cas;
    reply.status == StoreReply::Status::not_found ? fetch(request) : go_on(request);
}

// The source has no item for it.
void WarmUp::go_on(Request& request) { is_get(request.asked.op) ? execute(request) : change_source(request); }

void WarmUp::fetch(Request& request) {
    context_.counters.warm_fetches.add(1);
    request.awaits = Awaits::fetch;
    request.fetched_at = context_.now;
    gets_.ask(SourceLink::Kind::get, key_of(request.asked.op).bytes, request.number);
}

void WarmUp::change_source(Request& request) {
    const bool flushes = std::holds_alternative<FlushOp>(request.asked.op);
    request.awaits = Awaits::change;
    const uint64_t number = request.number;
    changes_.ask(flushes ? SourceLink::Kind::flush : SourceLink::Kind::remove, key_of(request.asked.op).bytes, number);
    if (broken::s7_execute_first && find(number) != nullptr) execute(request);
}

void WarmUp::source_answered(uint64_t number, bool ok, const SourceReply& reply) noexcept {
    if (!ok) context_.counters.warm_failures.add(1);
    Request* const request = find(number);
    if (request == nullptr) return;  // stopped
    const Awaits awaited = std::exchange(request->awaits, Awaits::nothing);
    if (awaited == Awaits::fetch) return attempt(*request, [&] { fetched(*request, ok, reply); });
    if (!ok) return fail(*request, "the source of warm_from did not delete the key in time");
    attempt(*request, [&] { execute(*request); });
}

void WarmUp::fetched(Request& request, bool ok, const SourceReply& reply) {
    for (Request* behind = request.next; behind != nullptr && is_get(behind->asked.op); behind = behind->next)
        behind->settled = true;
    if (!ok || reply.status != SourceReply::Status::item) return go_on(request);
    if (reply.ttl_s >= 0) request.exptime = request.fetched_at + NodeSeconds(std::min<int64_t>(reply.ttl_s, INT32_MAX));
    if (has_expired(request.exptime, context_.now)) return go_on(request);
    context_.counters.warm_hits.add(1);
    request.value = reply.value;
    request.flags = reply.flags;
    bytes_ += request.value.size();
    StoreOp op;
    op.key = key_of(request.asked.op);
    op.mode = StoreOp::Mode::cas;
    op.cas_compare = request.mark;
    op.value = request.value;
    op.flags = request.flags;
    op.exptime = request.exptime;
    const bool fits = !context_.router.too_large(op.key.bytes.size(), op.value.size());
    if (!protocol::is_mark(request.mark) || !fits) return filled(request, StoreReply());
    LocalPeer* const peer = context_.router.local();
    if (peer == nullptr) return ask_links(request, op, {}, &WarmUp::fill_answered);
    filled(request, peer->node().store(op, context_.now));
}

void WarmUp::fill_answered(Request& request, ReplySlot& slot) {
    filled(request, slot.available() ? std::get<StoreReply>(slot.reply()) : StoreReply());
}

void WarmUp::filled(Request& request, const StoreReply& reply) {
    if (reply.status == StoreReply::Status::stored) context_.counters.warm_stored.add(1);
    if (!is_get(request.asked.op)) return change_source(request);
    // Another request has stored a newer value.
    if (reply.status == StoreReply::Status::exists) return execute(request);
    answer_found(request, reply);
}

// ---- answers -----------------------------------------------------------------------------------------

void WarmUp::answer(Request& request, const protocol::ReplyOp& reply, std::string_view value) {
    replies_.answer(request.ticket, reply, value);
    finish(request);
}

void WarmUp::answer_found(Request& request, const StoreReply& stored) {
    const bool is_stored = stored.status == StoreReply::Status::stored;
    GetReply reply;
    reply.status = GetReply::Status::hit;
    reply.why = protocol::Miss::none;
    // Without an item here there is no unique that a cas could compare with.
    if (is_stored && context_.options.cas_enabled) reply.meta.cas = stored.cas;
    reply.meta.value_len = uint32_t(request.value.size());
    reply.meta.flags = request.flags;
    reply.meta.item_bytes = uint32_t(layout::item_bytes(key_of(request.asked.op).bytes.size(), request.value.size()));
    reply.meta.exptime = request.exptime;
    reply.meta.last_access = context_.now;
    reply.meta.size_class = is_stored ? stored.size_class : uint8_t(0);
    answer(request, reply, request.wanted.value ? std::string_view(request.value) : std::string_view());
}

// The request as the client sent it.
void WarmUp::execute(Request& request) {
    if (context_.router.local() != nullptr) return execute_here(request);
    Links& links = context_.router.links();
    std::visit(
        [&](const auto& op) {
            using Op = std::decay_t<decltype(op)>;
            if constexpr (std::is_same_v<Op, GetOp>) links.get(links.choose(op.key.bytes), op, request.wanted, request.ticket);
            else if constexpr (!std::is_same_v<Op, protocol::StatsOp>) links.ask(op, request.ticket);
        },
        request.asked.op);
    finish(request);
}

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
    const GetReply reply =
        context_.router.local()->node().get(op, context_.now, sink, nullptr, context_.disk != nullptr ? &away : nullptr);
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
    context_.router.record_accesses(context_.now);
    node::Node& node = context_.router.local()->node();
    const NodeSeconds now = context_.now;
    const protocol::RequestOp& asked = request.asked.op;
    if (const auto* get = std::get_if<GetOp>(&asked)) return void(get_here(request, *get, /* misses_answer= */ true));
    if (const auto* store = std::get_if<StoreOp>(&asked)) return answer(request, node.store(*store, now, nullptr));
    if (const auto* remove = std::get_if<DeleteOp>(&asked)) return answer(request, node.remove(*remove, now));
    if (const auto* arith = std::get_if<ArithOp>(&asked)) return answer(request, node.arith(*arith, now));
    if (const auto* forget = std::get_if<ForgetOp>(&asked)) node.forget(forget->key, now);
    bool done = true;
    if (const auto* flush = std::get_if<FlushOp>(&asked)) {
        if (!flush->prefix.empty())
            done = node.delete_prefix(flush->prefix, now);
        else if (flush->at.has_value())
            context_.admin.flush_at(*flush->at);
        else
            node.flush_all(now);
    }
    done ? answer(request, protocol::DoneReply()) : fail(request, "too many prefixes wait to be swept");
}

}  // namespace farcached::daemon
