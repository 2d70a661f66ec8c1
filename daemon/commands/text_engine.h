// SPDX-License-Identifier: BSD-3-Clause
// Shared by the parts of the text engine only: text_engine.cc (the loop), text_get.cc, text_store.cc,
// text_admin.cc and meta_engine.cc.
//
// Owner: none. A Call lives for one call of the engine; it borrows the worker's Context and the session's state. Threads: the
// worker's that serves the session or the datagram.
#pragma once

#include <cstdint>
#include <string_view>

#include "daemon/commands/asking.h"
#include "daemon/commands/watch_lines.h"
#include "daemon/engine/engine.h"
#include "protocol/op.h"
#include "protocol/text.h"

namespace farcached::daemon::text {

struct Call : Submitter {
    std::string_view input;       // from the request's first byte
    Progress& progress;
    const PendingSet* pending = nullptr;  // `input` is its head, and its value is complete
};

enum class Step : uint8_t {
    done,       // executed or refused; progress.consumed covers it
    wait,       // needs more bytes, and consumed nothing or the finished part of a get line;
                // or needs earlier answers (Next::hold)
    stop,       // progress.next has the reason
};

inline void say(OutBuffer& out, std::string_view text) {
    char* to = out.reserve(text.size() + 2);
    std::memcpy(to, text.data(), text.size());
    std::memcpy(to + text.size(), "\r\n", 2);
    out.commit(text.size() + 2);
}

inline void say_unless(bool noreply, OutBuffer& out, std::string_view text) {
    if (!noreply) say(out, text);
}

// Consumes bytes of a refused value.
inline void swallow(SessionState& session, std::string_view input, Progress& progress) {
    const size_t size = std::min<size_t>(session.swallow, input.size() - progress.consumed);
    session.swallow -= uint32_t(size);
    progress.consumed += size;
}

inline bool extends(protocol::StoreOp::Mode mode) {
    return mode == protocol::StoreOp::Mode::append || mode == protocol::StoreOp::Mode::prepend;
}

// Seconds from now, for watch lines and mg t; exptime is not `never_expires`.
inline int64_t seconds_left(NodeSeconds exptime, NodeSeconds now) {
    return exptime <= now ? 0 : int64_t(exptime - now);
}

// The record of a mutation that needs no more.
struct NoReply {
    bool noreply;
};
inline void restore(NoReply&, const ReplySlot&) {}

// The reply when the key's node does not answer.
constexpr std::string_view unavailable_words = "SERVER_ERROR unavailable";

// A mutation without an answer. Meta has no noreply: its quiet clients get the error, too.
inline void answer_unavailable(const ReplyTarget& to, bool noreply) {
    to.context.counters.mutations_unavailable.add(1);
    say_unless(noreply, to.out, unavailable_words);
}

// ---- text_get.cc -----------------------------------------------------------------------
// A batch of consecutive single-key gets, with a common prefetch. Executes at most `most`, while the output is not full;
// returns the number.
uint32_t run_plain_gets(Call& call, uint32_t most);
Step run_get(Call& call, const protocol::TextParse& parse);
Step continue_get_line(Call& call);
void run_touch(Call& call, const protocol::TextRequest& request);

// ---- text_store.cc ---------------------------------------------------------------------
// The value behind the line at the front. need_more: the session or the node waits for it.
protocol::ValueParse take_value(Call& call, const protocol::TextParse& parse, std::string_view key);
Step run_store(Call& call, const protocol::TextParse& parse);
void run_delete(Call& call, const protocol::TextRequest& request);
void run_arith(Call& call, const protocol::TextRequest& request);
// The announced value is too large: discards it.
void refuse_too_large(Call& call, const protocol::StoreOp& op, bool forget, uint32_t value_bytes);
// A value without its terminator counts as a store all the same.
void count_bad_chunk(Context& context, std::string_view key, uint32_t value_bytes);
// Counts the result and writes watch lines. The reply is worded from the final `reply`.
void count_store(Context& context, int fd, std::string_view key, const StoreShown& shown,
                 protocol::StoreReply& reply);

// ---- text_admin.cc ---------------------------------------------------------------------
Step run_admin(Call& call, const protocol::TextRequest& request);

// ---- meta_engine.cc ---------------------------------------------------------------------------
Step run_meta(Call& call, const protocol::TextParse& parse);

// ---- text_auth.cc -----------------------------------------------------------------------------
// With -Y, until the client has authenticated (daemon/engine/engine.h, run_locked()).
Progress run_locked(Context& context, SessionState& session, std::string_view input, OutBuffer& out, uint32_t budget);

}  // namespace farcached::daemon::text
