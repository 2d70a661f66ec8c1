// SPDX-License-Identifier: BSD-3-Clause
// The meta commands ms md ma, and the parts shared with mg and me. (mn only replies MN: replies are in order anyway.)
//
// Quiet mode (q) suppresses EN of mg and HD of ms, md and ma only; never an error.
#include "daemon/commands/meta_engine.h"

namespace farcached::daemon::text {

using protocol::StoreOp;
using protocol::TextVerb;

namespace {

constexpr MetaSet shown_by_ms("kcs");
constexpr MetaSet shown_by_ma("kct");

// The completion of a peek at the time left before a touch.
class TtlCompletion {
  public:
    TtlCompletion(const ReplyTarget& to, std::string_view, NoRecord, std::string_view) : to_(to) {
        to_.carry->ttl_s.reset();
    }
    bool wants_value() const { return false; }
    char* value_at(const protocol::ItemMeta&) { return nullptr; }
    void done(const protocol::GetReply& reply) {
        if (reply.status != protocol::GetReply::Status::hit) return;
        to_.carry->ttl_s = ttl_of(reply.meta, to_.context.now);
    }
    void unavailable() {}

  private:
    ReplyTarget to_;
};

}  // namespace

std::string_view flags_of_me(std::string_view words) {
    for (size_t at = 0; at < words.size(); at++) {
        bool begins = at == 0 || words[at - 1] == ' ';
        bool ends = at + 1 == words.size() || words[at + 1] == ' ';
        if (words[at] == 'b' && begins && ends) return "b";
    }
    return "";
}

void reply_line(const Meta& meta, std::string_view status, const MetaShown& shown) {
    OutBuffer& out = meta.to.out;
    char* start = out.reserve(status_bytes_max + protocol::meta_reply_bytes_max);
    char* at = write_text(start, status);
    at = write_meta_flags(at, meta.flags.words, shown);
    at = write_text(at, "\r\n");
    out.commit(size_t(at - start));
}

void reply_bare(const Meta& meta, std::string_view status) {
    MetaShown shown;
    shown.key = meta.key;
    shown.key_binary = meta.flags.has('b');
    shown.show = MetaSet("k");
    reply_line(meta, status, shown);
}

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

std::optional<NodeSeconds> vivify_exptime(const Meta& meta) {
    const bool touched_last = asked_before(meta.flags, 'N', 'T');
    return meta.seconds_if('N', touched_last ? meta.flags.ttl : meta.flags.vivify);
}

int64_t vivified_ttl(const Meta& meta) {
    const MetaFlags& flags = meta.flags;
    const bool touched = asked_before(flags, 'T', 't');
    const bool created = asked_before(flags, 'N', 't');
    if (!touched && !created) return -1;
    const bool by_touch = touched && (!created || asked_before(flags, 'N', 'T'));
    const NodeSeconds exptime = meta.seconds(by_touch ? flags.ttl : flags.vivify);
    return exptime == never_expires ? -1 : seconds_left(exptime, meta.context().now);
}

void ask_old_ttl(const Submitter& asker, const protocol::Key& key, MetaRecord& asked) {
    if (!asked_before(asked.flags, 't', 'T')) return;
    protocol::GetOp op;
    op.key = key;
    op.peek = true;
    asked.ttl_follows = !ask_get<TtlCompletion>(asker, op, NoRecord());
    asked.old_ttl_s = asker.carry->ttl_s;
}

namespace {

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

StoreOp store_op(const MetaCall& of) {
    const MetaFlags& flags = of.flags();
    const Meta meta = of.meta();
    StoreOp op;
    op.key = of.hashed_key();
    op.mode = mode_of(flags);
    op.flags = flags.client_flags;
    op.exptime = meta.seconds(flags.ttl);
    op.cas_set = meta.number_if('E', flags.cas_set);
    op.key_binary = flags.has('b');
    if (extends(op.mode)) op.vivify = meta.seconds_if('N', flags.vivify);
    if (op.mode == StoreOp::Mode::cas) {
        op.cas_compare = flags.cas_compare;
        op.invalidate = flags.has('I');
    } else if (extends(op.mode) && flags.cas_compare != 0) {
        op.cas_compare = flags.cas_compare;  // 0: no comparison
    }
    return op;
}

void reply_store(const Meta& meta, uint32_t value_bytes, const protocol::StoreReply& reply) {
    using Status = protocol::StoreReply::Status;
    std::string_view status;
    switch (reply.status) {
        case Status::stored: status = "HD"; break;
        case Status::exists: status = "EX"; break;
        case Status::not_found: status = "NF"; break;
        case Status::not_stored: status = "NS"; break;
        case Status::too_large:
            return say(meta.to.out, "SERVER_ERROR object too large for cache");
        case Status::no_memory:
            return say(meta.to.out, "SERVER_ERROR out of memory storing object");
    }
    bool stored = reply.status == Status::stored;
    if (stored && meta.flags.has('q')) return;
    protocol::ItemMeta item;
    item.cas = stored ? reply.cas : 0;
    item.value_len = stored ? reply.value_len : value_bytes;
    MetaShown shown;
    shown.item = &item;
    shown.key = meta.key;
    shown.key_binary = meta.flags.has('b');
    shown.show = shown_by_ms;
    reply_line(meta, status, shown);
}

// The base of the completions of ms, md and ma.
class MetaMutation {
  public:
    MetaMutation(const ReplyTarget& to, std::string_view key, const MetaRecord& asked, std::string_view)
        : meta_{to, key, asked.flags}, asked_(asked) {}
    void unavailable() { answer_unavailable(meta_.to, /* noreply= */ false); }

