// SPDX-License-Identifier: BSD-3-Clause
// get, gets, gat, gats, touch.
//
// Header and value are written directly into the output, and committed only if the read is a hit.
#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/commands/cluster_list.h"
#include "daemon/commands/text_engine.h"
#include "protocol/text_keys.h"

namespace farcached::daemon::text {

namespace {

using protocol::KeyCursor;
using protocol::TextVerb;

// A longer line yields to other connections after so many keys.
constexpr uint32_t keys_per_turn = 1024;

// "VALUE ", key, three numbers with spaces, CRLF, and the value's CRLF.
constexpr size_t value_line_bytes_max = 6 + limits::key_bytes_max + 3 * 21 + 2 + 2;

struct KeyRecord {
    bool with_cas;
    bool touching;
    NodeSeconds touch;
};
void restore(KeyRecord&, const ReplySlot&) {}

// A VALUE line under construction behind the end of `out`. Not committed before finish().
class ValueLine {
  public:
    ValueLine(OutBuffer& out, std::string_view key, bool with_cas)
        : out_(out), key_(key), with_cas_(with_cas) {}

    // Meta: fabric::ReadMeta or protocol::ItemMeta. Returns the value's destination.
    template <class Meta>
    char* begin(const Meta& meta) {
        return begin(meta, meta.value_len);
    }
    // The same, and finish(), for a value sent from the cache's memory.
    void write(const protocol::ItemMeta& meta, BorrowedBytes&& value) {
        char* const head_end = begin(meta, 0);
        out_.commit(size_t(head_end - start_));
        out_.append(std::move(value));
        out_.append("\r\n");
    }
    void finish() {
        std::memcpy(end_, "\r\n", 2);
        out_.commit(size_t(end_ + 2 - start_));
    }
    uint32_t value_len() const { return value_len_; }
    uint8_t size_class() const { return size_class_; }

  private:
    template <class Meta>
    char* begin(const Meta& meta, size_t value_room) {
        start_ = out_.reserve(value_line_bytes_max + value_room);
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

    OutBuffer& out_;
    std::string_view key_;
    bool with_cas_;
    uint8_t size_class_ = 0;
    uint32_t value_len_ = 0;
    char* start_ = nullptr;
    char* end_ = nullptr;
};

class KeyCompletion {
  public:
    KeyCompletion(const ReplyTarget& to, std::string_view key, const KeyRecord& asked, std::string_view)
        : to_(to), key_(key), asked_(asked), line_(to.out, key, asked.with_cas) {}
    bool wants_value() const { return true; }
    template <class ItemSeen>
    bool sends(const ItemSeen&) const {
        return true;
    }
    template <class ItemSeen>
    char* value_at(const ItemSeen& meta) {
        return line_.begin(meta);
    }
    void value_lent(const protocol::ItemMeta& meta, BorrowedBytes&& value) {
        line_.write(meta, std::move(value));
        lent_ = true;
    }
    void refused() {
        to_.carry->refused = true;
        miss(protocol::Miss::absent);
    }
    void done(const protocol::GetReply& reply) {
        if (reply.status != protocol::GetReply::Status::hit) return miss(reply.why);
        hit();
    }
    void hit() {
        if (!lent_) line_.finish();
        ClassCounters& counters = class_counters(to_.context, line_.size_class());
        (asked_.touching ? counters.touch_hits : counters.get_hits).add(1);
        note_get(to_.context, to_.fd, key_, protocol::Miss::none, line_.size_class(), line_.value_len());
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
        note_get(to_.context, to_.fd, key_, why, line_.size_class(), line_.value_len());
    }

