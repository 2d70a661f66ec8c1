// SPDX-License-Identifier: BSD-3-Clause
// SET ADD REPLACE APPEND PREPEND, DELETE, INCR DECR, and their quiet twins.
#include "daemon/commands/binary_engine.h"

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

bool extends(BinaryVerb verb) { return verb == BinaryVerb::append || verb == BinaryVerb::prepend; }

// Without CAS in the cache there is no comparison: memcached stores.
bool compares(const Context& context, const BinaryRequest& request) {
    return request.cas != 0 && context.options.cas_enabled;
}

// With a CAS, set, add and replace are all cas; append and prepend keep their mode and compare.
StoreOp::Mode mode_of(const Context& context, const BinaryRequest& request) {
    if (compares(context, request) && !extends(request.verb)) return StoreOp::Mode::cas;
    switch (request.verb) {
        case BinaryVerb::add: return StoreOp::Mode::add;
        case BinaryVerb::replace: return StoreOp::Mode::replace;
        case BinaryVerb::append: return StoreOp::Mode::append;
        case BinaryVerb::prepend: return StoreOp::Mode::prepend;
        default: return StoreOp::Mode::set;
    }
}

void answer_store(OutBuffer& out, const BinaryRequest& request, const StoreReply& reply) {
    switch (reply.status) {
        case StoreReply::Status::stored: return answer_ok(out, request, reply.cas);
        case StoreReply::Status::exists: return answer_error(out, request, BinaryStatus::exists);
        case StoreReply::Status::not_found:
            return answer_error(out, request, BinaryStatus::not_found);
        case StoreReply::Status::too_large:
            return answer_error(out, request, BinaryStatus::too_large);
        case StoreReply::Status::no_memory:
            return answer_error(out, request, BinaryStatus::no_memory,
                                "Out of memory allocating item");
        case StoreReply::Status::not_stored: break;
    }
    switch (request.verb) {
        case BinaryVerb::add: return answer_error(out, request, BinaryStatus::exists);
        case BinaryVerb::replace: return answer_error(out, request, BinaryStatus::not_found);
        default: return answer_error(out, request, BinaryStatus::not_stored);
    }
}

void show_store(Context& context, int fd, std::string_view key, const BinaryParse& parse,
                const StoreReply& reply) {
    if (!context.watch.wants(watch_mutations)) [[likely]] return;
    const BinaryRequest& request = parse.request;
    watching::store(context, fd, key,
                    {mode_of(context, request), parse.value_bytes, context.seconds(request.exptime)}, reply);
}

class StoreCompletion : Completing<BinaryParse> {
  public:
    using Completing::Completing;
    void done(StoreReply& reply) {
        const BinaryRequest& request = asked_.request;
        // An append may outgrow the item size limit: not stored, and the old item stays.
        if (reply.status == StoreReply::Status::too_large && extends(request.verb))
            reply.status = StoreReply::Status::not_stored;
        const bool refused = reply.status == StoreReply::Status::too_large || reply.status == StoreReply::Status::no_memory;
        if (!refused) count_stored(to_.context, mode_of(to_.context, request), reply);
        show_store(to_.context, to_.fd, key_, asked_, reply);
        answer_store(to_.out, request, reply);
    }
    void unavailable() { answer_unavailable(to_, asked_.request); }
};

class DeleteCompletion : Completing<BinaryRequest> {
  public:
    using Completing::Completing;
    void done(const DeleteReply& reply) {
        Context& context = to_.context;
        switch (reply.status) {
            case DeleteReply::Status::deleted:
                class_counters(context, reply.size_class).delete_hits.add(1);
                watch_delete(context, key_, "delete", reply);
                return answer_ok(to_.out, asked_, 0);
            case DeleteReply::Status::exists:
                return answer_error(to_.out, asked_, BinaryStatus::exists);
            case DeleteReply::Status::not_found: break;
        }
        context.counters.delete_misses.add(1);
        answer_error(to_.out, asked_, BinaryStatus::not_found);
    }
    void unavailable() { answer_unavailable(to_, asked_); }
};

class ArithCompletion : Completing<BinaryRequest> {
  public:
    using Completing::Completing;
    void done(const ArithReply& reply);
    void unavailable() { answer_unavailable(to_, asked_); }
};

