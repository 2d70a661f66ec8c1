// SPDX-License-Identifier: BSD-3-Clause
// What the parts of the text engine share: engine_text.cc (the loop), engine_text_get.cc,
// engine_text_store.cc, engine_text_admin.cc and engine_meta.cc. For nobody else.
#pragma once

#include <cstdint>
#include <string_view>

#include "daemon/engine.h"
#include "daemon/engine_ask.h"
#include "daemon/engine_watch.h"
#include "protocol/op.h"
#include "protocol/text.h"

namespace farcached::daemon::text {

// The loop's view of one request.
struct Call : Asker {
    std::string_view input;       // from the request's first byte
    Progress& progress;
};

// What became of it.
enum class Turn : uint8_t {
    done,       // executed or refused; progress.consumed is behind what was used
    wait,       // more bytes are needed; nothing, or the finished part of a get line, was consumed. Or earlier
                // answers are (Next::hold)
    stop,       // progress.next says why
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

inline ClassCounters& class_counters(Context& context, uint8_t size_class) {
    return context.counters.classes[size_class & 63];
}

inline bool extends(protocol::StoreOp::Mode mode) {
    return mode == protocol::StoreOp::Mode::append || mode == protocol::StoreOp::Mode::prepend;
}

// Seconds from now, as watch lines and mg t show an exptime that is not `never_expires`.
inline int64_t seconds_left(NodeSeconds exptime, NodeSeconds now) {
    return exptime <= now ? 0 : int64_t(exptime - now);
}

// What is said when the node that has the key does not answer.
constexpr std::string_view unavailable_words = "SERVER_ERROR unavailable";

// A change whose node did not answer. Meta has no noreply: to its quiet clients, too, it is an error.
inline void answer_unavailable(const Answering& to, bool noreply) {
    to.context.counters.change_unavailable.add(1);
    say_unless(noreply, to.out, unavailable_words);
}

// ---- engine_text_get.cc -----------------------------------------------------------------------
// The plainest case, in bulk: gets of one key each, one behind the other, whose memory is fetched
// ahead for all. Executes at most `most` of them, as long as the output is not full; how many.
uint32_t run_plain_gets(Call& call, uint32_t most);
Turn run_get(Call& call, const protocol::TextParse& parse);
Turn continue_get_line(Call& call);
void run_touch(Call& call, const protocol::TextRequest& request);
// Counts a miss by its reason.
void count_miss(Context& context, protocol::Miss why);

// ---- engine_text_store.cc ---------------------------------------------------------------------
Turn run_store(Call& call, const protocol::TextParse& parse);
void run_delete(Call& call, const protocol::TextRequest& request);
void run_arith(Call& call, const protocol::TextRequest& request);
// The value that was announced will never be wanted.
void refuse_too_large(Call& call, const protocol::StoreOp& op, bool forget, uint32_t value_bytes);
// A value that did not end where it was said to: it counts as a store all the same.
void count_bad_chunk(Context& context, std::string_view key, uint32_t value_bytes);
// Counts and shows what was done. The reply is to be worded from what it leaves in `reply`.
void count_store(Context& context, int fd, std::string_view key, const StoreShown& shown,
                 protocol::StoreReply& reply);
void count_arith(Context& context, bool decrement, const protocol::ArithReply& reply);

// ---- engine_text_admin.cc ---------------------------------------------------------------------
Turn run_admin(Call& call, const protocol::TextRequest& request);

// ---- engine_meta.cc ---------------------------------------------------------------------------
Turn run_meta(Call& call, const protocol::TextParse& parse);

}  // namespace farcached::daemon::text
