// SPDX-License-Identifier: BSD-3-Clause
// The binary engine's loop: parses the request at the front, executes it, continues behind it. And the requests without a
// single key.
#include "daemon/commands/binary_engine.h"

#include "base/check.h"
#include "base/recorder.h"

namespace farcached::daemon {

namespace binary {

// memcached's version: clients parse and compare it, and the behaviour is that version's.
constexpr std::string_view version = "1.6.45";

using protocol::BinaryParse;
using protocol::BinaryReply;
using protocol::BinaryRequest;
using protocol::BinaryStatus;
using protocol::BinaryVerb;

void answer(OutBuffer& out, BinaryReply reply, std::string_view key, std::string_view value) {
    reply.key_bytes = uint16_t(key.size());
    reply.value_bytes = uint32_t(value.size());
    protocol::write_binary_header(out.reserve(protocol::binary_header_bytes), reply);
    out.commit(protocol::binary_header_bytes);
    if (!key.empty()) out.append(key);
    if (!value.empty()) out.append(value);
}

void answer_ok(OutBuffer& out, const BinaryRequest& request, uint64_t cas, std::string_view value) {
    if (request.quiet) return;
    BinaryReply reply = reply_to(request);
    reply.cas = cas;
    answer(out, reply, "", value);
}

void answer_error(OutBuffer& out, const BinaryRequest& request, BinaryStatus status,
                  std::string_view text) {
    BinaryReply reply = reply_to(request);
    reply.status = status;
    answer(out, reply, "", text);
}

void answer_version(OutBuffer& out, const BinaryRequest& request) { answer_ok(out, request, 0, version); }

namespace {

// A name in a STAT reply is sent as a key, with a 16-bit length.
constexpr size_t stat_name_bytes_max = 0xffff;

class FlushCompletion : Completing<BinaryRequest> {
  public:
    using Completing::Completing;
    void done(const protocol::DoneReply&) { answer_ok(to_.out, asked_, 0); }
    void unavailable() { answer_unavailable(to_, asked_); }
};

void run_flush(Call& call, const BinaryRequest& request) {
    Context& context = call.context;
    if (!context.options.flush_enabled) return answer_error(call.out, request, BinaryStatus::auth);
    context.counters.cmd_flush.add(1);
    NodeSeconds when = context.seconds(request.exptime);
    const bool at_once = request.exptime == 0 || when <= context.now;
    protocol::FlushOp op;
    if (!at_once) op.at = when;
    ask<FlushCompletion>(call, op, request);
    context.admin.flushed(at_once ? context.now : when);
}

// One packet per statistic, then one without key and value.
void answer_stat(const ReplyTarget& to, const BinaryRequest& request, std::string_view told) {
    const BinaryReply reply = reply_to(request);
    const size_t before = to.out.size();
    auto emit = [&](std::string_view name, std::string_view value) {
        answer(to.out, reply, name.substr(0, stat_name_bytes_max), value);
    };
    const StatsFound found = to.context.admin.stats_binary(request.key, told, emit);
    if (found == StatsFound::found) return answer(to.out, reply, "", "");
    to.out.truncate(before);
    answer_error(to.out, request,
                 found == StatsFound::unknown ? BinaryStatus::not_found : BinaryStatus::temporary_failure);
}

// ReplySlot::Complete.
void complete_stat(ReplySlot& slot, const ReplyTarget& to) {
    answer_stat(to, asking::restored<BinaryRequest>(slot), stats_told(slot));
}

void run_stat(Call& call, const BinaryRequest& request) {
    if (call.session.datagram && are_refused_over_udp(request.key))
        return answer_error(call.out, request, BinaryStatus::auth, "not allowed over UDP");
    const StatsNeed need = call.context.admin.stats_need(request.key);
    if (need.nodes) return ask_stats(call, need, request.key, "", request, &complete_stat);
    answer_stat(call.target(), request, "");
}

void execute(Call& call, const BinaryRequest& request) {
    switch (request.verb) {
        case BinaryVerb::touch:
        case BinaryVerb::gat: return run_touch(call, request);
        case BinaryVerb::del: return run_delete(call, request);
        case BinaryVerb::incr:
        case BinaryVerb::decr: return run_arith(call, request);
        case BinaryVerb::flush: return run_flush(call, request);
        case BinaryVerb::stat: return run_stat(call, request);
        case BinaryVerb::config_get: return run_config_get(call, request);
        case BinaryVerb::noop: return answer_ok(call.out, request, 0);
        case BinaryVerb::version: return answer_version(call.out, request);
        case BinaryVerb::quit: call.progress.next = Next::close; return answer_ok(call.out, request, 0);
        case BinaryVerb::sasl_list:
        case BinaryVerb::sasl_auth:
        case BinaryVerb::sasl_step:
        case BinaryVerb::unknown: return answer_error(call.out, request, BinaryStatus::unknown_command);
        case BinaryVerb::get:
        case BinaryVerb::set:
        case BinaryVerb::add:
        case BinaryVerb::replace:
        case BinaryVerb::append:
        case BinaryVerb::prepend: break;
    }
    panic("a request that take_request() runs itself", __FILE__, __LINE__);
}

// A client of -S that authenticates anew is unauthenticated until it succeeds. The operator's requests of SASL are unknown.
bool locks(Call& call, const BinaryRequest& request) {
    const bool known = call.session.own || call.session.admin;
    if (!protocol::binary_authenticates(request.verb) || call.context.options.sasl == nullptr || known) return false;
    call.progress.locked = true;
    call.progress.next = Next::yield;
    return true;
}

// Q1. True: the request is refused, and its body will be discarded.
bool is_refused(Call& call, const BinaryParse& parse) {
    if (call.pending != nullptr) return false;
    const protocol::CommandNeeds needs = protocol::needs_of(parse.request);
    if (call.session.rights.allow(needs.classes)) return false;
    note_refusal(call.context, call.session, needs);
    answer_error(call.out, parse.request, BinaryStatus::no_access);
    call.consume(parse.head_bytes);
    call.swallow(parse.value_bytes);
    call.progress.requests++;
    return true;
}

// False if the request at the front is incomplete, or not this engine's.
bool take_request(Call& call, uint32_t budget_left) {
    const BinaryParse parse = protocol::parse_binary(call.input);
    switch (parse.status) {
        case BinaryParse::Status::need_more: call.progress.want = parse.head_bytes; return false;
        case BinaryParse::Status::request: break;
        case BinaryParse::Status::error:
            answer_error(call.out, parse.request, parse.error);
            call.progress.requests++;
            [[fallthrough]];
        case BinaryParse::Status::close:
            call.progress.next = Next::close;
            call.consume(call.input.size());
            return true;
    }
    if (!call.session.rights.all() && is_refused(call, parse)) [[unlikely]] return true;
    if (parse.request.verb == BinaryVerb::get) {
        run_gets(call, parse, budget_left);
        return true;
    }
    if (protocol::binary_takes_value(parse.request.verb)) {
        if (!run_store(call, parse)) return false;
    } else {
        const BinaryRequest& request = parse.request;
        if (request.verb == BinaryVerb::stat && stats_must_wait(call, request.key, call.progress)) return false;
        if (locks(call, request)) return false;
        execute(call, request);
        call.consume(parse.head_bytes);
        call.swallow(parse.value_bytes);
    }
    call.progress.requests++;
    return true;
}

bool go_on_with_pending(Call& call) {
    const size_t before = call.progress.consumed;
    const bool done =
        daemon::go_on_with_pending<Call>(call, call.input, call.progress, [](Call& stored) { return take_request(stored, 1); });
    call.input.remove_prefix(call.progress.consumed - before);
    return done;
}

}  // namespace

}  // namespace binary

Progress run_binary(Context& context, SessionState& session, std::string_view input, OutBuffer& out,
                    uint32_t budget) {
    Progress progress;
    const ReplyQueue* const replies = session.replies;
    binary::Call call{{context, session, out}, input, progress};
    call.swallow(session.swallow);
    if (session.pending != nullptr && !call.input.empty() && !binary::go_on_with_pending(call)) return progress;
    while (progress.next == Next::more && !call.input.empty()) {
        if (context.recorder != nullptr) context.recorder->step(call.input.data());
        if (progress.requests >= budget || out.leaves() >= context.out_bytes_max) {
            progress.next = Next::yield;
            break;
        }
        if (replies != nullptr && replies->full()) [[unlikely]] {
            progress.next = Next::hold;
            break;
        }
        if (!context.options.trace) [[likely]] {
            if (!binary::take_request(call, budget - progress.requests)) break;
            continue;
        }
        const std::string_view asked = call.input;
        const size_t answered = out.size();
        if (!binary::take_request(call, 1)) break;
        trace_request(session.fd, asked);
        trace_reply(session.fd, std::string_view(out.data(), out.size()).substr(answered));
    }
    context.counters.requests.add(progress.requests);
    return progress;
}

}  // namespace farcached::daemon
