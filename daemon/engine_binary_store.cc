// SPDX-License-Identifier: BSD-3-Clause
// SET ADD REPLACE APPEND PREPEND, DELETE, INCR DECR, and their quiet twins.
#include "daemon/engine_binary.h"
#include "daemon/engine_watch.h"

namespace farcached::daemon::binary {

namespace {

using protocol::ArithReply;
using protocol::BinaryParse;
using protocol::BinaryRequest;
using protocol::BinaryStatus;
using protocol::BinaryVerb;
using protocol::DeleteReply;
using protocol::StoreOp;
using protocol::StoreReply;

StoreOp::Mode mode_of(BinaryVerb verb) {
    switch (verb) {
        case BinaryVerb::add: return StoreOp::Mode::add;
        case BinaryVerb::replace: return StoreOp::Mode::replace;
        case BinaryVerb::append: return StoreOp::Mode::append;
        case BinaryVerb::prepend: return StoreOp::Mode::prepend;
        default: return StoreOp::Mode::set;
    }
}

bool extends(BinaryVerb verb) { return verb == BinaryVerb::append || verb == BinaryVerb::prepend; }

// With a CAS, set, add and replace are all the same cas; append and prepend stay and compare. Without CAS in
// the cache there is nothing to compare with, and memcached stores.
void apply_cas(StoreOp& op, const BinaryRequest& request, bool cas_enabled) {
    if (request.cas == 0 || !cas_enabled) return;
    op.cas_compare = request.cas;
    if (!extends(request.verb)) op.mode = StoreOp::Mode::cas;
}

// What found no room is counted by the text protocol only, in memcached.
void count_store(Context& context, const StoreOp& op, const StoreReply& reply) {
    if (reply.status == StoreReply::Status::too_large) return;
    if (reply.status == StoreReply::Status::no_memory) return;
    ClassCounters& counters = class_counters(context, reply.size_class);
    counters.cmd_set.add(1);
    if (op.mode != StoreOp::Mode::cas) return;
    if (reply.status == StoreReply::Status::stored) counters.cas_hits.add(1);
    if (reply.status == StoreReply::Status::exists) counters.cas_badval.add(1);
    if (reply.status == StoreReply::Status::not_found) context.counters.cas_misses.add(1);
}

void answer_store(Call& call, const BinaryRequest& request, const StoreReply& reply) {
    switch (reply.status) {
        case StoreReply::Status::stored: return answer_ok(call, request, reply.cas);
        case StoreReply::Status::exists: return answer_error(call, request, BinaryStatus::exists);
        case StoreReply::Status::not_found:
            return answer_error(call, request, BinaryStatus::not_found);
        case StoreReply::Status::too_large:
            return answer_error(call, request, BinaryStatus::too_large);
        case StoreReply::Status::no_memory:
            return answer_error(call, request, BinaryStatus::no_memory,
                                "Out of memory allocating item");
        case StoreReply::Status::not_stored: break;
    }
    switch (request.verb) {
        case BinaryVerb::add: return answer_error(call, request, BinaryStatus::exists);
        case BinaryVerb::replace: return answer_error(call, request, BinaryStatus::not_found);
        default: return answer_error(call, request, BinaryStatus::not_stored);
    }
}

StoreReply execute_store(Call& call, const BinaryRequest& request, const StoreOp& op) {
    Context& context = call.context;
    watch_lookup(context, call.session.fd, op.key);
    if (extends(request.verb)) context.record_accesses();
    StoreReply reply = context.node.store(op, context.now);
    // The whole of an append may outgrow what one item may be: not stored, and the old one stays.
    if (reply.status == StoreReply::Status::too_large && extends(request.verb))
        reply.status = StoreReply::Status::not_stored;
    // As memcached: a set that found no room must not leave the old value behind.
    if (reply.status == StoreReply::Status::no_memory && request.verb == BinaryVerb::set)
        context.node.forget(op.key, context.now);
    return reply;
}

void count_arith(Call& call, const protocol::ArithOp& op, const ArithReply& reply) {
    Context& context = call.context;
    if (reply.status == ArithReply::Status::ok) {
        ClassCounters& counters = class_counters(context, reply.meta.size_class);
        (op.decrement ? counters.decr_hits : counters.incr_hits).add(1);
    } else if (reply.status == ArithReply::Status::not_found) {
        (op.decrement ? context.counters.decr_misses : context.counters.incr_misses).add(1);
    } else if (reply.status == ArithReply::Status::vivified) {
        watch_created(context, call.session.fd, op, reply, *op.vivify);
    }
}

}  // namespace

bool run_store(Call& call, const BinaryParse& parse) {
    Context& context = call.context;
    const BinaryRequest& request = parse.request;
    StoreOp op;
    op.mode = mode_of(request.verb);
    apply_cas(op, request, context.options.cas_enabled);
    StoreReply reply;
    // Decided before the value comes, and without a byte of room for it.
    const bool refused = context.node.too_large(request.key.size(), parse.value_bytes);
    const uint64_t total_bytes = parse.head_bytes + uint64_t(parse.value_bytes);
    if (!refused && call.input.size() < total_bytes) {
        call.progress.want = size_t(total_bytes);
        return false;
    }
    if (context.options.detail_enabled) context.admin.detail_set(request.key);
    op.key = key_of(context, request.key);
    if (refused) {
        reply.status = StoreReply::Status::too_large;
    } else {
        op.value = call.input.substr(parse.head_bytes, parse.value_bytes);
        op.flags = request.flags;
        op.exptime = context.seconds(request.exptime);
        reply = execute_store(call, request, op);
    }
    count_store(context, op, reply);
    watch_store(context, call.session.fd, op, reply);
    if (refused && request.verb == BinaryVerb::set) {
        watch_lookup(context, call.session.fd, op.key);
        context.node.forget(op.key, context.now);
    }
    answer_store(call, request, reply);
    call.consume(parse.head_bytes);
    call.swallow(parse.value_bytes);
    return true;
}

void run_delete(Call& call, const BinaryRequest& request) {
    Context& context = call.context;
    if (context.options.detail_enabled) context.admin.detail_delete(request.key);
    protocol::DeleteOp op;
    op.key = key_of(context, request.key);
    if (request.cas != 0) op.cas_compare = request.cas;
    watch_lookup(context, call.session.fd, op.key);
    DeleteReply reply = context.node.remove(op, context.now);
    switch (reply.status) {
        case DeleteReply::Status::deleted:
            class_counters(context, reply.size_class).delete_hits.add(1);
            watch_delete(context, call.session.fd, request.key, "delete", reply);
            return answer_ok(call, request, 0);
        case DeleteReply::Status::exists: return answer_error(call, request, BinaryStatus::exists);
        case DeleteReply::Status::not_found: break;
    }
    context.counters.delete_misses.add(1);
    answer_error(call, request, BinaryStatus::not_found);
}

void run_arith(Call& call, const BinaryRequest& request) {
    Context& context = call.context;
    protocol::ArithOp op;
    op.key = key_of(context, request.key);
    op.decrement = request.verb == BinaryVerb::decr;
    op.delta = request.delta;
    if (request.exptime != protocol::binary_no_create) {
        op.vivify = context.seconds(request.exptime);
        op.initial = request.initial;
    }
    if (request.cas != 0) op.cas_compare = request.cas;
    watch_lookup(context, call.session.fd, op.key);
    context.record_accesses();
    ArithReply reply = context.node.arith(op, context.now);
    count_arith(call, op, reply);
    switch (reply.status) {
        case ArithReply::Status::ok:
        case ArithReply::Status::vivified: {
            char number[sizeof reply.value];
            protocol::write_big_endian(number, reply.value);
            return answer_ok(call, request, reply.meta.cas,
                             std::string_view(number, sizeof number));
        }
        case ArithReply::Status::not_found:
            return answer_error(call, request, BinaryStatus::not_found);
        case ArithReply::Status::non_numeric:
            return answer_error(call, request, BinaryStatus::non_numeric);
        case ArithReply::Status::exists: return answer_error(call, request, BinaryStatus::exists);
        case ArithReply::Status::no_memory: break;
    }
    answer_error(call, request, BinaryStatus::no_memory, "Out of memory incrementing value");
}

}  // namespace farcached::daemon::binary
