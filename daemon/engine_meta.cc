// SPDX-License-Identifier: BSD-3-Clause
// The meta commands: mg ms md ma me. (mn says MN, and that is all: replies are in order anyway.)
//
// Quiet mode (q) leaves out EN of mg and HD of ms, md and ma; nothing else, and never an error.
#include <cstring>

#include "daemon/engine_text.h"
#include "daemon/engine_watch.h"
#include "protocol/base64.h"
#include "protocol/meta.h"

namespace farcached::daemon::text {

namespace {

using protocol::MetaFlags;
using protocol::MetaSet;
using protocol::MetaShown;
using protocol::StoreOp;
using protocol::TextVerb;

// Flags that a lock-free read can answer: they need nothing that only the node knows.
constexpr MetaSet lock_free_flags("bcfkOqsv");

constexpr MetaSet shown_by_mg("kstcflh");
constexpr MetaSet shown_by_ms("kcs");
constexpr MetaSet shown_by_ma("kct");

constexpr size_t status_bytes_max = 3 + 10;  // "VA ", length

// me knows one flag and minds no other.
std::string_view flags_of_me(std::string_view words) {
    for (size_t at = 0; at < words.size(); at++) {
        bool begins = at == 0 || words[at - 1] == ' ';
        bool ends = at + 1 == words.size() || words[at + 1] == ' ';
        if (words[at] == 'b' && begins && ends) return "b";
    }
    return "";
}

// One meta command while it is executed. `key` is decoded if it was base64.
struct Meta {
    Call& call;
    std::string_view key;
    MetaFlags flags;
    char decoded[limits::key_bytes_max];

    Meta(Call& c, const protocol::TextRequest& request) : call(c), key(request.key) {
        std::string_view words =
            request.verb == TextVerb::me ? flags_of_me(request.args) : request.args;
        flags = protocol::parse_meta_flags(request.verb, words, key, decoded);
    }
    Context& context() const { return call.context; }
    int fd() const { return call.session.fd; }
    NodeSeconds seconds(int64_t exptime) const { return call.context.seconds(exptime); }
    std::optional<NodeSeconds> seconds_if(char letter, int64_t exptime) const {
        if (!flags.has(letter)) return std::nullopt;
        return seconds(exptime);
    }
    std::optional<uint64_t> number_if(char letter, uint64_t number) const {
        if (!flags.has(letter)) return std::nullopt;
        return number;
    }
};

char* write_text(char* to, std::string_view text) {
    std::memcpy(to, text.data(), text.size());
    return to + text.size();
}

int64_t ttl_of(const protocol::ItemMeta& item, NodeSeconds now) {
    return item.exptime == never_expires ? -1 : seconds_left(item.exptime, now);
}

// A reply of one line: a status, the flags asked for.
void reply_line(const Meta& meta, std::string_view status, const MetaShown& shown) {
    OutBuffer& out = meta.call.out;
    char* start = out.reserve(status_bytes_max + protocol::meta_reply_bytes_max);
    char* at = write_text(start, status);
    at = write_meta_flags(at, meta.flags.words, shown);
    at = write_text(at, "\r\n");
    out.commit(size_t(at - start));
}

// Without an item: only the key, as it was given, and the opaque.
void reply_bare(const Meta& meta, std::string_view status) {
    MetaShown shown;
    shown.key = meta.key;
    shown.key_binary = meta.flags.has('b');
    shown.show = MetaSet("k");
    reply_line(meta, status, shown);
}

// ---- mg ---------------------------------------------------------------------------------------

// The header and value of a hit, written behind the end of `out`; not there before finish().
class MetaHit {
  public:
    explicit MetaHit(const Meta& meta) : meta_(meta) {}

