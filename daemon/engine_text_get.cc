// SPDX-License-Identifier: BSD-3-Clause
// get, gets, gat, gats, touch.
//
// A get is first tried without a lock; header and value go straight into the output, and are
// committed only if the read proves a hit. Everything else is asked again under the lock.
#include <algorithm>
#include <cstring>

#include "daemon/engine_text.h"
#include "daemon/engine_watch.h"
#include "protocol/text_keys.h"

namespace farcached::daemon::text {

namespace {

using protocol::KeyCursor;
using protocol::TextVerb;

// A line longer than this gives way to other connections after so many keys.
constexpr uint32_t keys_per_turn = 1024;

// "VALUE ", key, three numbers with spaces, CRLF, and the value's CRLF.
constexpr size_t value_line_bytes_max = 6 + limits::key_bytes_max + 3 * 21 + 2 + 2;

// What is asked of each key of a line.
struct AskedOfKey {
    bool with_cas;
    bool touching;
    NodeSeconds touch;
};

// A VALUE line being written behind the end of `out`. Nothing of it counts until finish().
class ValueLine {
  public:
    ValueLine(OutBuffer& out, std::string_view key, bool with_cas)
        : out_(out), key_(key), with_cas_(with_cas) {}

    // Meta: fabric::ReadMeta or protocol::ItemMeta. Returns where the value goes.
    template <class Meta>
    char* begin(const Meta& meta) {
        start_ = out_.reserve(value_line_bytes_max + meta.value_len);
        char* at = start_;
        std::memcpy(at, "VALUE ", 6);
        at += 6;
        std::memcpy(at, key_.data(), key_.size());
        at += key_.size();
        *at++ = ' ';
        at = meta.flags == 0 ? (*at = '0', at + 1) : write_number(at, meta.flags);
        *at++ = ' ';
        at = write_number(at, meta.value_len);
        if (with_cas_) {
            *at++ = ' ';
            at = write_number(at, meta.cas);
        }
        std::memcpy(at, "\r\n", 2);
        at += 2;
        value_len_ = meta.value_len;
        size_class_ = meta.size_class;
        end_ = at + meta.value_len;
        return at;
    }
    void finish() {
        std::memcpy(end_, "\r\n", 2);
        out_.commit(size_t(end_ + 2 - start_));
    }
    uint32_t value_len() const { return value_len_; }
    uint8_t size_class() const { return size_class_; }

  private:
    OutBuffer& out_;
    std::string_view key_;
    bool with_cas_;
    uint8_t size_class_ = 0;
    uint32_t value_len_ = 0;
    char* start_ = nullptr;
    char* end_ = nullptr;
};

// Call only if gets_are_told().
[[gnu::noinline]] void tell_get(Context& context, int fd, std::string_view key, protocol::Miss why,
                                const ValueLine& line) {
    if (context.options.detail_enabled) context.admin.detail_get(key, why == protocol::Miss::none);
    watch_get(context, fd, key, why, line.size_class(), line.value_len());
}

// One key of a line.
class KeyHalf {
  public:
    KeyHalf(const Answering& to, std::string_view key, const AskedOfKey& asked, std::string_view)
        : to_(to), key_(key), asked_(asked), line_(to.out, key, asked.with_cas) {}
    bool wants_value() const { return true; }
    char* value_at(const protocol::ItemMeta& meta) { return line_.begin(meta); }
    void done(const protocol::GetReply& reply) {
        if (reply.status != protocol::GetReply::Status::hit) return miss(reply.why);
        line_.finish();
        ClassCounters& counters = class_counters(to_.context, line_.size_class());
        (asked_.touching ? counters.touch_hits : counters.get_hits).add(1);
        if (gets_are_told(to_.context)) [[unlikely]]
            tell_get(to_.context, to_.fd, key_, protocol::Miss::none, line_);
    }
    void unavailable() {
        to_.context.counters.get_unavailable.add(1);
        if (to_.context.options.unavailable_is_error)
            to_.carry->line_failed = true;
        else
            miss(protocol::Miss::absent);
    }

  private:
    void miss(protocol::Miss why) {
        WorkerCounters& counters = to_.context.counters;
        (asked_.touching ? counters.touch_misses : counters.get_misses).add(1);
        count_miss(to_.context, why);
        if (gets_are_told(to_.context)) [[unlikely]]
            tell_get(to_.context, to_.fd, key_, why, line_);
    }