void ArithCompletion::done(const ArithReply& reply) {
    const BinaryRequest& request = asked_;
    count_arith(to_.context, request.verb == BinaryVerb::decr, reply);
    switch (reply.status) {
        case ArithReply::Status::vivified:
            watch_created(to_.context, to_.fd, key_, reply, to_.context.seconds(request.exptime));
            [[fallthrough]];
        case ArithReply::Status::ok: {
            char number[sizeof reply.value];
            protocol::write_big_endian(number, reply.value);
            return answer_ok(to_.out, request, reply.meta.cas, std::string_view(number, sizeof number));
        }
        case ArithReply::Status::not_found:
            return answer_error(to_.out, request, BinaryStatus::not_found);
        case ArithReply::Status::non_numeric:
            return answer_error(to_.out, request, BinaryStatus::non_numeric);
        case ArithReply::Status::exists: return answer_error(to_.out, request, BinaryStatus::exists);
        case ArithReply::Status::no_memory: break;
    }
    answer_error(to_.out, request, BinaryStatus::no_memory, "Out of memory incrementing value");
}

// Refuses a store before its value arrives, without memory for it.
void refuse_too_large(Call& call, const BinaryParse& parse) {
    const BinaryRequest& request = parse.request;
    StoreReply reply;
    reply.status = StoreReply::Status::too_large;
    show_store(call.context, call.session.fd, request.key, parse, reply);
    if (request.verb == BinaryVerb::set) {
        const protocol::ForgetOp op{call.context.router.key(request.key)};
        watch_lookup(call, op.key);
        ask<ForgetCompletion>(call, op, NoRecord());
    }
    answer_store(call.out, request, reply);
}

// An incomplete value: the session or the node waits for the rest.
void await_value(Call& call, const BinaryParse& parse) {
    const std::string_view head = call.input.substr(0, parse.head_bytes), here = call.input.substr(parse.head_bytes);
    const protocol::Key key = call.context.router.key(parse.request.key);
    if (begin_pending(call.context, call.session, key, head, here, parse.value_bytes, /* tail_bytes= */ 0))
        call.consume(call.input.size());
    else
        call.progress.want = parse.head_bytes + size_t(parse.value_bytes);
}

}  // namespace

bool run_store(Call& call, const BinaryParse& parse) {
    Context& context = call.context;
    const BinaryRequest& request = parse.request;
    const bool refused = context.router.too_large(request.key.size(), parse.value_bytes);
    const uint64_t total_bytes = parse.head_bytes + uint64_t(parse.value_bytes);
    if (!refused && call.pending == nullptr && call.input.size() < total_bytes) {
        await_value(call, parse);
        return false;
    }
    if (context.options.detail_enabled) context.admin.detail(request.key, KeyUse::set);
    if (refused) {
        refuse_too_large(call, parse);
    } else {
        StoreOp op;
        op.mode = mode_of(context, request);
        if (compares(context, request)) op.cas_compare = request.cas;
        op.key = context.router.key(request.key);
        op.value = call.pending != nullptr ? call.pending->upload->value()
                                           : call.input.substr(parse.head_bytes, parse.value_bytes);
        op.flags = request.flags;
        op.exptime = context.seconds(request.exptime);
        // As memcached: a set without room must not leave the old value behind.
        op.forget = request.verb == BinaryVerb::set;
        watch_lookup(call, op.key);
        if (extends(request.verb)) context.router.record_accesses(context.now);
        ask<StoreCompletion>(call, op, parse);
    }
    call.consume(parse.head_bytes);
    if (call.pending == nullptr) call.swallow(parse.value_bytes);
    return true;
}

void run_delete(Call& call, const BinaryRequest& request) {
    Context& context = call.context;
    if (context.options.detail_enabled) context.admin.detail(request.key, KeyUse::del);
    protocol::DeleteOp op;
    op.key = context.router.key(request.key);
    if (request.cas != 0) op.cas_compare = request.cas;
    watch_lookup(call, op.key);
    ask<DeleteCompletion>(call, op, request);
}

void run_arith(Call& call, const BinaryRequest& request) {
    Context& context = call.context;
    protocol::ArithOp op;
    op.key = context.router.key(request.key);
    op.decrement = request.verb == BinaryVerb::decr;
    op.delta = request.delta;
    if (request.exptime != protocol::binary_no_create) {
        op.vivify = context.seconds(request.exptime);
        op.initial = request.initial;
    }
    if (request.cas != 0) op.cas_compare = request.cas;
    watch_lookup(call, op.key);
    context.router.record_accesses(context.now);
    ask<ArithCompletion>(call, op, request);
}

}  // namespace farcached::daemon::binary