    char* begin(const protocol::ItemMeta& item, int64_t ttl_s) {
        OutBuffer& out = meta_.call.out;
        with_value_ = meta_.flags.has('v');
        size_t value_room = with_value_ ? size_t(item.value_len) + 2 : 0;
        start_ = out.reserve(status_bytes_max + protocol::meta_reply_bytes_max + value_room);
        char* at = start_;
        if (with_value_) {
            at = write_number(write_text(at, "VA "), item.value_len);
        } else {
            at = write_text(at, "HD");
        }
        MetaShown shown;
        shown.item = &item;
        shown.key = meta_.key;
        shown.key_binary = item.key_binary;
        shown.show = shown_by_mg;
        shown.ttl_s = ttl_s;
        shown.idle_s = seconds_since(item.last_access, meta_.context().now);
        at = write_meta_flags(at, meta_.flags.words, shown);
        if (item.win_sent) at = write_text(at, " Z");
        if (item.stale) at = write_text(at, " X");
        if (item.win) at = write_text(at, " W");
        at = write_text(at, "\r\n");
        end_ = at;
        value_len_ = item.value_len;
        size_class_ = item.size_class;
        if (!with_value_) return nullptr;
        end_ = at + item.value_len;
        return at;
    }
    void finish() {
        if (with_value_) end_ = write_text(end_, "\r\n");
        meta_.call.out.commit(size_t(end_ - start_));
    }
    uint32_t value_len() const { return value_len_; }
    uint8_t size_class() const { return size_class_; }

