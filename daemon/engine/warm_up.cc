// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/warm_up.h"

#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"
#include "daemon/engine/disk_gets.h"
#include "daemon/engine/links.h"
#include "process/log.h"
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
    return std::holds_alternative<ForgetOp>(op) || (store != nullptr && store->mode == StoreOp::Mode::set);
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

void WarmSource::end() noexcept {
    if (ended_.exchange(true, std::memory_order_acq_rel)) return;
    process::say_made(process::Level::warning, [&] {
        return "warm_from: " + options_.name +
               " did not confirm the delete of a changed key, so warming has ended; restart to begin again";
    });
}

WarmUp::WarmUp(WarmSource& source, Waits& waits, ReplyPool& replies, Context& context)
    : source_(source), replies_(replies), context_(context), link_(source.options(), waits) {}

WarmUp::~WarmUp() { CHECK(requests_.empty()); }

bool WarmUp::busy(std::string_view key) const {
    return flush_ != 0 || (!keys_.empty() && keys_.contains(std::string(key)));
}

// ---- order (U3) --------------------------------------------------------------------------------------

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

void WarmUp::enqueue(Request& request) {
    if (flush_ != 0) return behind_flush_.push_back(&request);
    if (std::holds_alternative<FlushOp>(request.asked.op)) {
        if (keys_.empty()) due_.push_back(request.number);
        flush_ = request.number;
        return;
    }
    const auto [at, is_new] = keys_.try_emplace(std::string(key_of(request.asked.op).bytes));
    try {
        if (is_new) due_.push_back(request.number);
        at->second.push_back(&request);
    } catch (const std::bad_alloc&) {
        if (is_new) keys_.erase(at);
        throw;
    }
    request.key = &*at;
}

WarmUp::Request* WarmUp::find(uint64_t number) {
    const auto at = requests_.find(number);
    return at == requests_.end() ? nullptr : at->second.get();
}

// Not recursive: the end of a request begins the next one.
void WarmUp::pump() {
    if (pumping_) return;
    pumping_ = true;
    while (!due_.empty()) {
        Request* request = find(due_.front());
        due_.pop_front();
        if (request != nullptr) attempt(*request, [&] { begin(*request); });
    }
    pumping_ = false;
}

// Without memory the request fails.
template <class Body>
void WarmUp::attempt(Request& request, Body body) {
    const uint64_t number = request.number;
    try {
        body();
    } catch (const std::bad_alloc&) {
        Request* failed = find(number);
        if (failed == nullptr) return;
        replies_.unavailable(failed->ticket, "no memory for a request while the cache warms up");
        finish(*failed);
    }
}

void WarmUp::finish(Request& request) {
    const protocol::RequestOp& op = request.asked.op;
    if (const auto* store = std::get_if<StoreOp>(&op)) bytes_ -= store->value.size();
    bytes_ -= request.value.size();
    const bool flushed = request.number == flush_;
    if (!flushed) {
        Queue& queue = request.key->second;
        CHECK(queue.front() == &request);
        queue.pop_front();
        if (queue.empty())
            keys_.erase(keys_.find(request.key->first));
        else
            due_.push_back(queue.front()->number);
    }
    requests_.erase(request.number);
    if (flushed) {
        flush_ = 0;
        Queue waiting;
        std::swap(waiting, behind_flush_);
        for (Request* one : waiting) enqueue(*one);
    } else if (flush_ != 0 && keys_.empty()) {
        due_.push_back(flush_);
    }
    pump();
}

void WarmUp::stop() {
    std::unordered_map<uint64_t, std::unique_ptr<Request>> all;
    std::swap(all, requests_);
    keys_.clear();
    behind_flush_.clear();
    due_.clear();
    flush_ = bytes_ = 0;
    for (const auto& [number, request] : all) replies_.unavailable(request->ticket, "farcached stops");
    link_.stop();
}

// ---- steps -------------------------------------------------------------------------------------------

