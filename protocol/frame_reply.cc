// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/frame_reply.h"

#include "base/check.h"
#include "base/limits.h"
#include "protocol/handshake.h"
#include "protocol/spilled.h"

namespace farcached::protocol {

namespace {

constexpr uint32_t bit(ReplyFlag flag) { return uint32_t(flag); }
constexpr uint32_t bit_if(bool set, ReplyFlag flag) { return set ? bit(flag) : 0; }
constexpr uint8_t bit_if(bool set, MetaBit flag) { return set ? uint8_t(flag) : 0; }

bool is(const ReplyHeader& header, ReplyFlag flag) { return (header.flags & bit(flag)) != 0; }
bool is_hit(const ReplyHeader& header) {
    return header.kind == uint8_t(ReplyKind::get) && header.status == uint8_t(GetReply::Status::hit);
}

// Of a hit, a stored item, or a changed number.
bool may_grant(ReplyKind kind, uint8_t status) {
    switch (kind) {
        case ReplyKind::get: return status == uint8_t(GetReply::Status::hit);
        case ReplyKind::store: return status == uint8_t(StoreReply::Status::stored);
        case ReplyKind::arith: return status == uint8_t(ArithReply::Status::ok) || status == uint8_t(ArithReply::Status::vivified);
        default: return false;
    }
}
bool may_grant(const ReplyHeader& header) { return may_grant(ReplyKind(header.kind), header.status); }

// ---- writing ----------------------------------------------------------------------------------------

uint32_t value_flags(ValueForm form) {
    return bit_if(form == ValueForm::follows, ReplyFlag::value_follows);
}

MetaRecord record_of(const ItemMeta& meta) {
    const uint8_t bits =
        uint8_t(bit_if(meta.fetched, MetaBit::fetched) | bit_if(meta.stale, MetaBit::stale) |
                bit_if(meta.win, MetaBit::win) | bit_if(meta.win_sent, MetaBit::win_sent) |
                bit_if(meta.key_binary, MetaBit::key_binary));
    return {meta.cas,
            meta.flags,
            meta.item_bytes,
            meta.exptime,
            meta.last_access,
            meta.value_len,
            meta.size_class,
            bits,
            0};
}

// Without a value.
ReplyHeader header_of(ReplyKind kind, uint8_t status, const ReplyOptions& options) {
    const bool may = may_grant(kind, status);
    return {uint8_t(kind), status, 0, uint8_t(may ? options.denied : LeaseDenial::none),
            bit_if(may && options.has_grant_record(), ReplyFlag::grant), 0, options.tag};
}

char* put_grant(char* to, const ReplyHeader& header, const ReplyOptions& options) {
    if (!is(header, ReplyFlag::grant)) return to;
    if (!options.grant.has_value()) return wire::put(to, GrantRecord{});
    const Grant& grant = *options.grant;
    CHECK(grant.term_ms != 0);
    CHECK(is(header, ReplyFlag::grant_elsewhere) == options.elsewhere());
    to = wire::put(to, GrantRecord{grant.offset, grant.generation, grant.region, grant.length, grant.term_ms, grant.capacity});
    return options.elsewhere() ? wire::put(to, grant.incarnation) : to;
}

// Of a reply that sends its record with any status.
template <class Record, class Status>
size_t record_head_bytes(ReplyKind kind, Status status, const ReplyOptions& options) {
    const bool grant = may_grant(kind, uint8_t(status)) && options.has_grant_record();
    return sizeof(ReplyHeader) + sizeof(Record) + (grant ? sizeof(GrantRecord) : 0);
}

}  // namespace

size_t reply_head_bytes(const GetReply& reply, const ReplyOptions& options) {
    if (reply.status != GetReply::Status::hit) return sizeof(ReplyHeader);
    return hit_head_bytes(options.has_grant_record(), options.elsewhere());
}
size_t reply_head_bytes(const StoreReply& reply, const ReplyOptions& options) {
    return record_head_bytes<StoredRecord>(ReplyKind::store, reply.status, options);
}
size_t reply_head_bytes(const DeleteReply&, const ReplyOptions&) {
    return sizeof(ReplyHeader) + sizeof(RemovedRecord);
}
size_t reply_head_bytes(const ArithReply& reply, const ReplyOptions& options) {
    return record_head_bytes<ArithReplyRecord>(ReplyKind::arith, reply.status, options);
}
size_t reply_head_bytes(const DoneReply&, const ReplyOptions&) { return sizeof(ReplyHeader); }
size_t reply_head_bytes(const StatsReply&, const ReplyOptions&) { return sizeof(ReplyHeader); }
size_t reply_head_bytes(const RefusedReply&, const ReplyOptions&) { return sizeof(ReplyHeader); }

char* write_reply_head(char* to, const GetReply& reply, const ReplyOptions& options) {
    ReplyHeader header = header_of(ReplyKind::get, uint8_t(reply.status), options);
    header.miss = uint8_t(reply.why);
    header.flags |= bit_if(reply.vivified, ReplyFlag::vivified);
    if (!is_hit(header)) return wire::put(to, header);
    const bool has_value = options.value != ValueForm::none;
    header.flags |= bit_if(!has_value, ReplyFlag::no_value) | value_flags(options.value) |
                    bit_if(options.elsewhere(), ReplyFlag::grant_elsewhere);
    header.value_len = has_value ? reply.meta.value_len : 0;
    to = wire::put(to, header);
    to = wire::put(to, record_of(reply.meta));
    return put_grant(to, header, options);
}

char* write_reply_head(char* to, const StoreReply& reply, const ReplyOptions& options) {
    const ReplyHeader header = header_of(ReplyKind::store, uint8_t(reply.status), options);
    to = wire::put(to, header);
    to = wire::put(to, StoredRecord{reply.cas, reply.item_bytes, reply.value_len, reply.exptime, reply.size_class, {}});
    return put_grant(to, header, options);
}

char* write_reply_head(char* to, const DeleteReply& reply, const ReplyOptions& options) {
    to = wire::put(to, header_of(ReplyKind::remove, uint8_t(reply.status), options));
    return wire::put(to, RemovedRecord{reply.item_bytes, reply.size_class, {}});
}

char* write_reply_head(char* to, const ArithReply& reply, const ReplyOptions& options) {
    const ReplyHeader header = header_of(ReplyKind::arith, uint8_t(reply.status), options);
    to = wire::put(to, header);
    to = wire::put(to, ArithReplyRecord{reply.value, record_of(reply.meta)});
    return put_grant(to, header, options);
}

char* write_reply_head(char* to, const DoneReply&, const ReplyOptions& options) {
    return wire::put(to, header_of(ReplyKind::done, 0, options));
}

char* write_reply_head(char* to, const RefusedReply& reply, const ReplyOptions& options) {
    CHECK(reply.reason < RequestRefusal::count);
    return wire::put(to, header_of(ReplyKind::refused, uint8_t(reply.reason), options));
}

char* write_stats_head(char* to, uint32_t text_bytes, const ReplyOptions& options) {
    CHECK(text_bytes <= stats_bytes_max);
    CHECK((text_bytes == 0) == (options.value == ValueForm::none));
    return wire::put(to, ReplyHeader{uint8_t(ReplyKind::stats), 0, 0, 0, value_flags(options.value),
                                     text_bytes, options.tag});
}

// ---- reading ----------------------------------------------------------------------------------------

namespace {

struct ReplyRule {
    uint8_t statuses = 1;       // 0 .. statuses - 1
    uint32_t record_bytes = 0;  // of a get: of a hit
    uint32_t flags = 0;         // the allowed ones
};

constexpr uint32_t get_flags =
    bit(ReplyFlag::vivified) | bit(ReplyFlag::grant) | bit(ReplyFlag::value_follows) | bit(ReplyFlag::no_value) |
    bit(ReplyFlag::grant_elsewhere);

// By ReplyKind.
constexpr ReplyRule reply_rules[] = {
    {},
    {uint8_t(GetReply::Status::no_memory) + 1, sizeof(MetaRecord), get_flags},             // get
    {uint8_t(StoreReply::Status::no_memory) + 1, sizeof(StoredRecord), bit(ReplyFlag::grant)},  // store
    {uint8_t(DeleteReply::Status::exists) + 1, sizeof(RemovedRecord), 0},                  // remove
    {uint8_t(ArithReply::Status::no_memory) + 1, sizeof(ArithReplyRecord), bit(ReplyFlag::grant)},  // arith
    {1, 0, 0},                                                                             // done
    {1, 0, bit(ReplyFlag::value_follows)},                                                      // stats
    {uint8_t(RequestRefusal::count), 0, 0},  // refused
};
constexpr size_t reply_rules_known = sizeof reply_rules / sizeof reply_rules[0];
static_assert(reply_rules_known == size_t(ReplyKind::refused) + 1);

FrameError judge_value(const ReplyHeader& header, uint64_t value_bytes_max) {
    const bool stats = header.kind == uint8_t(ReplyKind::stats);
    if (!stats && !is_hit(header)) {
        if (header.value_len != 0) return FrameError::value_unexpected;
        constexpr uint32_t of_a_hit = bit(ReplyFlag::value_follows) | bit(ReplyFlag::no_value);
        return (header.flags & of_a_hit) == 0 ? FrameError::none : FrameError::flag_unknown;
    }
    if (is(header, ReplyFlag::value_follows) && header.value_len == 0)
        return FrameError::value_unexpected;
    if (is(header, ReplyFlag::no_value) && header.value_len != 0) return FrameError::value_unexpected;
    const uint64_t most = stats ? stats_bytes_max : value_bytes_max;
    return header.value_len <= most ? FrameError::none : FrameError::value_too_long;
}

// Checks a header alone.
FrameError judge(const ReplyHeader& header, uint32_t version, uint64_t value_bytes_max) {
    if (header.kind == 0 || header.kind >= reply_rules_known) return FrameError::op_unknown;
    const ReplyRule& rule = reply_rules[header.kind];
    if (header.status >= rule.statuses) return FrameError::status_unknown;
    if (header.miss > uint8_t(Miss::flushed)) return FrameError::status_unknown;
    if (header.miss != 0 && header.kind != uint8_t(ReplyKind::get))
        return FrameError::status_unknown;
    if (header.denied != 0 && !reads_one_sided(version)) return FrameError::reserved_set;
    if (header.denied >= uint8_t(LeaseDenial::count)) return FrameError::status_unknown;
    if (header.denied != 0 && !may_grant(header)) return FrameError::status_unknown;
    if ((header.flags & ~rule.flags) != 0) return FrameError::flag_unknown;
    if (is(header, ReplyFlag::grant) && !may_grant(header)) return FrameError::flag_unknown;
    if (is(header, ReplyFlag::grant_elsewhere) && (version < version_with_spilled || !is(header, ReplyFlag::grant)))
        return FrameError::flag_unknown;
    return judge_value(header, value_bytes_max);
}

FrameError read_meta(const MetaRecord& record, uint64_t value_bytes_max, ItemMeta& meta) {
    if (record.reserved != 0) return FrameError::reserved_set;
    if (record.value_len > value_bytes_max) return FrameError::meta_invalid;
    if ((record.bits & ~meta_bits_all) != 0) return FrameError::meta_invalid;
    if (record.size_class > layout::large_class) return FrameError::meta_invalid;
    auto has = [&](MetaBit flag) { return (record.bits & uint8_t(flag)) != 0; };
    meta.cas = record.cas;
    meta.value_len = record.value_len;
    meta.flags = record.flags;
    meta.item_bytes = record.item_bytes;
    meta.exptime = record.exptime;
    meta.last_access = record.last_access;
    meta.size_class = record.size_class;
    meta.fetched = has(MetaBit::fetched);
    meta.stale = has(MetaBit::stale);
    meta.win = has(MetaBit::win);
    meta.win_sent = has(MetaBit::win_sent);
    meta.key_binary = has(MetaBit::key_binary);
    return FrameError::none;
}

// The fields that do not depend on whose memory it is.
FrameError read_place(const GrantRecord& record, std::optional<Grant>& grant) {
    if (record.generation > layout::generation_max) return FrameError::grant_invalid;
    if (record.offset % layout::stride_bytes != 0) return FrameError::grant_invalid;
    if (record.capacity < record.length) return FrameError::grant_invalid;
    grant = Grant{record.offset, record.generation, record.region, record.length, record.term_ms, record.capacity};
    return FrameError::none;
}

FrameError read_grant(const GrantRecord& record, uint32_t value_len, std::optional<Grant>& grant) {
    if (record.term_ms == 0) {
        const bool empty =
            (record.offset | record.generation | record.region | record.length | record.capacity) == 0;
        return empty ? FrameError::none : FrameError::grant_invalid;
    }
    if (record.term_ms > term_ms_highest) return FrameError::grant_invalid;
    const uint64_t shortest = layout::item_bytes(1, value_len);
    const uint64_t longest = layout::item_bytes(limits::key_bytes_max, value_len);
    if (record.length < shortest || record.length > longest) return FrameError::grant_invalid;
    return read_place(record, grant);
}

// Of another node's memory: `at` has the record and the incarnation.
FrameError read_grant_elsewhere(const char* at, uint32_t value_len, std::optional<Grant>& grant) {
    const GrantRecord record = wire::get<GrantRecord>(at);
    const uint64_t incarnation = wire::get<uint64_t>(at + sizeof record);
    if (incarnation == 0 || record.term_ms == 0 || record.term_ms > spilled_term_ms_max) return FrameError::grant_invalid;
    if (record.length < spilled_item_bytes(1, value_len)) return FrameError::grant_invalid;
    if (record.length > spilled_item_bytes(limits::key_bytes_max, value_len)) return FrameError::grant_invalid;
    const FrameError error = read_place(record, grant);
    if (error == FrameError::none) grant->incarnation = incarnation;
    return error;
}

bool reserved_set(const uint8_t (&reserved)[3]) {
    return (reserved[0] | reserved[1] | reserved[2]) != 0;
}

// The records after the header of the current reply.
struct Behind {
    const char* at;
    uint64_t value_bytes_max;
    std::optional<Grant>& grant;
};

FrameError read_get(GetReply& reply, const ReplyHeader& header, const Behind& behind) {
    reply.status = GetReply::Status(header.status);
    reply.why = Miss(header.miss);
    reply.vivified = is(header, ReplyFlag::vivified);
    if (!is_hit(header)) return FrameError::none;
    const MetaRecord record = wire::get<MetaRecord>(behind.at);
    FrameError error = read_meta(record, behind.value_bytes_max, reply.meta);
    if (error != FrameError::none) return error;
    if (!is(header, ReplyFlag::no_value) && header.value_len != reply.meta.value_len)
        return FrameError::value_mismatch;
    if (!is(header, ReplyFlag::grant)) return FrameError::none;
    const char* const grant = behind.at + sizeof record;
    if (is(header, ReplyFlag::grant_elsewhere)) return read_grant_elsewhere(grant, record.value_len, behind.grant);
    return read_grant(wire::get<GrantRecord>(grant), record.value_len, behind.grant);
}

FrameError read_store(StoreReply& reply, const ReplyHeader& header, const Behind& behind) {
    const StoredRecord record = wire::get<StoredRecord>(behind.at);
    if (reserved_set(record.reserved)) return FrameError::reserved_set;
    if (record.value_len > behind.value_bytes_max) return FrameError::meta_invalid;
    if (record.size_class > layout::large_class) return FrameError::meta_invalid;
    reply.status = StoreReply::Status(header.status);
    reply.cas = record.cas;
    reply.item_bytes = record.item_bytes;
    reply.value_len = record.value_len;
    reply.size_class = record.size_class;
    reply.exptime = record.exptime;
    if (!is(header, ReplyFlag::grant)) return FrameError::none;
    return read_grant(wire::get<GrantRecord>(behind.at + sizeof record), record.value_len,
                      behind.grant);
}

FrameError read_remove(DeleteReply& reply, const ReplyHeader& header, const Behind& behind) {
    const RemovedRecord record = wire::get<RemovedRecord>(behind.at);
    if (reserved_set(record.reserved)) return FrameError::reserved_set;
    if (record.size_class > layout::large_class) return FrameError::meta_invalid;
    reply.status = DeleteReply::Status(header.status);
    reply.size_class = record.size_class;
    reply.item_bytes = record.item_bytes;
    return FrameError::none;
}

FrameError read_arith(ArithReply& reply, const ReplyHeader& header, const Behind& behind) {
    const ArithReplyRecord record = wire::get<ArithReplyRecord>(behind.at);
    reply.status = ArithReply::Status(header.status);
    reply.value = record.value;
    const FrameError error = read_meta(record.meta, behind.value_bytes_max, reply.meta);
    if (error != FrameError::none || !is(header, ReplyFlag::grant)) return error;
    return read_grant(wire::get<GrantRecord>(behind.at + sizeof record), record.meta.value_len,
                      behind.grant);
}

FrameError read_record(NodeReply& reply, const ReplyHeader& header, const Behind& behind) {
    switch (ReplyKind(header.kind)) {
        case ReplyKind::get:
            return read_get(reply.op.emplace<GetReply>(), header, behind);
        case ReplyKind::store:
            return read_store(reply.op.emplace<StoreReply>(), header, behind);
        case ReplyKind::remove:
            return read_remove(reply.op.emplace<DeleteReply>(), header, behind);
        case ReplyKind::arith:
            return read_arith(reply.op.emplace<ArithReply>(), header, behind);
        case ReplyKind::done:
            reply.op.emplace<DoneReply>();
            break;
        case ReplyKind::stats:
            reply.op.emplace<StatsReply>();
            break;
        case ReplyKind::refused:
            reply.op.emplace<RefusedReply>().reason = RequestRefusal(header.status);
            break;
    }
    return FrameError::none;
}

// Bytes of record and grant after a valid header.
size_t size_behind(const ReplyHeader& header) {
    const bool get = header.kind == uint8_t(ReplyKind::get);
    const size_t record = get && !is_hit(header) ? 0 : reply_rules[header.kind].record_bytes;
    return record + (is(header, ReplyFlag::grant) ? sizeof(GrantRecord) : 0) +
           (is(header, ReplyFlag::grant_elsewhere) ? sizeof(Grant::incarnation) : 0);
}

ValueForm form_of(const ReplyHeader& header) {
    if (is(header, ReplyFlag::value_follows)) return ValueForm::follows;
    if (is_hit(header)) return is(header, ReplyFlag::no_value) ? ValueForm::none : ValueForm::here;
    return header.value_len != 0 ? ValueForm::here : ValueForm::none;
}

}  // namespace

ReplyReader::ReplyReader(const Frame& frame, const FrameLimits& limits) : EntryReader(frame, limits) {
    CHECK(frame.kind == FrameKind::replies);
    error_ = take_clock(at_, limits, now_);
}

FrameStep ReplyReader::next(NodeReply& reply) {
    return step([&] { return read(reply); });
}

FrameError ReplyReader::read(NodeReply& reply) {
    ReplyHeader header;
    if (!at_.take(header)) return FrameError::entry_truncated;
    FrameError error = judge(header, version_, value_bytes_max_);
    if (error != FrameError::none) return error;
    std::string_view record;
    if (!at_.take_bytes(size_behind(header), record)) return FrameError::entry_truncated;
    reply.tag = header.tag;
    reply.form = form_of(header);
    reply.value_bytes = header.value_len;
    reply.value = {};
    reply.grant.reset();
    reply.denied = LeaseDenial(header.denied);
    error = read_record(reply, header, {record.data(), value_bytes_max_, reply.grant});
    if (error != FrameError::none) return error;
    if (reply.grant.has_value() && !reads_one_sided(version_)) return FrameError::grant_invalid;
    if (reply.form == ValueForm::here && !at_.take_bytes(header.value_len, reply.value))
        return FrameError::entry_truncated;
    return FrameError::none;
}

}  // namespace farcached::protocol