  protected:
    const Meta meta_;
    const MetaRecord& asked_;
};

struct MsCompletion : MetaMutation {
    using MetaMutation::MetaMutation;
    void done(protocol::StoreReply& reply) {
        count_store(meta_.context(), meta_.to.fd, meta_.key, asked_.shown, reply);
        reply_store(meta_, asked_.shown.value_bytes, reply);
    }
};

Step run_ms(Call& call, const protocol::TextParse& parse) {
    const protocol::TextRequest& request = parse.request;
    MetaCall of(call, request);
    if (!of.flags().error.empty()) {
        call.progress.consumed += parse.line_bytes;
        call.session.swallow = request.value_bytes + 2;
        say(call.out, of.flags().error);
        return Step::done;
    }
    if (call.context.router.too_large(of.key.size(), request.value_bytes)) {
        call.progress.consumed += parse.line_bytes;
        // In every mode, unlike the classic commands.
        refuse_too_large(call, store_op(of), /* forget= */ true, request.value_bytes);
        say(call.out, "SERVER_ERROR object too large for cache");
        return Step::done;
    }
    const protocol::ValueParse value = take_value(call, parse, of.key);
    if (value.status == protocol::ValueParse::Status::need_more) return Step::wait;
    call.progress.consumed += value.total_bytes;
    if (value.status == protocol::ValueParse::Status::bad_chunk) {
        count_bad_chunk(call.context, of.key, request.value_bytes);
        say(call.out, "CLIENT_ERROR bad data chunk");
        return Step::done;
    }
    StoreOp op = store_op(of);
    op.value = value.value;
    op.forget = true;  // in every mode, unlike the classic commands
    watch_lookup(call, op.key);
    if (extends(op.mode)) call.context.router.record_accesses(call.context.now);
    of.asked.shown = shown_of(op);
    ask<MsCompletion>(call, op, of.asked, of.flags().words);
    return Step::done;
}

// ---- md, ma -----------------------------------------------------------------------------------

struct MdCompletion : MetaMutation {
    using MetaMutation::MetaMutation;
    void done(const protocol::DeleteReply& reply) {
        using Status = protocol::DeleteReply::Status;
        Context& context = meta_.context();
        switch (reply.status) {
            case Status::deleted:
                if (!meta_.flags.has('I')) {
                    class_counters(context, reply.size_class).delete_hits.add(1);
                    watch_delete(context, meta_.key, "md", reply);
                }
                if (!meta_.flags.has('q')) reply_bare(meta_, "HD");
                return;
            case Status::not_found:
            case Status::exists:
                context.counters.delete_misses.add(1);
                return reply_bare(meta_, reply.status == Status::exists ? "EX" : "NF");
        }
    }
};

void run_md(const MetaCall& of) {
    const MetaFlags& flags = of.flags();
    const Meta meta = of.meta();
    protocol::DeleteOp op;
    op.key = of.hashed_key();
    op.cas_compare = meta.number_if('C', flags.cas_compare);
    op.cas_set = meta.number_if('E', flags.cas_set);
    op.touch = meta.seconds_if('T', flags.ttl);
    op.invalidate = flags.has('I');
    op.remove_value = flags.has('x');
    watch_lookup(of.call, op.key);
    if (op.invalidate) of.call.context.router.record_accesses(of.call.context.now);
    ask<MdCompletion>(of.call, op, of.asked, flags.words);
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
    if (with_value) say(meta.to.out, std::string_view(digits, size));
}

bool decrements(const MetaFlags& flags) { return flags.mode == 'D' || flags.mode == '-'; }

struct MaCompletion : MetaMutation {
    using MetaMutation::MetaMutation;
    void done(const protocol::ArithReply& reply);
};

void MaCompletion::done(const protocol::ArithReply& reply) {
    using Status = protocol::ArithReply::Status;
    Context& context = meta_.context();
    OutBuffer& out = meta_.to.out;
    std::optional<int64_t> ttl_s = old_ttl_s(meta_.to, asked_);
    count_arith(context, decrements(meta_.flags), reply);
    switch (reply.status) {
        case Status::vivified:
            // memcached sets the exptime after the store that watchers see.
            watch_created(context, meta_.to.fd, meta_.key, reply, never_expires);
            ttl_s = vivified_ttl(meta_);
            if (meta_.flags.has('q')) return;
            break;
        case Status::ok:
            if (meta_.flags.has('q')) return;
            break;
        case Status::not_found: return reply_bare(meta_, "NF");
        case Status::exists: return reply_bare(meta_, "EX");
        case Status::non_numeric:
            return say(out, "CLIENT_ERROR cannot increment or decrement non-numeric value");
        case Status::no_memory: return say(out, "SERVER_ERROR out of memory");
    }
    reply_number(meta_, reply, ttl_s ? *ttl_s : ttl_of(reply.meta, context.now));
}

void run_ma(MetaCall& of) {
    const MetaFlags& flags = of.flags();
    const Meta meta = of.meta();
    protocol::ArithOp op;
    op.key = of.hashed_key();
    op.decrement = decrements(flags);
    op.delta = flags.delta;
    op.vivify = vivify_exptime(meta);
    op.initial = flags.initial;
    if (flags.cas_compare != 0) op.cas_compare = flags.cas_compare;  // 0: no comparison
    op.cas_set = meta.number_if('E', flags.cas_set);
    op.touch = meta.seconds_if('T', flags.ttl);
    op.key_binary = flags.has('b');
    watch_lookup(of.call, op.key);
    ReplyContext carry;
    const Submitter asker{of.call.context, of.call.session, of.call.out, &carry};
    ask_old_ttl(asker, op.key, of.asked);
    asker.context.router.record_accesses(asker.context.now);
    ask<MaCompletion>(asker, op, of.asked, flags.words);
}

}  // namespace

Step run_meta(Call& call, const protocol::TextParse& parse) {
    TextVerb verb = parse.request.verb;
    if (verb == TextVerb::ms) return run_ms(call, parse);
    call.progress.consumed += parse.line_bytes;
    MetaCall of(call, parse.request);
    if (!of.flags().error.empty()) {
        say(call.out, verb == TextVerb::me ? protocol::bad_format : of.flags().error);
        return Step::done;
    }
    switch (verb) {
        case TextVerb::mg: run_mg(of); break;
        case TextVerb::md: run_md(of); break;
        case TextVerb::ma: run_ma(of); break;
        default: run_me(of); break;
    }
    return Step::done;
}

}  // namespace farcached::daemon::text
