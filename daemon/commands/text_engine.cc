// SPDX-License-Identifier: BSD-3-Clause
// The text engine's loop: parses the request at the front, executes it, continues behind it.
#include "daemon/commands/text_engine.h"

#include <algorithm>

#include "base/recorder.h"

namespace farcached::daemon {

namespace text {

namespace {

using protocol::TextParse;
using protocol::TextVerb;

Step execute(Call& call, const TextParse& parse) {
    const protocol::TextRequest& request = parse.request;
    switch (request.verb) {
        case TextVerb::get:
        case TextVerb::gets:
        case TextVerb::gat:
        case TextVerb::gats: return run_get(call, parse);
        case TextVerb::set:
        case TextVerb::add:
        case TextVerb::replace:
        case TextVerb::append:
        case TextVerb::prepend:
        case TextVerb::cas: return run_store(call, parse);
        case TextVerb::mg:
        case TextVerb::ms:
        case TextVerb::md:
        case TextVerb::ma:
        case TextVerb::me: return run_meta(call, parse);
        default: break;
    }
    Step step = Step::done;
    switch (request.verb) {
        case TextVerb::mn: say(call.out, "MN"); break;
        case TextVerb::del: run_delete(call, request); break;
        case TextVerb::incr:
        case TextVerb::decr: run_arith(call, request); break;
        case TextVerb::touch: run_touch(call, request); break;
        default: step = run_admin(call, request); break;
    }
    if (step != Step::wait) call.progress.consumed += parse.line_bytes;
    return step;
}

// Q1. True: the request is refused, and its value, or the rest of its line, will be discarded.
bool is_refused(Call& call, const TextParse& parse) {
    if (call.pending != nullptr) return false;
    const protocol::CommandNeeds needs = protocol::needs_of(parse.request);
    if (call.session.rights.allow(needs.classes)) return false;
    note_refusal(call.context, call.session, needs);
    call.progress.consumed += parse.line_bytes;
    if (parse.status == TextParse::Status::keys)
        call.session.line.kind = GetLine::Kind::discard;
    else if (protocol::text_takes_value(parse.request.verb))
        call.session.swallow = parse.request.value_bytes + 2;
    say_unless(parse.request.noreply, call.out, "CLIENT_ERROR permission denied");
    return true;
}

Step take_request(Call& call) {
    TextParse parse = protocol::parse_text(call.input);
    switch (parse.status) {
        case TextParse::Status::need_more: return Step::wait;
        case TextParse::Status::request:
        case TextParse::Status::keys:
            if (!call.session.rights.all() && is_refused(call, parse)) [[unlikely]] return Step::done;
            return execute(call, parse);
        case TextParse::Status::error:
            if (!parse.error.empty()) say(call.out, parse.error);
            call.session.swallow = uint32_t(parse.swallow);
            call.progress.consumed += parse.line_bytes;
            return Step::done;
        case TextParse::Status::close: break;
    }
    call.progress.consumed += call.input.size();
    call.progress.next = Next::close;
    return Step::stop;
}

}  // namespace

}  // namespace text

Progress run_text(Context& context, SessionState& session, std::string_view input, OutBuffer& out,
                  uint32_t budget) {
    Progress progress;
    uint32_t spent = 0;  // of the budget: requests, and steps inside a long get line
    while (progress.consumed < input.size()) {
        if (session.swallow != 0) {
            text::swallow(session, input, progress);
            continue;
        }
        if (spent >= budget || out.leaves() >= context.out_bytes_max) {
            progress.next = Next::yield;
            break;
        }
        if (session.replies != nullptr && session.replies->full()) [[unlikely]] {
            progress.next = Next::hold;
            break;
        }
        if (session.pending != nullptr) [[unlikely]] {
            const auto take = [](text::Call& call) { return text::take_request(call) == text::Step::done; };
            if (!go_on_with_pending<text::Call>({context, session, out}, input.substr(progress.consumed), progress, take)) break;
            spent++;
            continue;
        }
        text::Call call{{context, session, out}, input.substr(progress.consumed), progress};
        if (context.recorder != nullptr) context.recorder->step(call.input.data());
        bool in_line = session.line.kind != GetLine::Kind::none;
        const bool trace = context.options.trace;
        if (!in_line && !trace && session.rights.allow(bit_of(CommandClass::read))) {
            uint32_t gets = text::run_plain_gets(call, budget - spent);
            spent += gets;
            progress.requests += gets;
            if (gets != 0) continue;
        }
        const size_t answered = out.size();
        text::Step step = in_line ? text::continue_get_line(call) : text::take_request(call);
        if (step == text::Step::wait) break;
        if (trace) [[unlikely]] {
            if (!in_line) trace_request(session.fd, call.input);
            trace_reply(session.fd, std::string_view(out.data(), out.size()).substr(answered));
        }
        spent++;
        if (session.line.kind == GetLine::Kind::none) progress.requests++;
        if (step == text::Step::stop) break;
    }
    context.counters.requests.add(progress.requests);
    return progress;
}

}  // namespace farcached::daemon
