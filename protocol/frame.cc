// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/frame.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "protocol/auth.h"
#include "protocol/layout.h"
#include "protocol/wire.h"

namespace farcached::protocol {

namespace {

enum class From : uint8_t { proxy, node, either };
enum class When : uint8_t { greeting, open };

struct FrameRule {
    std::string_view name;
    From from = From::either;
    When when = When::open;
    uint32_t body_min = 0;   // without entries
    uint32_t entry_min = 0;  // 0: no entries
    bool exact = false;      // the body and its entries have exactly these sizes
    uint32_t version = 0;    // the first with this kind
    uint32_t bytes_max = UINT32_MAX;  // with its header
    uint32_t version_of_node = 0;     // the first in which a node sends it, too, if that is later
};

constexpr uint32_t reported_bytes_max =
    sizeof(FrameHeader) + sizeof(ReportedRecord) + report_records_max * sizeof(RenewalRecord);
static_assert(reported_bytes_max <= frame_bytes_lowest);
constexpr uint32_t pong_frame_bytes_max = sizeof(FrameHeader) + sizeof(ClockRecord) + sizeof(RightRecord);
constexpr uint32_t proof_frame_bytes_max = sizeof(FrameHeader) + sizeof(ProofRecord) + auth_name_bytes_max + auth_proof_bytes;

// By FrameKind.
constexpr std::array<FrameRule, 20> frame_rules = {{
    {},
    {"hello", From::proxy, When::greeting, sizeof(HelloRecord), 0, false},
    {"welcome", From::node, When::greeting, sizeof(WelcomeRecord), 0, false},
    {"refuse", From::node, When::greeting, sizeof(SentenceRecord), 0, false},
    {"requests", From::proxy, When::open, 0, sizeof(RequestHeader), false},
    {"replies", From::node, When::open, sizeof(ClockRecord), sizeof(ReplyHeader), false},
    {"chunk", From::either, When::open, sizeof(ChunkHeader), 0, false},
    {"ping", From::either, When::open, 0, 0, true},
    {"pong", From::either, When::open, sizeof(ClockRecord), 0, false, 0, pong_frame_bytes_max},
    {"goodbye", From::either, When::open, sizeof(SentenceRecord), 0, false},
    {"lease_returns", From::proxy, When::open, 0, sizeof(LeaseReturnRecord), true},
    {"accesses", From::proxy, When::open, 0, sizeof(AccessRecord), true, version_with_in_place},
    {"lent", From::proxy, When::open, sizeof(LentRecord), 0, true},
    {"unlent", From::node, When::open, sizeof(UnlentRecord), 0, true},
    {"report", From::proxy, When::open, 0, sizeof(AccessRecord), true, version_with_in_place, report_bytes_max},
    {"reported", From::node, When::open, sizeof(ReportedRecord), sizeof(RenewalRecord), true, version_with_in_place,
     reported_bytes_max},
    {"challenge", From::node, When::greeting, sizeof(ChallengeRecord), 0, true},
    {"proof", From::proxy, When::greeting, sizeof(ProofRecord) + auth_proof_bytes, 0, false, 0, proof_frame_bytes_max},
    {"grant", From::proxy, When::open, 1, 0, false, version_with_auth, grant_frame_bytes_max},
    {"epoch", From::either, When::open, sizeof(EpochRecord), 0, true, version_with_epoch, UINT32_MAX, version_with_newest_epoch},
}};
static_assert(frame_rules.size() == size_t(FrameKind::epoch) + 1);

bool may_send(From from, Sender sender) {
    if (from == From::either) return true;
    return (from == From::proxy) == (sender == Sender::proxy);
}

// Checks a header alone (F3).
FrameError judge(const FrameHeader& header, const FrameLimits& limits) {
    if (header.kind == 0 || header.kind >= frame_rules.size()) return FrameError::kind_unknown;
    const FrameRule& rule = frame_rules[header.kind];
    if (!may_send(rule.from, limits.sender)) return FrameError::kind_unexpected;
    if ((rule.when == When::open) != limits.greeted) return FrameError::kind_unexpected;
    const uint32_t version = limits.sender == Sender::node ? std::max(rule.version, rule.version_of_node) : rule.version;
    if (limits.greeted && limits.version < version) return FrameError::kind_unexpected;
    if (header.body_bytes > std::min(limits.frame_bytes_max, rule.bytes_max) - sizeof header)
        return FrameError::frame_too_long;
    if ((rule.entry_min != 0) != (header.count != 0)) return FrameError::count_wrong;
    const uint64_t least = rule.body_min + uint64_t(rule.entry_min) * header.count;
    if (header.body_bytes < least) return FrameError::body_short;
    if (rule.exact && header.body_bytes > least) return FrameError::body_excess;
    return FrameError::none;
}

template <class Record>
Record entry_at(const Frame& frame, uint32_t index) {
    CHECK(index < frame.count);
    CHECK((size_t(index) + 1) * sizeof(Record) <= frame.body.size());
    return wire::get<Record>(frame.body.data() + size_t(index) * sizeof(Record));
}

}  // namespace

std::string_view frame_kind_name(FrameKind kind) {
    return size_t(kind) < frame_rules.size() ? frame_rules[size_t(kind)].name : std::string_view();
}

FrameParse parse_frame(std::string_view input, const FrameLimits& limits) {
    CHECK(limits.frame_bytes_max >= frame_bytes_lowest);
    FrameParse parse;
    if (input.size() < sizeof(FrameHeader)) return parse;
    const FrameHeader header = wire::get<FrameHeader>(input.data());
    parse.error = judge(header, limits);
    if (parse.error != FrameError::none) {
        parse.status = FrameParse::Status::bad;
        return parse;
    }
    parse.header_known = true;
    parse.bytes += header.body_bytes;
    parse.frame.kind = FrameKind(header.kind);
    parse.frame.count = header.count;
    parse.frame.sequence = header.sequence;
    if (input.size() < parse.bytes) return parse;
    parse.frame.body = input.substr(sizeof header, header.body_bytes);
    parse.status = FrameParse::Status::frame;
    return parse;
}

// ---- chunks -----------------------------------------------------------------------------------------

FrameError parse_chunk(std::string_view body, size_t body_bytes, Chunk& chunk) {
    if (body.size() < sizeof(ChunkHeader)) return FrameError::body_short;
    if (body_bytes < body.size()) return FrameError::body_excess;
    const ChunkHeader header = wire::get<ChunkHeader>(body.data());
    if ((header.flags & ~chunk_abandoned) != 0) return FrameError::flag_unknown;
    chunk.tag = header.tag;
    chunk.abandoned = (header.flags & chunk_abandoned) != 0;
    chunk.offset = header.offset;
    chunk.size = uint32_t(body_bytes - sizeof header);
    chunk.bytes = body.substr(sizeof header);
    return chunk.abandoned == (chunk.size == 0) ? FrameError::none : FrameError::chunk_empty;
}

FrameError ValueProgress::accept(const Chunk& chunk) {
    CHECK(received <= total);
    if (chunk.abandoned) return FrameError::none;
    if (chunk.offset != received) return FrameError::chunk_order;
    if (chunk.size > total - received) return FrameError::chunk_overrun;
    received += chunk.size;
    return FrameError::none;
}

char* write_chunk_head(char* to, uint64_t sequence, uint32_t tag, uint64_t offset, uint32_t size) {
    CHECK(size != 0);
    const uint32_t body_bytes = uint32_t(sizeof(ChunkHeader)) + size;
    to = write_frame_header(to, {body_bytes, uint16_t(FrameKind::chunk), 0, sequence});
    return wire::put(to, ChunkHeader{tag, 0, offset});
}

void append_abandoned(OutBuffer& out, uint64_t sequence, uint32_t tag) {
    append_frame_header(out, FrameKind::chunk, sequence, sizeof(ChunkHeader));
    wire::append(out, ChunkHeader{tag, chunk_abandoned, 0});
}

// ---- lent values --------------------------------------------------------------------------------------

FrameError parse_lent(const Frame& frame, LentRecord& lent) {
    lent = wire::get<LentRecord>(frame.body.data());
    return lent.reserved == 0 ? FrameError::none : FrameError::reserved_set;
}

FrameError parse_unlent(const Frame& frame, UnlentRecord& unlent) {
    unlent = wire::get<UnlentRecord>(frame.body.data());
    return unlent.reserved == 0 ? FrameError::none : FrameError::reserved_set;
}

void append_lent(OutBuffer& out, uint64_t sequence, const LentRecord& lent) {
    append_frame_header(out, FrameKind::lent, sequence, sizeof lent);
    wire::append(out, lent);
}

void append_unlent(OutBuffer& out, uint64_t sequence, uint32_t tag) {
    append_frame_header(out, FrameKind::unlent, sequence, sizeof(UnlentRecord));
    wire::append(out, UnlentRecord{tag, 0});
}

// ---- small frames -----------------------------------------------------------------------------------

void append_ping(OutBuffer& out, uint64_t sequence) {
    append_frame_header(out, FrameKind::ping, sequence, 0);
}

void append_epoch(OutBuffer& out, uint64_t epoch) {
    append_frame_header(out, FrameKind::epoch, 0, sizeof(EpochRecord));
    wire::append(out, EpochRecord{epoch});
}

uint64_t epoch_of(const Frame& frame) {
    CHECK(frame.kind == FrameKind::epoch);
    return wire::get<EpochRecord>(frame.body.data()).epoch;
}

uint32_t told_us(const NodeReading& now) {
    const uint32_t us = now.us.value_or(0);
    CHECK(us <= reading_us_max);
    return us | (now.right_ms.has_value() ? clock_with_right : 0);
}

char* write_clock(char* to, const NodeReading& now) {
    to = wire::put(to, ClockRecord{now.seconds, told_us(now)});
    return now.right_ms.has_value() ? wire::put(to, RightRecord{*now.right_ms, 0}) : to;
}

// A right is there, with any value, if its record follows.
FrameError read_clock_us(uint32_t now_us, uint32_t version, NodeReading& now) {
    const bool has_right = version >= version_with_right && (now_us & clock_with_right) != 0;
    const uint32_t us = has_right ? now_us & ~clock_with_right : now_us;
    if (version < version_with_now_us && us != 0) return FrameError::reserved_set;
    if (us > reading_us_max) return FrameError::clock_invalid;
    now.us = version >= version_with_now_us ? std::optional(us) : std::nullopt;
    now.right_ms = has_right ? std::optional(0u) : std::nullopt;
    return FrameError::none;
}

FrameError take_right(wire::Cursor& at, NodeReading& now) {
    if (!now.right_ms.has_value()) return FrameError::none;
    RightRecord record;
    if (!at.take(record)) return FrameError::body_short;
    if (record.reserved != 0) return FrameError::reserved_set;
    if (record.left_ms > right_ms_highest) return FrameError::clock_invalid;
    now.right_ms = record.left_ms;
    return FrameError::none;
}

FrameError take_clock(wire::Cursor& at, const FrameLimits& limits, NodeReading& now) {
    ClockRecord record;
    if (!at.take(record)) return FrameError::body_short;
    now = {record.now};
    const uint32_t version = limits.sender == Sender::node ? limits.version : 0;  // of a proxy: now_us is 0
    if (FrameError error = read_clock_us(record.now_us, version, now); error != FrameError::none) return error;
    return take_right(at, now);
}

void append_pong(OutBuffer& out, uint64_t sequence, const NodeReading& now) {
    append_frame_header(out, FrameKind::pong, sequence, clock_bytes(now));
    write_clock(out.reserve(clock_bytes(now)), now);
    out.commit(clock_bytes(now));
}

FrameError parse_pong(const Frame& frame, const FrameLimits& limits, NodeReading& now) {
    CHECK(frame.kind == FrameKind::pong);
    wire::Cursor at(frame.body);
    if (FrameError error = take_clock(at, limits, now); error != FrameError::none) return error;
    return at.left() == 0 ? FrameError::none : FrameError::body_excess;
}

void append_goodbye(OutBuffer& out, Goodbye reason, std::string_view text) {
    append_sentence(out, FrameKind::goodbye, uint16_t(reason), text);
}

FrameError parse_goodbye(const Frame& frame, GoodbyeFrame& goodbye) {
    CHECK(frame.kind == FrameKind::goodbye);
    uint16_t reason = 0;
    FrameError error = parse_sentence(frame, reason, goodbye.text);
    goodbye.reason = reason < uint16_t(Goodbye::count) ? Goodbye(reason) : Goodbye::stopping;
    return error;
}

FrameError lease_return_at(const Frame& frame, uint32_t index, LeaseReturnRecord& entry) {
    CHECK(frame.kind == FrameKind::lease_returns);
    entry = entry_at<LeaseReturnRecord>(frame, index);
    if (entry.reserved != 0) return FrameError::reserved_set;
    return entry.generation <= layout::generation_max ? FrameError::none
                                                      : FrameError::entry_invalid;
}

FrameError access_at(const Frame& frame, uint32_t index, ItemAccess& entry) {
    CHECK(frame.kind == FrameKind::accesses || frame.kind == FrameKind::report);
    entry = access_of(entry_at<AccessRecord>(frame, index));
    return entry.count != 0 ? FrameError::none : FrameError::entry_invalid;
}

// ---- reports ----------------------------------------------------------------------------------------

void append_reported(OutBuffer& out, uint64_t sequence, uint32_t left_us, std::span<const uint32_t> terms_ms) {
    CHECK(!terms_ms.empty());
    CHECK(terms_ms.size() <= report_records_max);
    CHECK(left_us <= report_left_us_highest);
    const uint32_t body_bytes = uint32_t(sizeof(ReportedRecord) + terms_ms.size() * sizeof(RenewalRecord));
    char* const start = out.reserve(sizeof(FrameHeader) + body_bytes);
    char* to = write_frame_header(start, {body_bytes, uint16_t(FrameKind::reported), uint16_t(terms_ms.size()), sequence});
    to = wire::put(to, ReportedRecord{left_us, 0});
    for (const uint32_t term_ms : terms_ms) {
        CHECK(term_ms <= term_ms_highest);
        to = wire::put(to, RenewalRecord{term_ms});
    }
    out.commit(size_t(to - start));
}

FrameError parse_reported(const Frame& frame, uint32_t& left_us) {
    CHECK(frame.kind == FrameKind::reported);
    const ReportedRecord record = wire::get<ReportedRecord>(frame.body.data());
    if (record.reserved != 0) return FrameError::reserved_set;
    if (record.left_us > report_left_us_highest) return FrameError::report_invalid;
    left_us = record.left_us;
    return FrameError::none;
}

FrameError renewal_at(const Frame& frame, uint32_t index, uint32_t& term_ms) {
    CHECK(frame.kind == FrameKind::reported);
    const Frame entries{frame.kind, frame.count, frame.sequence, frame.body.substr(sizeof(ReportedRecord))};
    term_ms = entry_at<RenewalRecord>(entries, index).term_ms;
    return term_ms <= term_ms_highest ? FrameError::none : FrameError::report_invalid;
}

// ---- frames in containers -----------------------------------------------------------------------------

FrameError parse_written(std::string_view content, const FrameLimits& limits, Frame& frame) {
    const FrameParse parse = parse_frame(content, limits);
    if (parse.status == FrameParse::Status::bad) return parse.error;
    if (parse.status != FrameParse::Status::frame || parse.bytes != content.size()) return FrameError::written_mismatch;
    if (parse.frame.kind != FrameKind::report && parse.frame.kind != FrameKind::reported) return FrameError::written_mismatch;
    frame = parse.frame;
    return FrameError::none;
}

// ---- sentences --------------------------------------------------------------------------------------

bool printable(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

void append_sentence(OutBuffer& out, FrameKind kind, uint16_t reason, std::string_view text) {
    CHECK(printable(text));
    text = text.substr(0, text_bytes_max);
    append_frame_header(out, kind, 0, sizeof(SentenceRecord) + text.size());
    wire::append(out, SentenceRecord{reason, uint16_t(text.size()), 0});
    if (!text.empty()) out.append(text);
}

std::string whole_frame(const Frame& frame) {
    const FrameHeader header{uint32_t(frame.body.size()), uint16_t(frame.kind), frame.count, frame.sequence};
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
    return bytes.append(frame.body);
}

FrameError parse_sentence(const Frame& frame, uint16_t& reason, std::string_view& text) {
    wire::Cursor at(frame.body);
    SentenceRecord record;
    if (!at.take(record)) return FrameError::body_short;
    if (record.reserved != 0) return FrameError::reserved_set;
    if (record.text_bytes > text_bytes_max) return FrameError::text_invalid;
    std::string_view sentence;
    if (!at.take_bytes(record.text_bytes, sentence)) return FrameError::body_short;
    if (at.left() != 0) return FrameError::body_excess;
    if (!printable(sentence)) return FrameError::text_invalid;
    reason = record.reason;
    text = sentence;
    return FrameError::none;
}

}  // namespace farcached::protocol