void WarmUp::begin(Request& request) {
    const protocol::RequestOp& op = request.asked.op;
    if (source_.ended() || request.settled) return execute(request);
    if (std::holds_alternative<FlushOp>(op)) return flush_source(request);
    if (is_get(op)) return get_first(request);
    replaces(op) ? forget_at_source(request) : take_mark(request);
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
    if (!slot.available()) {
        replies_.unavailable(request.ticket, "the node did not reply");
        return finish(request);
    }
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
    if (reply.status == StoreReply::Status::not_found && !source_.ended()) return fetch(request);
    go_on(request);
}

// The source has no item for it.
void WarmUp::go_on(Request& request) { is_get(request.asked.op) ? execute(request) : forget_at_source(request); }

void WarmUp::fetch(Request& request) {
    context_.counters.warm_fetches.add(1);
    const uint64_t number = request.number;
    link_.get(key_of(request.asked.op).bytes, [this, number](bool ok, const SourceReply& reply) {
        if (Request* one = find(number)) attempt(*one, [&] { fetched(*one, ok, reply); });
    });
}

void WarmUp::fetched(Request& request, bool ok, const SourceReply& reply) {
    if (!ok) context_.counters.warm_failures.add(1);
    for (Request* behind : request.key->second) {
        if (behind != &request && !is_get(behind->asked.op)) break;
        behind->settled = true;
    }
    if (!ok || reply.status != SourceReply::Status::item) return go_on(request);
    context_.counters.warm_hits.add(1);
    request.value = reply.value;
    request.found = reply;
    bytes_ += request.value.size();
    StoreOp op;
    op.key = key_of(request.asked.op);
    op.mode = StoreOp::Mode::add;
    op.cas_compare = request.mark;  // 0: of a node of an earlier version, which would store in any case
    op.value = request.value;
    op.flags = reply.flags;
    op.exptime = reply.ttl_s < 0 ? never_expires : context_.now + NodeSeconds(std::min<int64_t>(reply.ttl_s, INT32_MAX));
    if (request.mark == 0 || context_.router.too_large(op.key.bytes.size(), op.value.size())) return filled(request, StoreReply());
    LocalPeer* const peer = context_.router.local();
    if (peer == nullptr) return ask_links(request, op, {}, &WarmUp::fill_answered);
    filled(request, peer->node().store(op, context_.now));
}

void WarmUp::fill_answered(Request& request, ReplySlot& slot) {
    StoreReply none;
    none.status = StoreReply::Status::no_memory;
    filled(request, slot.available() ? std::get<StoreReply>(slot.reply()) : none);
}

void WarmUp::filled(Request& request, const StoreReply& reply) {
    if (reply.status == StoreReply::Status::stored) context_.counters.warm_stored.add(1);
    if (!is_get(request.asked.op)) return forget_at_source(request);
    // Another request has stored a newer value.
    if (reply.status == StoreReply::Status::not_stored && request.mark != 0) return execute(request);
    answer_found(request, reply);
}

void WarmUp::forget_at_source(Request& request) {
    if (source_.ended()) return execute(request);
    const uint64_t number = request.number;
    link_.remove(key_of(request.asked.op).bytes, [this, number](bool ok, const SourceReply&) {
        if (!ok) {
            context_.counters.warm_failures.add(1);
            source_.end();
        }
        if (Request* one = find(number)) attempt(*one, [&] { execute(*one); });
    });
}

void WarmUp::flush_source(Request& request) {
    const uint64_t number = request.number;
    link_.flush([this, number](bool ok, const SourceReply&) {
        if (!ok) {
            context_.counters.warm_failures.add(1);
            source_.end();
        }
        if (Request* one = find(number)) attempt(*one, [&] { execute(*one); });
    });
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
    reply.meta.cas = is_stored ? stored.cas : request.found.cas;
    if (!context_.options.cas_enabled) reply.meta.cas = 0;
    reply.meta.value_len = uint32_t(request.value.size());
    reply.meta.flags = request.found.flags;
    reply.meta.item_bytes = uint32_t(layout::item_bytes(key_of(request.asked.op).bytes.size(), request.value.size()));
    reply.meta.exptime = request.found.ttl_s < 0 ? never_expires : context_.now + NodeSeconds(request.found.ttl_s);
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
    if (done) return answer(request, protocol::DoneReply());
    replies_.unavailable(request.ticket, "too many prefixes wait to be swept");
    finish(request);
}

}  // namespace farcached::daemon