    Answering to_;
    std::string_view key_;
    AskedOfKey asked_;
    ValueLine line_;
};

void get_locked(Call& call, const protocol::Key& key, const AskedOfKey& asked) {
    protocol::GetOp op;
    op.key = key;
    if (asked.touching) op.touch = asked.touch;
    if (asked.touching) call.context.record_accesses();
    ask_get<KeyHalf>(call, op, /* plain= */ !asked.touching, asked);
}

// Only of the embedded node.
void get_one(Call& call, const protocol::Key& key, const AskedOfKey& asked) {
    Context& context = call.context;
    if (context.local.accesses_full()) [[unlikely]]
        context.record_accesses();
    ValueLine line(call.out, key.bytes, asked.with_cas);
    auto sink = [&](const fabric::ReadMeta& meta) { return line.begin(meta); };
    fabric::Outcome outcome = context.local.read(key.bytes, key.hash, context.now,
                                                 /* tokens_matter= */ false,
                                                 /* count_access= */ true, sink);
    if (outcome != fabric::Outcome::hit) return get_locked(call, key, asked);
    line.finish();
    class_counters(context, line.size_class()).get_hits.add(1);
    if (gets_are_told(context)) [[unlikely]]
        tell_get(context, call.session.fd, key.bytes, protocol::Miss::none, line);
}

// Up to prefetch_window keys, so that the memory of all is on its way before the first is read.
struct Window {
    static constexpr uint32_t size_max = proxy::LocalGet::prefetch_window;
    protocol::Key keys[size_max];
    uint32_t size = 0;
    KeyCursor::Step ended = KeyCursor::Step::key;  // key: the window is full

    void fill(KeyCursor& cursor) {
        size = 0;
        while (size < size_max) {
            ended = cursor.next(keys[size].bytes);
            if (ended != KeyCursor::Step::key) return;
            size++;
        }
    }
    // The same from gets of one key each, at most `most` of them; `ends`: where each ends in
    // `input`.
    void fill(std::string_view input, uint32_t most, size_t (&ends)[size_max]) {
        size_t end = 0;
        for (size = 0; size < std::min(most, size_max); size++) {
            size_t bytes = protocol::take_plain_get(input.substr(end), keys[size].bytes);
            if (bytes == 0) return;
            ends[size] = end += bytes;
        }
    }
    void fetch(Context& context) {
        if (context.backend != nullptr) {
            if (size > 1) context.backend->expect({keys, size});
            return;
        }
        const proxy::LocalGet& local = context.local;
        for (uint32_t i = 0; i < size; i++) {
            keys[i].hash = local.hash(keys[i].bytes);
            if (size > 1) local.prefetch_bucket(keys[i].hash);
        }
        if (size == 1) return;
        for (uint32_t i = 0; i < size; i++) local.prefetch_item(keys[i].hash);
    }
};

void count_asked(Context& context, const AskedOfKey& asked, uint32_t keys) {
    (asked.touching ? context.counters.cmd_touch : context.counters.get_cmds).add(keys);
}

bool no_room(const Call& call) {
    if (call.out.size() >= out_bytes_soft_max) return true;
    return call.session.replies != nullptr && call.session.replies->full();
}

// The first `n` of the window's keys were answered by the embedded node.
void note_keys(Context& context, const Window& window, uint32_t n) {
    if (context.hot_keys == nullptr || context.backend != nullptr) return;
    context.hot_keys->passed(n, [&](uint32_t i) { return window.keys[i].bytes; });
}

// Answers the window's keys until there is no room; how many.
uint32_t answer(Call& call, const Window& window, const AskedOfKey& asked) {
    const bool locked = asked.touching || call.context.backend != nullptr;
    uint32_t i = 0;
    for (; i < window.size; i++) {
        if (i != 0 && no_room(call)) break;
        if (locked)
            get_locked(call, window.keys[i], asked);
        else
            get_one(call, window.keys[i], asked);
    }
    count_asked(call.context, asked, i);
    note_keys(call.context, window, i);
    return i;
}

// The end of a line whose keys may have failed.
void end_in_turn(ReplySlot&, const Answering& to) {
    say(to.out, to.carry->line_failed ? unavailable_words : "END");
    to.carry->line_failed = false;
}

void say_end(Call& call) {
    ReplyQueue* replies = call.session.replies;
    if (replies != nullptr && call.context.options.unavailable_is_error)
        return replies->park_answered(call.out, end_in_turn);
    say(call.out, "END");
}

// The end of a line's keys, of whichever kind. True if the line is finished.
bool end_line(Call& call, GetLine& line, KeyCursor::Step step) {
    if (step == KeyCursor::Step::line_end) {
        if (line.any_key)
            say_end(call);
        else
            say(call.out, protocol::bad_format);
        line = GetLine();
        return true;
    }
    CHECK(step == KeyCursor::Step::too_long);
    say(call.out, protocol::bad_format);
    line = GetLine();
    line.kind = GetLine::Kind::discard;
    return false;
}

AskedOfKey asked_of(const GetLine& line) {
    using Kind = GetLine::Kind;
    bool touching = line.kind == Kind::gat || line.kind == Kind::gats;
    return {line.kind == Kind::gets || line.kind == Kind::gats, touching, line.touch};
}

// Goes through the keys in `text`, the front of what is left of the session's line. Returns what is
// consumed.
size_t answer_keys(Call& call, std::string_view text, Turn& turn) {
    GetLine& line = call.session.line;
    const AskedOfKey asked = asked_of(line);
    KeyCursor cursor(text);
    Window window;
    turn = Turn::done;
    for (uint32_t keys = 0; keys < keys_per_turn; keys += window.size) {
        window.fill(cursor);
        if (call.context.backend == nullptr || !asked.touching) window.fetch(call.context);
        if (window.size != 0) line.any_key = true;
        uint32_t answered = answer(call, window, asked);
        if (answered < window.size) {
            std::string_view last = window.keys[answered - 1].bytes;
            return size_t(last.data() + last.size() - text.data());
        }
        if (window.ended == KeyCursor::Step::key) {
            if (no_room(call)) break;
            continue;
        }
        if (window.ended == KeyCursor::Step::need_more) turn = Turn::wait;
        else end_line(call, line, window.ended);
        break;
    }
    return cursor.consumed();
}

struct TouchAsked {
    bool noreply;
};

class TouchHalf {
  public:
    TouchHalf(const Answering& to, std::string_view key, const TouchAsked& asked, std::string_view)
        : to_(to), key_(key), asked_(asked) {}
    bool wants_value() const { return false; }
    char* value_at(const protocol::ItemMeta&) { return nullptr; }
    [[gnu::always_inline]] void done(const protocol::GetReply& reply) {
        Context& context = to_.context;
        const bool hit = reply.status == protocol::GetReply::Status::hit;
        context.counters.cmd_touch.add(1);
        if (hit) {
            class_counters(context, reply.meta.size_class).touch_hits.add(1);
        } else {
            context.counters.touch_misses.add(1);
            count_miss(context, reply.why);
        }
        watch_get(context, to_.fd, key_, hit ? protocol::Miss::none : reply.why,
                  reply.meta.size_class, reply.meta.value_len);
        say_unless(asked_.noreply, to_.out, hit ? "TOUCHED" : "NOT_FOUND");
    }
    // A touch changes something: it does not pass for a miss.
    void unavailable() {
        to_.context.counters.cmd_touch.add(1);
        answer_unavailable(to_, asked_.noreply);
    }