    ReplyTarget to_;
    std::string_view key_;
    KeyRecord asked_;
    ValueLine line_;
    bool lent_ = false;  // and written
};

// True: the key stood for the list of the cluster, a hit without a size class.
bool answer_list(const Call& call, std::string_view key, const KeyRecord& asked) {
    const ClusterList list = cluster_list_at(call.context, key);
    if (list == nullptr) [[likely]] return false;
    protocol::ItemMeta meta;
    meta.cas = list->version;
    meta.value_len = uint32_t(list->text.size());
    ValueLine line(call.out, key, asked.with_cas);
    std::memcpy(line.begin(meta), list->text.data(), list->text.size());
    line.finish();
    class_counters(call.context, 0).get_hits.add(1);
    note_get(call.context, call.session.fd, key, protocol::Miss::none, 0, meta.value_len);
    return true;
}

// call.carry is set.
void get_one(const Call& call, const protocol::Key& key, const KeyRecord& asked) {
    if (!asked.touching) {
        if (answer_list(call, key.bytes, asked)) return;
        ask_plain_get<KeyCompletion>(call, key, /* tokens_matter= */ false, asked);
        return;
    }
    protocol::GetOp op;
    op.key = key;
    op.touch = asked.touch;
    ask_get<KeyCompletion>(call, op, asked);
}

// Up to prefetch_window keys, prefetched together before the first is read.
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
    // The same for single-key gets, at most `most`; `ends`: the end of each in `input`.
    void fill(std::string_view input, uint32_t most, size_t (&ends)[size_max]) {
        size_t end = 0;
        for (size = 0; size < std::min(most, size_max); size++) {
            size_t bytes = protocol::take_plain_get(input.substr(end), keys[size].bytes);
            if (bytes == 0) return;
            ends[size] = end += bytes;
        }
    }
    void fetch(const Context& context) {
        for (uint32_t i = 0; i < size; i++) keys[i] = context.router.key(keys[i].bytes);
        if (size > 1) context.router.expect({keys, size});
    }
};

void count_asked(Context& context, const KeyRecord& asked, uint32_t keys) {
    (asked.touching ? context.counters.cmd_touch : context.counters.get_cmds).add(keys);
}

// Answers the window's keys until there is no room; returns their number.
uint32_t answer(Call& call, const Window& window, const KeyRecord& asked) {
    ReplyContext carry;
    call.carry = &carry;
    uint32_t i = 0;
    for (; i < window.size; i++) {
        if (i != 0 && call.no_room()) break;
        get_one(call, window.keys[i], asked);
    }
    call.carry = nullptr;
    call.session.line.refused |= carry.refused;
    count_asked(call.context, asked, i);
    return i;
}

// The end of a line with parked keys, some perhaps unavailable.
void end_in_turn(ReplySlot&, const ReplyTarget& to) {
    say(to.out, to.carry->line_failed ? unavailable_words : "END");
    to.carry->line_failed = false;
}

void say_end(Call& call) {
    if (call.session.line.refused) [[unlikely]] {
        call.session.line.refused = false;
        return say(call.out, "SERVER_ERROR out of memory writing get response");
    }
    ReplyQueue* replies = call.session.replies;
    if (replies != nullptr && call.context.options.unavailable_is_error)
        return replies->park_answered(call.out, end_in_turn);
    say(call.out, "END");
}

// The end of a line's keys, of any kind. True: the line is finished.
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

KeyRecord asked_of(const GetLine& line) {
    using Kind = GetLine::Kind;
    bool touching = line.kind == Kind::gat || line.kind == Kind::gats;
    return {line.kind == Kind::gets || line.kind == Kind::gats, touching, line.touch};
}

// Answers the keys in `text`, the front of the session's unfinished line. Returns the consumed bytes.
size_t answer_keys(Call& call, std::string_view text, Step& step) {
    GetLine& line = call.session.line;
    const KeyRecord asked = asked_of(line);
    KeyCursor cursor(text);
    Window window;
    step = Step::done;
    for (uint32_t keys = 0; keys < keys_per_turn; keys += window.size) {
        window.fill(cursor);
        if (call.context.router.reads_here(asked.touching)) window.fetch(call.context);
        if (window.size != 0) line.any_key = true;
        uint32_t answered = answer(call, window, asked);
        if (answered < window.size) {
            std::string_view last = window.keys[answered - 1].bytes;
            return size_t(last.data() + last.size() - text.data());
        }
        if (window.ended == KeyCursor::Step::key) {
            if (call.no_room()) break;
            continue;
        }
        if (window.ended == KeyCursor::Step::need_more) step = Step::wait;
        else end_line(call, line, window.ended);
        break;
    }
    return cursor.consumed();
}

class TouchCompletion : Completing<NoReply> {
  public:
    using Completing::Completing;
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
    // A touch is a mutation: it does not count as a miss.
    void unavailable() {
        to_.context.counters.cmd_touch.add(1);
        answer_unavailable(to_, asked_.noreply);
    }
};

}  // namespace

uint32_t run_plain_gets(Call& call, uint32_t most) {
    Window window;
    size_t ends[Window::size_max];
    window.fill(call.input, most, ends);
    if (window.size == 0) return 0;
    const KeyRecord plain{/* with_cas= */ false, /* touching= */ false, never_expires};
    window.fetch(call.context);
    ReplyContext carry;
    call.carry = &carry;
    uint32_t i = 0;
    do {
        get_one(call, window.keys[i++], plain);
        call.session.line.refused = std::exchange(carry.refused, false);
        say_end(call);
    } while (i < window.size && !call.no_room());
    call.carry = nullptr;
    count_asked(call.context, plain, i);
    call.progress.consumed += ends[i - 1];
    return i;
}

Step run_get(Call& call, const protocol::TextParse& parse) {
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
    Step step;
    call.progress.consumed += answer_keys(call, request.args, step);
    return step;
}

Step continue_get_line(Call& call) {
    GetLine& line = call.session.line;
    Step step;
    if (line.kind == GetLine::Kind::discard) {
        bool ended = false;
        call.progress.consumed += protocol::skip_line(call.input, ended);
        if (ended) line = GetLine();
        return Step::done;
    }
    call.progress.consumed += answer_keys(call, call.input, step);
    return step;
}

void run_touch(Call& call, const protocol::TextRequest& request) {
    protocol::GetOp op;
    op.key = call.context.router.key(request.key);
    op.touch = call.context.seconds(request.exptime);
    ask_get<TouchCompletion>(call, op, NoReply{request.noreply});
}

}  // namespace farcached::daemon::text
