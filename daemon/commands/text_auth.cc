// SPDX-License-Identifier: BSD-3-Clause
// Authentication of text clients (-Y): until a session has sent a user and a password, as the value of a `set` or an `ms` of any
// key, it gets nothing else. memcached has no `ms` here. Of its flags `q`, `k` and `O` count, as in other replies; the rest is
// about items. run_locked() chooses between them and binary clients (binary_auth.cc).
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/commands/binary_engine.h"
#include "daemon/commands/passwords.h"
#include "daemon/commands/text_engine.h"
#include "protocol/binary.h"
#include "protocol/text_keys.h"

namespace farcached::daemon {

namespace text {

namespace {

constexpr size_t line_bytes_max = 2048;

struct Attempt {
    uint32_t value_bytes = 0;
    std::string stored = "STORED";  // the reply; empty: none
};

std::string meta_reply(std::string_view key, std::string_view flags) {
    std::string reply = "HD";
    bool quiet = false;
    while (!flags.empty()) {
        const std::string_view flag = protocol::take_word(flags);
        quiet = quiet || flag == "q";
        if (flag == "k") reply.append(" k").append(key);
        if (flag.starts_with('O')) reply.append(" ").append(flag);
    }
    return quiet ? std::string() : reply;
}

std::optional<Attempt> attempt_in(std::string_view line) {
    const std::string_view verb = protocol::take_word(line);
    const bool meta = verb == "ms";
    if (!meta && verb != "set") return std::nullopt;
    const std::string_view key = protocol::take_word(line);
    for (int before = meta ? 0 : 2; before > 0; before--) (void)protocol::take_word(line);  // flags and exptime
    Attempt attempt;
    const std::string_view digits = protocol::take_word(line);
    if (digits.empty() || !protocol::parse_u32(digits, attempt.value_bytes)) return std::nullopt;
    if (meta) attempt.stored = meta_reply(key, line);
    return attempt;
}

Step hang_up(Call& call) {
    call.progress.consumed += call.input.size();
    call.progress.next = Next::close;
    return Step::stop;
}

Step answer(Call& call, size_t bytes, std::string_view words) {
    if (!words.empty()) say(call.out, words);
    call.progress.consumed += bytes;
    return Step::done;
}

Step authenticate(Call& call) {
    if (uint8_t(call.input.front()) == protocol::binary_request_magic) return hang_up(call);  // its client would wait for a reply
    const size_t line_end = call.input.find('\n');
    if (line_end == std::string_view::npos) return call.input.size() > line_bytes_max ? hang_up(call) : Step::wait;
    std::string_view line = call.input.substr(0, line_end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line == "quit") return hang_up(call);
    const size_t head = line_end + 1;
    const std::optional<Attempt> attempt = attempt_in(line);
    if (!attempt.has_value()) return answer(call, head, "CLIENT_ERROR unauthenticated");
    if (attempt->value_bytes > Passwords::token_bytes_max) {
        call.session.swallow = attempt->value_bytes > UINT32_MAX - 2 ? UINT32_MAX : attempt->value_bytes + 2;
        return answer(call, head, "CLIENT_ERROR auth token too long");
    }
    const size_t whole = head + attempt->value_bytes + 2;
    if (call.input.size() < whole) {
        call.progress.want = whole;
        return Step::wait;
    }
    const std::string_view token = call.input.substr(head, attempt->value_bytes);
    if (call.input.substr(head + token.size(), 2) != "\r\n")
        return answer(call, whole, "CLIENT_ERROR bad command line termination");
    const size_t space = token.find(' ');
    if (space == std::string_view::npos) return answer(call, whole, "CLIENT_ERROR bad authentication token format");
    call.context.counters.auth_cmds.add(1);
    if (!call.context.options.passwords->allows(token.substr(0, space), token.substr(space + 1))) {
        call.context.counters.auth_errors.add(1);
        call.context.options.passwords->failed.tell(call.session.fd, "no such user and password");
        return answer(call, whole, "CLIENT_ERROR authentication failure");
    }
    identify(call.context, call.session, token.substr(0, space));
    call.progress.unlocked = true;
    return answer(call, whole, attempt->stored);
}

}  // namespace

Progress run_locked(Context& context, SessionState& session, std::string_view input, OutBuffer& out, uint32_t budget) {
    Progress progress;
    while (progress.consumed < input.size() && !progress.unlocked) {
        if (session.swallow != 0) {
            swallow(session, input, progress);
            continue;
        }
        if (progress.requests >= budget) break;
        Call call{{context, session, out}, input.substr(progress.consumed), progress};
        const Step step = authenticate(call);
        if (step == Step::wait) break;
        progress.requests++;
        if (step == Step::stop) break;
    }
    const bool goes_on = progress.unlocked || progress.requests >= budget;
    if (goes_on && progress.consumed < input.size()) progress.next = Next::yield;
    return progress;
}

}  // namespace text

Progress run_locked(Context& context, SessionState& session, std::string_view input, OutBuffer& out, uint32_t budget,
                    std::unique_ptr<SaslExchange>& exchange) {
    const Progress progress = context.options.sasl != nullptr
                                  ? binary::run_locked(context, session, input, out, budget, exchange)
                                  : text::run_locked(context, session, input, out, budget);
    context.counters.requests.add(progress.requests);
    return progress;
}

}  // namespace farcached::daemon