  private:
    Answering to_;
    std::string_view key_;
    TouchAsked asked_;
};

}  // namespace

void count_miss(Context& context, protocol::Miss why) {
    if (why == protocol::Miss::expired) context.counters.get_expired.add(1);
    if (why == protocol::Miss::flushed) context.counters.get_flushed.add(1);
}

uint32_t run_plain_gets(Call& call, uint32_t most) {
    Window window;
    size_t ends[Window::size_max];
    window.fill(call.input, most, ends);
    if (window.size == 0) return 0;
    const AskedOfKey plain{/* with_cas= */ false, /* touching= */ false, never_expires};
    uint32_t i = 0;
    if (call.context.backend == nullptr) [[likely]] {
        window.fetch(call.context);
        do {
            get_one(call, window.keys[i], plain);
            std::memcpy(call.out.reserve(5), "END\r\n", 5);
            call.out.commit(5);
            i++;
        } while (i < window.size && call.out.size() < out_bytes_soft_max);
    } else {
        window.fetch(call.context);
        do {
            get_locked(call, window.keys[i++], plain);
            say_end(call);
        } while (i < window.size && !no_room(call));
    }
    count_asked(call.context, plain, i);
    note_keys(call.context, window, i);
    call.progress.consumed += ends[i - 1];
    return i;
}

Turn run_get(Call& call, const protocol::TextParse& parse) {
    const protocol::TextRequest& request = parse.request;
    GetLine& line = call.session.line;
    line = GetLine();
    switch (request.verb) {
        case TextVerb::get: line.kind = GetLine::Kind::get; break;
        case TextVerb::gets: line.kind = GetLine::Kind::gets; break;
        case TextVerb::gat: line.kind = GetLine::Kind::gat; break;
        default: line.kind = GetLine::Kind::gats; break;
    }
    line.touch = call.context.seconds(request.exptime);
    call.progress.consumed += size_t(request.args.data() - call.input.data());
    Turn turn;
    call.progress.consumed += answer_keys(call, request.args, turn);
    return turn;
}

Turn continue_get_line(Call& call) {
    GetLine& line = call.session.line;
    Turn turn;
    if (line.kind == GetLine::Kind::discard) {
        bool ended = false;
        call.progress.consumed += protocol::skip_line(call.input, ended);
        if (ended) line = GetLine();
        return Turn::done;
    }
    call.progress.consumed += answer_keys(call, call.input, turn);
    return turn;
}

void run_touch(Call& call, const protocol::TextRequest& request) {
    protocol::GetOp op;
    op.key = call.context.key(request.key);
    op.touch = call.context.seconds(request.exptime);
    call.context.record_accesses();
    ask_get<TouchHalf>(call, op, /* plain= */ false, TouchAsked{request.noreply});
}

}  // namespace farcached::daemon::text
