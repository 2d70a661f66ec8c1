// SPDX-License-Identifier: BSD-3-Clause
// mg and me.
#include "daemon/commands/meta_engine.h"
#include "protocol/meta.h"

namespace farcached::daemon::text {

namespace {

// The flags of a plain get: they need nothing that only the node has.
constexpr MetaSet plain_flags("bcCfkOqsv");

constexpr MetaSet shown_by_mg("kstcflh");

// Header and value of a hit, written behind the end of `out`; not committed before finish().
class MetaHit {
  public:
    explicit MetaHit(const Meta& meta) : meta_(meta) {}  // outlives this

    // lent: without room for the value.
    char* begin(const protocol::ItemMeta& item, int64_t ttl_s, bool lent = false) {
        OutBuffer& out = meta_.to.out;
        with_value_ = shows_value(item);
        size_t value_room = with_value_ && !lent ? size_t(item.value_len) + 2 : 0;
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
        if (!with_value_ || lent) return nullptr;
        end_ = at + item.value_len;
        return at;
    }
    // After begin() with `lent`, instead of finish(): sends the value from the cache's memory.
    void finish(BorrowedBytes&& value) {
        OutBuffer& out = meta_.to.out;
        out.commit(size_t(end_ - start_));
        if (!with_value_) return;
        out.append(std::move(value));
        out.append("\r\n");
    }
    // C: a client that names the item's CAS has the value already.
    template <class Item>
    bool shows_value(const Item& item) const {
        return meta_.flags.has('v') && !(meta_.flags.has('C') && item.cas == meta_.flags.cas_compare);
    }
    void finish() {
        if (with_value_) end_ = write_text(end_, "\r\n");
        meta_.to.out.commit(size_t(end_ - start_));
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

// `why`: not none for an item that this request created; it counts as a hit all the same.
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
    watch_get(context, meta.to.fd, meta.key, why, hit.size_class(), hit.value_len());
}

void get_miss(const Meta& meta, protocol::Miss why) {
    Context& context = meta.context();
    context.counters.get_cmds.add(1);
    context.counters.get_misses.add(1);
    count_miss(context, why);
    watch_get(context, meta.to.fd, meta.key, why, 0, 0);
    if (!meta.flags.has('q')) reply_bare(meta, "EN");
}

class MgCompletion {
  public:
    MgCompletion(const ReplyTarget& to, std::string_view key, const MetaRecord& asked, std::string_view)
        : meta_{to, key, asked.flags}, old_ttl_(old_ttl_s(to, asked)), hit_(meta_) {}
    bool wants_value() const { return meta_.flags.has('v'); }
    template <class ItemSeen>
    bool sends(const ItemSeen& item) const {
        return hit_.shows_value(item);
    }
    char* value_at(const fabric::ReadMeta& read) { return hit_.begin(proxy::item_meta(read), /* ttl_s= */ -1); }
    char* value_at(const protocol::ItemMeta& item) {
        return hit_.begin(item, old_ttl_ ? *old_ttl_ : ttl_of(item, meta_.context().now));
    }
    void value_lent(const protocol::ItemMeta& item, BorrowedBytes&& value) {
        hit_.begin(item, old_ttl_ ? *old_ttl_ : ttl_of(item, meta_.context().now), /* lent= */ true);
        hit_.finish(std::move(value));
        lent_ = true;
    }
    void refused() { say(meta_.to.out, "SERVER_ERROR out of memory writing get response"); }
    void done(const protocol::GetReply& reply) {
        if (reply.status != protocol::GetReply::Status::hit) return get_miss(meta_, reply.why);
        if (reply.vivified && meta_.flags.has('t')) hit_.begin(reply.meta, vivified_ttl(meta_));
        if (!lent_) hit_.finish();
        count_hit(meta_, hit_, reply.vivified ? protocol::Miss::absent : protocol::Miss::none);
    }
    void hit() {
        hit_.finish();
        count_hit(meta_, hit_, protocol::Miss::none);
    }
    void unavailable() {
        Context& context = meta_.context();
        if (only_changes()) {
            (meta_.flags.has('T') ? context.counters.cmd_touch : context.counters.get_cmds).add(1);
            return answer_unavailable(meta_.to, /* noreply= */ false);
        }
        context.counters.get_unavailable.add(1);
        if (!context.options.unavailable_is_error) return get_miss(meta_, protocol::Miss::absent);
        context.counters.get_cmds.add(1);
        say(meta_.to.out, unavailable_words);
    }

  private:
    // True for a mutation without `v`: as with a touch, an unavailable node is an error, not a miss. With `v` it fails like any
    // get.
    bool only_changes() const {
        const bool changes = meta_.flags.has('T') || meta_.flags.has('N') || meta_.flags.has('R');
        return changes && !meta_.flags.has('v');
    }

    const Meta meta_;
    std::optional<int64_t> old_ttl_;
    MetaHit hit_;
    bool lent_ = false;  // and written
};

}  // namespace

void run_mg(MetaCall& of) {
    const MetaFlags& flags = of.flags();
    const protocol::Key key = of.hashed_key();
    if (flags.set.within(plain_flags)) {
        ask_plain_get<MgCompletion>(of.call, key, /* tokens_matter= */ true, of.asked, flags.words);
        return;
    }
    const Meta meta = of.meta();
    ReplyContext carry;
    const Submitter asker{of.call.context, of.call.session, of.call.out, &carry};
    ask_old_ttl(asker, key, of.asked);
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
    ask_get<MgCompletion>(asker, op, of.asked, flags.words);
}

// ---- me ---------------------------------------------------------------------------------------

namespace {

class MeCompletion : Completing<NoRecord> {
  public:
    using Completing::Completing;
    bool wants_value() const { return false; }
    char* value_at(const protocol::ItemMeta&) { return nullptr; }
    void done(const protocol::GetReply& reply);
    void unavailable() {
        to_.context.counters.get_unavailable.add(1);
        say(to_.out, to_.context.options.unavailable_is_error ? unavailable_words : "EN");
    }
};

void MeCompletion::done(const protocol::GetReply& reply) {
    OutBuffer& out = to_.out;
    if (reply.status != protocol::GetReply::Status::hit) return say(out, "EN");
    const protocol::ItemMeta& item = reply.meta;
    const NodeSeconds now = to_.context.now;
    char* start = out.reserve(protocol::meta_reply_bytes_max + 256);
    char* at = write_text(start, "ME ");
    at = item.key_binary ? protocol::base64_encode(key_, at) : write_text(at, key_);
    at = write_text(at, " exp=");
    at = item.exptime == never_expires ? write_text(at, "-1")
                                       : write_number(at, uint64_t(seconds_left(item.exptime, now)));
    at = write_number(write_text(at, " la="), seconds_since(item.last_access, now));
    at = write_number(write_text(at, " cas="), item.cas);
    at = write_text(at, item.fetched ? " fetch=yes" : " fetch=no");
    at = write_number(write_text(at, " cls="), item.size_class);
    at = write_number(write_text(at, " size="), item.item_bytes);
    at = write_text(at, "\r\n");
    out.commit(size_t(at - start));
}

}  // namespace

void run_me(const MetaCall& of) {
    Context& context = of.call.context;
    context.counters.cmd_meta.add(1);
    protocol::GetOp op;
    op.key = of.hashed_key();
    op.peek = true;
    watch_lookup(of.call, op.key);
    ask_get<MeCompletion>(of.call, op, NoRecord());
}

}  // namespace farcached::daemon::text
