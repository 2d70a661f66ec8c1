// SPDX-License-Identifier: BSD-3-Clause
// set add replace append prepend cas, delete, incr, decr; and the parts shared with meta's ms, md, ma.
#include "daemon/commands/text_engine.h"

namespace farcached::daemon::text {

namespace {

using protocol::StoreOp;
using protocol::StoreReply;
using protocol::TextVerb;

StoreOp::Mode mode_of(TextVerb verb) {
    switch (verb) {
        case TextVerb::add: return StoreOp::Mode::add;
        case TextVerb::replace: return StoreOp::Mode::replace;
        case TextVerb::append: return StoreOp::Mode::append;
        case TextVerb::prepend: return StoreOp::Mode::prepend;
        case TextVerb::cas: return StoreOp::Mode::cas;
        default: return StoreOp::Mode::set;
    }
}

std::string_view answer_to(StoreReply::Status status) {
    switch (status) {
        case StoreReply::Status::stored: return "STORED";
        case StoreReply::Status::not_stored: return "NOT_STORED";
        case StoreReply::Status::exists: return "EXISTS";
        case StoreReply::Status::not_found: return "NOT_FOUND";
        case StoreReply::Status::too_large: return "SERVER_ERROR object too large for cache";
        case StoreReply::Status::no_memory: break;
    }
    return "SERVER_ERROR out of memory storing object";
}

void count_status(Context& context, StoreOp::Mode mode, const StoreReply& reply) {
    if (reply.status == StoreReply::Status::too_large) {
        context.counters.store_too_large.add(1);
        return;
    }
    if (reply.status == StoreReply::Status::no_memory) {
        context.counters.store_no_memory.add(1);
        return;
    }
    count_stored(context, mode, reply);
}

struct StoreRecord {
    StoreShown shown;
    bool noreply;
};
void restore(StoreRecord&, const ReplySlot&) {}

class StoreCompletion : Completing<StoreRecord> {
  public:
    using Completing::Completing;
    void done(StoreReply& reply) {
        count_store(to_.context, to_.fd, key_, asked_.shown, reply);
        say_unless(asked_.noreply, to_.out, answer_to(reply.status));
    }
    void unavailable() { answer_unavailable(to_, asked_.noreply); }
};

class DeleteCompletion : Completing<NoReply> {
  public:
    using Completing::Completing;
    [[gnu::always_inline]] void done(const protocol::DeleteReply& reply) {
        const bool deleted = reply.status == protocol::DeleteReply::Status::deleted;
        if (deleted) {
            class_counters(to_.context, reply.size_class).delete_hits.add(1);
            watch_delete(to_.context, key_, "delete", reply);
        } else {
            to_.context.counters.delete_misses.add(1);
        }
        say_unless(asked_.noreply, to_.out, deleted ? "DELETED" : "NOT_FOUND");
    }
    void unavailable() { answer_unavailable(to_, asked_.noreply); }
};

struct ArithRecord {
    bool decrement;
    bool noreply;
};
void restore(ArithRecord&, const ReplySlot&) {}

class ArithCompletion : Completing<ArithRecord> {
  public:
    using Completing::Completing;
    [[gnu::always_inline]] void done(const protocol::ArithReply& reply) {
        using Status = protocol::ArithReply::Status;
        count_arith(to_.context, asked_.decrement, reply);
        if (asked_.noreply) return;
        switch (reply.status) {
            case Status::ok:
            case Status::vivified:
                to_.out.append_number(reply.value);
                to_.out.append("\r\n");
                return;
            case Status::non_numeric:
                return say(to_.out, "CLIENT_ERROR cannot increment or decrement non-numeric value");
            case Status::no_memory: return say(to_.out, "SERVER_ERROR out of memory");
            case Status::not_found:
            case Status::exists: return say(to_.out, "NOT_FOUND");
        }
    }
    void unavailable() { answer_unavailable(to_, asked_.noreply); }
};

}  // namespace

void count_store(Context& context, int fd, std::string_view key, const StoreShown& shown, StoreReply& reply) {
    // An append may outgrow the item size limit: not stored, and the old item stays.
    if (reply.status == StoreReply::Status::too_large && extends(shown.mode))
        reply.status = StoreReply::Status::not_stored;
    count_status(context, shown.mode, reply);
    watch_store(context, fd, key, shown, reply);
}

void count_bad_chunk(Context& context, std::string_view key, uint32_t value_bytes) {
    class_counters(context, context.router.size_class(key.size(), value_bytes)).cmd_set.add(1);
}

void refuse_too_large(Call& call, const StoreOp& op, bool forget, uint32_t value_bytes) {
    StoreReply reply;
    reply.status = StoreReply::Status::too_large;
    count_status(call.context, op.mode, reply);
    watch_store(call.context, call.session.fd, op.key.bytes, shown_of(op), reply);
    if (forget) {
        watch_lookup(call, op.key);
        ask<ForgetCompletion>(call, protocol::ForgetOp{op.key}, NoRecord());
    }
    call.session.swallow = value_bytes + 2;
}

protocol::ValueParse take_value(Call& call, const protocol::TextParse& parse, std::string_view key) {
    using Status = protocol::ValueParse::Status;
    if (call.pending != nullptr)
        return {call.pending->tail == "\r\n" ? Status::good : Status::bad_chunk, 0, call.pending->upload->value()};
    const uint32_t value_bytes = parse.request.value_bytes;
    const protocol::ValueParse value = protocol::parse_value(call.input, parse.line_bytes, value_bytes);
    if (value.status != Status::need_more) return value;
    const std::string_view head = call.input.substr(0, parse.line_bytes), here = call.input.substr(parse.line_bytes);
    constexpr size_t crlf_bytes = 2;
    if (begin_pending(call.context, call.session, call.context.router.key(key), head, here, value_bytes, crlf_bytes))
        call.progress.consumed += call.input.size();
    else
        call.progress.want = value.total_bytes;
    return value;
}

Step run_store(Call& call, const protocol::TextParse& parse) {
    Context& context = call.context;
    const protocol::TextRequest& request = parse.request;
    StoreOp op;
    op.mode = mode_of(request.verb);
    if (context.router.too_large(request.key.size(), request.value_bytes)) {
        call.progress.consumed += parse.line_bytes;
        op.key = context.router.key(request.key);
        refuse_too_large(call, op, op.mode == StoreOp::Mode::set, request.value_bytes);
        if (context.options.detail_enabled) context.admin.detail(request.key, KeyUse::set);
        say_unless(request.noreply, call.out, answer_to(StoreReply::Status::too_large));
        return Step::done;
    }
    const protocol::ValueParse value = take_value(call, parse, request.key);
    if (value.status == protocol::ValueParse::Status::need_more) return Step::wait;
    call.progress.consumed += value.total_bytes;
    if (context.options.detail_enabled) context.admin.detail(request.key, KeyUse::set);
    if (value.status == protocol::ValueParse::Status::bad_chunk) {
        count_bad_chunk(context, request.key, request.value_bytes);
        say_unless(request.noreply, call.out, "CLIENT_ERROR bad data chunk");
        return Step::done;
    }
    op.key = context.router.key(request.key);
    op.value = value.value;
    op.flags = request.flags;
    op.exptime = context.seconds(request.exptime);
    if (op.mode == StoreOp::Mode::cas) op.cas_compare = request.number;
    // As memcached: a set without room must not leave the old value behind.
    op.forget = op.mode == StoreOp::Mode::set;
    watch_lookup(call, op.key);
    if (extends(op.mode)) context.router.record_accesses(context.now);
    ask<StoreCompletion>(call, op, StoreRecord{shown_of(op), request.noreply});
    return Step::done;
}

void run_delete(Call& call, const protocol::TextRequest& request) {
    Context& context = call.context;
    if (context.options.detail_enabled) context.admin.detail(request.key, KeyUse::del);
    protocol::DeleteOp op;
    op.key = context.router.key(request.key);
    watch_lookup(call, op.key);
    ask<DeleteCompletion>(call, op, NoReply{request.noreply});
}

void run_arith(Call& call, const protocol::TextRequest& request) {
    protocol::ArithOp op;
    op.key = call.context.router.key(request.key);
    op.decrement = request.verb == TextVerb::decr;
    op.delta = request.number;
    watch_lookup(call, op.key);
    call.context.router.record_accesses(call.context.now);
    ask<ArithCompletion>(call, op, ArithRecord{op.decrement, request.noreply});
}

}  // namespace farcached::daemon::text