  private:
    const Meta& meta_;
    bool with_value_ = false;
    uint8_t size_class_ = 0;
    uint32_t value_len_ = 0;
    char* start_ = nullptr;
    char* end_ = nullptr;
};

// `why`: not none for what this very request created; it counts as a hit all the same.
void count_hit(const Meta& meta, const MetaHit& hit, protocol::Miss why) {
    Context& context = meta.context();
    ClassCounters& counters = class_counters(context, hit.size_class());
    if (meta.flags.has('T')) {
        context.counters.cmd_touch.add(1);
        counters.touch_hits.add(1);
    } else {
        context.counters.get_cmds.add(1);
        counters.get_hits.add(1);
    }
    watch_get(context, meta.fd(), meta.key, why, hit.size_class(), hit.value_len());
}

bool get_lock_free(const Meta& meta, uint64_t hash) {
    Context& context = meta.context();
    if (context.local.accesses_full()) context.record_accesses();
    MetaHit hit(meta);
    auto sink = [&](const fabric::ReadMeta& read) {
        protocol::ItemMeta item;
        item.cas = read.cas;
        item.value_len = read.value_len;
        item.flags = read.flags;
        item.size_class = read.size_class;
        item.key_binary = read.key_binary;
        return hit.begin(item, /* ttl_s= */ -1);
    };
    fabric::Outcome outcome = context.local.read(meta.key, hash, context.now,
                                                 /* tokens_matter= */ true,
                                                 /* count_access= */ true, sink);
    if (outcome != fabric::Outcome::hit) return false;
    hit.finish();
    count_hit(meta, hit, protocol::Miss::none);
    return true;
}

// Is `first` asked for before `second`? Flags take effect, and are shown, in the order of the
// request.
bool asked_before(const MetaFlags& flags, char first, char second) {
    if (!flags.has(first)) return false;
    if (!flags.has(second)) return false;
    char before = ' ';
    for (char c : flags.words) {
        if (before == ' ' && c == first) return true;
        if (before == ' ' && c == second) return false;
        before = c;
    }
    return false;
}

// `t` before `T` shows the time left before this very touch.
std::optional<int64_t> ttl_before_touch(const Meta& meta, const protocol::Key& key) {
    if (!asked_before(meta.flags, 't', 'T')) return std::nullopt;
    protocol::GetOp op;
    op.key = key;
    op.peek = true;
    auto sink = [](const protocol::ItemMeta&) -> char* { return nullptr; };
    protocol::GetReply reply = meta.context().node.get(op, meta.context().now, sink);
    if (reply.status != protocol::GetReply::Status::hit) return std::nullopt;
    return ttl_of(reply.meta, meta.context().now);
}

// When what N creates shall expire: N and T take effect in the order of the request.
std::optional<NodeSeconds> vivify_exptime(const Meta& meta) {
    const bool touched_last = asked_before(meta.flags, 'N', 'T');
    return meta.seconds_if('N', touched_last ? meta.flags.ttl : meta.flags.vivify);
}

// And what `t` shows of it: before N and T, of an item that never expires.
int64_t vivified_ttl(const Meta& meta) {
    const MetaFlags& flags = meta.flags;
    const bool touched = asked_before(flags, 'T', 't');
    const bool created = asked_before(flags, 'N', 't');
    if (!touched && !created) return -1;
    const bool by_touch = touched && (!created || asked_before(flags, 'N', 'T'));
    const NodeSeconds exptime = meta.seconds(by_touch ? flags.ttl : flags.vivify);
    return exptime == never_expires ? -1 : seconds_left(exptime, meta.context().now);
}

void get_miss(const Meta& meta, protocol::Miss why) {
    Context& context = meta.context();
    context.counters.get_cmds.add(1);
    context.counters.get_misses.add(1);
    count_miss(context, why);
    watch_get(context, meta.fd(), meta.key, why, 0, 0);
    if (!meta.flags.has('q')) reply_bare(meta, "EN");
}

void run_mg(const Meta& meta) {
    Context& context = meta.context();
    const MetaFlags& flags = meta.flags;
    protocol::Key key = key_of(context, meta.key);
    if (flags.set.within(lock_free_flags) && get_lock_free(meta, key.hash)) return;
    if (!flags.set.within(lock_free_flags)) context.record_accesses();
    std::optional<int64_t> old_ttl = ttl_before_touch(meta, key);
    protocol::GetOp op;
    op.key = key;
    op.no_bump = flags.has('u');
    op.win_tokens = true;
    op.touch = meta.seconds_if('T', flags.ttl);
    op.vivify = vivify_exptime(meta);
    op.recache_before = meta.seconds_if('R', flags.recache);
    op.recache_first = asked_before(flags, 'R', 'T');
    op.cas_set = meta.number_if('E', flags.cas_set);
    op.key_binary = flags.has('b');
    MetaHit hit(meta);
    auto sink = [&](const protocol::ItemMeta& item) {
        return hit.begin(item, old_ttl ? *old_ttl : ttl_of(item, context.now));
    };
    protocol::GetReply reply = context.node.get(op, context.now, sink);
    if (reply.status != protocol::GetReply::Status::hit) return get_miss(meta, reply.why);
    if (reply.vivified && flags.has('t')) hit.begin(reply.meta, vivified_ttl(meta));
    hit.finish();
    count_hit(meta, hit, reply.vivified ? protocol::Miss::absent : protocol::Miss::none);
}

// ---- me ---------------------------------------------------------------------------------------

void run_me(const Meta& meta) {
    Context& context = meta.context();
    OutBuffer& out = meta.call.out;
    context.counters.cmd_meta.add(1);
    context.record_accesses();
    protocol::GetOp op;
    op.key = key_of(context, meta.key);
    op.peek = true;
    watch_lookup(context, meta.fd(), op.key);
    auto sink = [](const protocol::ItemMeta&) -> char* { return nullptr; };
    protocol::GetReply reply = context.node.get(op, context.now, sink);
    if (reply.status != protocol::GetReply::Status::hit) return say(out, "EN");
    const protocol::ItemMeta& item = reply.meta;
    char* start = out.reserve(protocol::meta_reply_bytes_max + 256);
    char* at = write_text(start, "ME ");
    at = item.key_binary ? protocol::base64_encode(meta.key, at) : write_text(at, meta.key);
    at = write_text(at, " exp=");
    at = item.exptime == never_expires
             ? write_text(at, "-1")
             : write_number(at, uint64_t(seconds_left(item.exptime, context.now)));
    at = write_number(write_text(at, " la="), seconds_since(item.last_access, context.now));
    at = write_number(write_text(at, " cas="), item.cas);
    at = write_text(at, item.fetched ? " fetch=yes" : " fetch=no");
    at = write_number(write_text(at, " cls="), item.size_class);
    at = write_number(write_text(at, " size="), item.item_bytes);
    at = write_text(at, "\r\n");
    out.commit(size_t(at - start));
}

// ---- ms ---------------------------------------------------------------------------------------

StoreOp::Mode mode_of(const MetaFlags& flags) {
    StoreOp::Mode mode = StoreOp::Mode::set;
    switch (flags.mode) {
        case 'E': return StoreOp::Mode::add;
        case 'A': return StoreOp::Mode::append;
        case 'P': return StoreOp::Mode::prepend;
        case 'R': mode = StoreOp::Mode::replace; break;
        default: break;
    }
    return flags.has('C') ? StoreOp::Mode::cas : mode;
}

StoreOp store_op(const Meta& meta) {
    const MetaFlags& flags = meta.flags;
    StoreOp op;
    op.key = key_of(meta.context(), meta.key);
    op.mode = mode_of(flags);
    op.flags = flags.client_flags;
    op.exptime = meta.seconds(flags.ttl);
    op.cas_set = meta.number_if('E', flags.cas_set);
    op.key_binary = flags.has('b');
    bool extends = op.mode == StoreOp::Mode::append || op.mode == StoreOp::Mode::prepend;
    if (extends) op.vivify = meta.seconds_if('N', flags.vivify);
    if (op.mode == StoreOp::Mode::cas) {
        op.cas_compare = flags.cas_compare;
        op.invalidate = flags.has('I');
    } else if (extends && flags.cas_compare != 0) {
        op.cas_compare = flags.cas_compare;  // 0 compares with nothing
    }
    return op;
}

void reply_store(const Meta& meta, const StoreOp& op, const protocol::StoreReply& reply) {
    using Status = protocol::StoreReply::Status;
    std::string_view status;
    switch (reply.status) {
        case Status::stored: status = "HD"; break;
        case Status::exists: status = "EX"; break;
        case Status::not_found: status = "NF"; break;
        case Status::not_stored: status = "NS"; break;
        case Status::too_large:
            return say(meta.call.out, "SERVER_ERROR object too large for cache");
        case Status::no_memory:
            return say(meta.call.out, "SERVER_ERROR out of memory storing object");
    }
    bool stored = reply.status == Status::stored;
    if (stored && meta.flags.has('q')) return;
    protocol::ItemMeta item;
    item.cas = stored ? reply.cas : 0;
    item.value_len = stored ? reply.value_len : uint32_t(op.value.size());
    MetaShown shown;
    shown.item = &item;
    shown.key = meta.key;
    shown.key_binary = op.key_binary;
    shown.show = shown_by_ms;
    reply_line(meta, status, shown);
}

Turn run_ms(Call& call, const protocol::TextParse& parse) {
    const protocol::TextRequest& request = parse.request;
    Meta meta(call, request);
    if (!meta.flags.error.empty()) {
        call.progress.consumed += parse.line_bytes;
        call.session.swallow = uint64_t(request.value_bytes) + 2;
        say(call.out, meta.flags.error);
        return Turn::done;
    }
    if (call.context.node.too_large(meta.key.size(), request.value_bytes)) {
        call.progress.consumed += parse.line_bytes;
        // Unlike the classic commands, whatever the mode.
        refuse_too_large(call, store_op(meta), /* forget= */ true, request.value_bytes);
        say(call.out, "SERVER_ERROR object too large for cache");
        return Turn::done;
    }
    protocol::ValueParse value =
        protocol::parse_value(call.input, parse.line_bytes, request.value_bytes);
    if (value.status == protocol::ValueParse::Status::need_more) {
        call.progress.want = value.total_bytes;
        return Turn::wait;
    }
    call.progress.consumed += value.total_bytes;
    if (value.status == protocol::ValueParse::Status::bad_chunk) {
        count_bad_chunk(call.context, meta.key, request.value_bytes);
        say(call.out, "CLIENT_ERROR bad data chunk");
        return Turn::done;
    }
    StoreOp op = store_op(meta);
    op.value = value.value;
    // Unlike the classic commands, whatever the mode.
    reply_store(meta, op, execute_store(call, op, /* forget= */ true));
    return Turn::done;
}

// ---- md, ma -----------------------------------------------------------------------------------

void run_md(const Meta& meta) {
    using Status = protocol::DeleteReply::Status;
    Context& context = meta.context();
    const MetaFlags& flags = meta.flags;
    protocol::DeleteOp op;
    op.key = key_of(context, meta.key);
    op.cas_compare = meta.number_if('C', flags.cas_compare);
    op.cas_set = meta.number_if('E', flags.cas_set);
    op.touch = meta.seconds_if('T', flags.ttl);
    op.invalidate = flags.has('I');
    op.remove_value = flags.has('x');
    watch_lookup(context, meta.fd(), op.key);
    if (op.invalidate) context.record_accesses();
    protocol::DeleteReply reply = context.node.remove(op, context.now);
    switch (reply.status) {
        case Status::deleted:
            if (!op.invalidate) {
                class_counters(context, reply.size_class).delete_hits.add(1);
                watch_delete(context, meta.fd(), meta.key, "md", reply);
            }
            if (!flags.has('q')) reply_bare(meta, "HD");
            return;
        case Status::not_found:
        case Status::exists:
            context.counters.delete_misses.add(1);
            return reply_bare(meta, reply.status == Status::exists ? "EX" : "NF");
    }
}

void reply_number(const Meta& meta, const protocol::ArithReply& reply, int64_t ttl_s) {
    char digits[20];
    size_t size = size_t(write_number(digits, reply.value) - digits);
    char status[status_bytes_max];
    char* end = write_text(status, "HD");
    bool with_value = meta.flags.has('v');
    if (with_value) end = write_number(write_text(status, "VA "), size);
    MetaShown shown;
    shown.item = &reply.meta;
    shown.key = meta.key;
    shown.key_binary = meta.flags.has('b');
    shown.show = shown_by_ma;
    shown.ttl_s = ttl_s;
    reply_line(meta, std::string_view(status, size_t(end - status)), shown);
    if (with_value) say(meta.call.out, std::string_view(digits, size));
}

void run_ma(const Meta& meta) {
    using Status = protocol::ArithReply::Status;
    Context& context = meta.context();
    const MetaFlags& flags = meta.flags;
    protocol::ArithOp op;
    op.key = key_of(context, meta.key);
    op.decrement = flags.mode == 'D' || flags.mode == '-';
    op.delta = flags.delta;
    op.vivify = vivify_exptime(meta);
    op.initial = flags.initial;
    if (flags.cas_compare != 0) op.cas_compare = flags.cas_compare;  // 0 compares with nothing
    op.cas_set = meta.number_if('E', flags.cas_set);
    op.touch = meta.seconds_if('T', flags.ttl);
    op.key_binary = flags.has('b');
    watch_lookup(context, meta.fd(), op.key);
    std::optional<int64_t> old_ttl = ttl_before_touch(meta, op.key);
    context.record_accesses();
    protocol::ArithReply reply = context.node.arith(op, context.now);
    count_arith(meta.call, op.decrement, reply);
    switch (reply.status) {
        case Status::vivified:
            // memcached sets the exptime after the store that watchers see.
            watch_created(context, meta.fd(), op, reply, never_expires);
            old_ttl = vivified_ttl(meta);
            break;  // which q does not silence
        case Status::ok:
            if (flags.has('q')) return;
            break;
        case Status::not_found: return reply_bare(meta, "NF");
        case Status::exists: return reply_bare(meta, "EX");
        case Status::non_numeric:
            return say(meta.call.out,
                       "CLIENT_ERROR cannot increment or decrement non-numeric value");
        case Status::no_memory: return say(meta.call.out, "SERVER_ERROR out of memory");
    }
    reply_number(meta, reply, old_ttl ? *old_ttl : ttl_of(reply.meta, context.now));
}

}  // namespace

Turn run_meta(Call& call, const protocol::TextParse& parse) {
    TextVerb verb = parse.request.verb;
    if (verb == TextVerb::ms) return run_ms(call, parse);
    call.progress.consumed += parse.line_bytes;
    Meta meta(call, parse.request);
    if (!meta.flags.error.empty()) {
        say(call.out, verb == TextVerb::me ? protocol::bad_format : meta.flags.error);
        return Turn::done;
    }
    switch (verb) {
        case TextVerb::mg: run_mg(meta); break;
        case TextVerb::md: run_md(meta); break;
        case TextVerb::ma: run_ma(meta); break;
        default: run_me(meta); break;
    }
    return Turn::done;
}

}  // namespace farcached::daemon::text
