// SPDX-License-Identifier: BSD-3-Clause
// Authentication of binary clients (-S): until a session has authenticated by SASL it gets the version, and else an error and its
// end, as with memcached.
#include "daemon/commands/binary_engine.h"
#include "daemon/commands/sasl.h"

namespace farcached::daemon::binary {

namespace {

using protocol::BinaryParse;
using protocol::BinaryReply;
using protocol::BinaryRequest;
using protocol::BinaryStatus;
using protocol::BinaryVerb;
using Outcome = SaslExchange::Outcome;
using Exchange = std::unique_ptr<SaslExchange>;

bool hang_up(Call& call, const BinaryRequest& request, BinaryStatus status) {
    answer_error(call.out, request, status);
    call.progress.next = Next::close;
    call.progress.requests++;
    call.consume(call.input.size());
    return true;
}

// Without room, ends a session that waits and holds memory, whether its client has authenticated or not (RoomKeeper).
Exchange begin(Call& call) {
    (void)call.context.has_room(SaslExchange::charged_bytes);
    return call.context.options.sasl->begin(call.context.memory);
}

void run_list(Call& call, const BinaryRequest& request) {
    const Exchange asked = begin(call);
    const std::string_view mechanisms = asked->mechanisms();
    if (mechanisms.empty()) return answer_error(call.out, request, BinaryStatus::auth);
    answer_ok(call.out, request, 0, mechanisms);
}

void finish(Call& call, const BinaryRequest& request, Exchange& exchange, Outcome outcome) {
    WorkerCounters& counters = call.context.counters;
    if (outcome == Outcome::goes_on) {
        BinaryReply reply = reply_to(request);
        reply.status = BinaryStatus::auth_continue;
        return answer(call.out, reply, "", exchange->challenge());
    }
    counters.auth_cmds.add(1);
    if (outcome == Outcome::authenticated) {
        identify(call.context, call.session, exchange->user());
        call.progress.unlocked = true;
        answer_ok(call.out, request, 0, "Authenticated");
    } else {
        counters.auth_errors.add(1);
        call.context.options.sasl->failed.tell(call.session.fd, exchange == nullptr ? "STEP without AUTH" : exchange->reason());
        answer_error(call.out, request, BinaryStatus::auth);
    }
    exchange.reset();
}

// AUTH and STEP. False if the response is incomplete.
bool run_exchange(Call& call, const BinaryParse& parse, Exchange& exchange) {
    const BinaryRequest& request = parse.request;
    const bool long_name = request.key.size() > SaslExchange::mechanism_bytes_max;
    if (long_name || parse.value_bytes > SaslExchange::response_bytes_max) {
        answer_error(call.out, request, long_name ? BinaryStatus::invalid : BinaryStatus::no_memory);
        call.consume(parse.head_bytes);
        call.swallow(parse.value_bytes);
        return true;
    }
    const size_t total = parse.head_bytes + parse.value_bytes;
    if (call.input.size() < total) {
        call.progress.want = total;
        return false;
    }
    const std::string_view response = call.input.substr(parse.head_bytes, parse.value_bytes);
    Outcome outcome = Outcome::refused;
    if (request.verb == BinaryVerb::sasl_auth) {
        exchange.reset();
        exchange = begin(call);
        outcome = exchange->start(request.key, response);
    } else if (exchange != nullptr) {
        outcome = exchange->step(response);
    }
    call.consume(total);
    finish(call, request, exchange, outcome);
    return true;
}

bool take_request(Call& call, Exchange& exchange) {
    const BinaryParse parse = protocol::parse_binary(call.input);
    const BinaryRequest& request = parse.request;
    switch (parse.status) {
        case BinaryParse::Status::need_more: call.progress.want = parse.head_bytes; return false;
        case BinaryParse::Status::request: break;
        case BinaryParse::Status::error: {
            const bool first = parse.body_too_long || protocol::binary_precedes_authentication(request.opcode);
            const bool hides = parse.error == BinaryStatus::invalid && !first;
            return hang_up(call, request, hides ? BinaryStatus::auth : parse.error);
        }
        case BinaryParse::Status::close:
            call.progress.next = Next::close;
            call.consume(call.input.size());
            return true;
    }
    if (!protocol::binary_precedes_authentication(request.opcode)) return hang_up(call, request, BinaryStatus::auth);
    if (request.verb == BinaryVerb::sasl_auth || request.verb == BinaryVerb::sasl_step) {
        if (!run_exchange(call, parse, exchange)) return false;
    } else {
        call.consume(parse.head_bytes);
        request.verb == BinaryVerb::version ? answer_version(call.out, request) : run_list(call, request);
    }
    call.progress.requests++;
    return true;
}

}  // namespace

Progress run_locked(Context& context, SessionState& session, std::string_view input, OutBuffer& out, uint32_t budget,
                    std::unique_ptr<SaslExchange>& exchange) {
    Progress progress;
    Call call{{context, session, out}, input, progress};
    call.swallow(session.swallow);
    while (progress.next == Next::more && !progress.unlocked && !call.input.empty()) {
        if (progress.requests >= budget || out.leaves() >= context.out_bytes_max) {
            progress.next = Next::yield;
            break;
        }
        if (session.replies != nullptr && session.replies->full()) [[unlikely]] {
            progress.next = Next::hold;
            break;
        }
        if (!take_request(call, exchange)) break;
    }
    if (progress.unlocked && !call.input.empty()) progress.next = Next::yield;
    return progress;
}

}  // namespace farcached::daemon::binary
