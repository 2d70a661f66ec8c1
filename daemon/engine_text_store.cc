// SPDX-License-Identifier: BSD-3-Clause
// set add replace append prepend cas, delete, incr, decr; and what meta's ms, md, ma share with
// them.
#include "daemon/engine_text.h"
#include "daemon/engine_watch.h"

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

bool extends(StoreOp::Mode mode) {
    return mode == StoreOp::Mode::append || mode == StoreOp::Mode::prepend;
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

void count_store(Context& context, const StoreOp& op, const StoreReply& reply) {
    if (reply.status == StoreReply::Status::too_large) {
        context.counters.store_too_large.add(1);
        return;
    }
    if (reply.status == StoreReply::Status::no_memory) {
        context.counters.store_no_memory.add(1);
        return;
    }
    ClassCounters& counters = class_counters(context, reply.size_class);
    counters.cmd_set.add(1);
    if (op.mode != StoreOp::Mode::cas) return;
    if (reply.status == StoreReply::Status::stored) counters.cas_hits.add(1);
    if (reply.status == StoreReply::Status::exists) counters.cas_badval.add(1);
    if (reply.status == StoreReply::Status::not_found) context.counters.cas_misses.add(1);
}

}  // namespace

protocol::StoreReply execute_store(Call& call, const StoreOp& op, bool forget) {
    Context& context = call.context;
    watch_lookup(context, call.session.fd, op.key);
    if (extends(op.mode)) context.record_accesses();
    StoreReply reply = context.node.store(op, context.now);
    // The whole of an append may outgrow what one item may be: not stored, and the old one stays.
    if (reply.status == StoreReply::Status::too_large && extends(op.mode))
        reply.status = StoreReply::Status::not_stored;
    // As memcached: what found no room must not leave the old value behind.
    if (reply.status == StoreReply::Status::no_memory && forget)
        context.node.forget(op.key, context.now);
    count_store(context, op, reply);
    watch_store(context, call.session.fd, op, reply);
    return reply;
}

void count_bad_chunk(Context& context, std::string_view key, uint32_t value_bytes) {
    class_counters(context, context.node.size_class(key.size(), value_bytes)).cmd_set.add(1);
}

void refuse_too_large(Call& call, const StoreOp& op, bool forget, uint32_t value_bytes) {
    Context& context = call.context;
    StoreReply reply;
    reply.status = StoreReply::Status::too_large;
    count_store(context, op, reply);
    watch_store(context, call.session.fd, op, reply);
    if (forget) {
        watch_lookup(context, call.session.fd, op.key);
        context.node.forget(op.key, context.now);
    }
    call.session.swallow = uint64_t(value_bytes) + 2;
}

Turn run_store(Call& call, const protocol::TextParse& parse) {
    Context& context = call.context;
    const protocol::TextRequest& request = parse.request;
    StoreOp op;
    op.mode = mode_of(request.verb);
    if (context.node.too_large(request.key.size(), request.value_bytes)) {
        call.progress.consumed += parse.line_bytes;
        op.key = key_of(context, request.key);
        refuse_too_large(call, op, op.mode == StoreOp::Mode::set, request.value_bytes);
        if (context.options.detail_enabled) context.admin.detail_set(request.key);
        say_unless(request.noreply, call.out, answer_to(StoreReply::Status::too_large));
        return Turn::done;
    }
    protocol::ValueParse value =
        protocol::parse_value(call.input, parse.line_bytes, request.value_bytes);
    if (value.status == protocol::ValueParse::Status::need_more) {
        call.progress.want = value.total_bytes;
        return Turn::wait;
    }
    call.progress.consumed += value.total_bytes;
    if (context.options.detail_enabled) context.admin.detail_set(request.key);
    if (value.status == protocol::ValueParse::Status::bad_chunk) {
        count_bad_chunk(context, request.key, request.value_bytes);
        say_unless(request.noreply, call.out, "CLIENT_ERROR bad data chunk");
        return Turn::done;
    }
    op.key = key_of(context, request.key);
    op.value = value.value;
    op.flags = request.flags;
    op.exptime = context.seconds(request.exptime);
    if (op.mode == StoreOp::Mode::cas) op.cas_compare = request.number;
    StoreReply reply = execute_store(call, op, /* forget= */ op.mode == StoreOp::Mode::set);
    say_unless(request.noreply, call.out, answer_to(reply.status));
    return Turn::done;
}

void run_delete(Call& call, const protocol::TextRequest& request) {
    Context& context = call.context;
    if (context.options.detail_enabled) context.admin.detail_delete(request.key);
    protocol::DeleteOp op;
    op.key = key_of(context, request.key);
    watch_lookup(context, call.session.fd, op.key);
    protocol::DeleteReply reply = context.node.remove(op, context.now);
    bool deleted = reply.status == protocol::DeleteReply::Status::deleted;
    if (deleted) {
        class_counters(context, reply.size_class).delete_hits.add(1);
        watch_delete(context, call.session.fd, request.key, "delete", reply);
    } else {
        context.counters.delete_misses.add(1);
    }
    say_unless(request.noreply, call.out, deleted ? "DELETED" : "NOT_FOUND");
}

void count_arith(Call& call, bool decrement, const protocol::ArithReply& reply) {
    using Status = protocol::ArithReply::Status;
    Context& context = call.context;
    if (reply.status == Status::ok) {
        ClassCounters& counters = class_counters(context, reply.meta.size_class);
        (decrement ? counters.decr_hits : counters.incr_hits).add(1);
    }
    if (reply.status == Status::not_found)
        (decrement ? context.counters.decr_misses : context.counters.incr_misses).add(1);
}

void run_arith(Call& call, const protocol::TextRequest& request) {
    using Status = protocol::ArithReply::Status;
    Context& context = call.context;
    protocol::ArithOp op;
    op.key = key_of(context, request.key);
    op.decrement = request.verb == TextVerb::decr;
    op.delta = request.number;
    watch_lookup(context, call.session.fd, op.key);
    context.record_accesses();
    protocol::ArithReply reply = context.node.arith(op, context.now);
    count_arith(call, op.decrement, reply);
    if (request.noreply) return;
    switch (reply.status) {
        case Status::ok:
        case Status::vivified:
            call.out.append_number(reply.value);
            call.out.append("\r\n");
            return;
        case Status::non_numeric:
            return say(call.out,
                       "CLIENT_ERROR cannot increment or decrement non-numeric value");
        case Status::no_memory: return say(call.out, "SERVER_ERROR out of memory");
        case Status::not_found:
        case Status::exists: return say(call.out, "NOT_FOUND");
    }
}

}  // namespace farcached::daemon::text
