// SPDX-License-Identifier: BSD-3-Clause
// Bytes that are no frames: truncated or corrupted frames are refused by name, or read within their bounds.
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <string_view>

#include "t/lib/tap.h"
#include "t/unit/protocol/frame_streams.h"

namespace {

using namespace frame_streams;

// A frame cut short waits for more; one whose header says that it was so short is refused, or is
// whole by chance.
void every_truncation() {
    int wrong = 0, refused = 0;
    for (const Stream& stream : streams(3, true)) {
        for (std::string_view frame : frames_of(stream)) {
            for (size_t size = 0; size < frame.size(); size++) {
                Exact cut(frame.substr(0, size));
                FrameParse parse = parse_frame(cut.view(), stream.limits);
                if (parse.status != FrameParse::Status::need_more || parse.bytes <= size) wrong++;
                if (size < sizeof(FrameHeader)) continue;
                const uint32_t body_bytes = uint32_t(size - sizeof(FrameHeader));
                std::memcpy(cut.data.get(), &body_bytes, sizeof body_bytes);
                parse = parse_frame(cut.view(), stream.limits);
                if (parse.status == FrameParse::Status::need_more) wrong++;
                const bool bad = parse.status == FrameParse::Status::bad ||
                                 is_bad(read_frame(parse.frame, stream.limits));
                if (bad) refused++;
                // The bytes of a chunk are as many as there are.
                if (!bad && parse.frame.kind != FrameKind::chunk) wrong++;
            }
        }
    }
    tap::note("%d refused", refused);
    tap::is(wrong, 0, "every truncation waits for more or, when its header lies, is refused");
}

// Every reason that was seen, from anywhere in this program.
std::set<std::string> reasons;

void note_reason(std::string_view seen) {
    const size_t at = seen.find(bad_mark);
    if (at == std::string_view::npos) return;
    seen.remove_prefix(at + 1);
    reasons.insert(std::string(seen.substr(0, seen.find('\n'))));
}

// The result of one frame: a reason, or the contents; "more" when it is not whole.
std::string outcome(std::string_view bytes, const FrameLimits& limits) {
    FrameParse parse = parse_frame(bytes, limits);
    if (parse.status == FrameParse::Status::need_more)
        return parse.bytes > bytes.size() ? "more" : "!stuck";
    if (parse.status == FrameParse::Status::bad) return bad(parse.error);
    return read_frame(parse.frame, limits);
}

void every_corruption() {
    size_t corrupted = 0, refused = 0, wrong = 0;
    for (const Stream& stream : streams(4, true)) {
        for (std::string_view frame : frames_of(stream)) {
            Exact copy(frame);
            for (size_t at = 0; at < frame.size(); at++) {
                for (int change = 1; change < 256; change++, corrupted++) {
                    copy.data[at] = char(frame[at] ^ change);
                    const std::string seen = outcome(copy.view(), stream.limits);
                    if (seen == "!stuck") wrong++;
                    if (is_bad(seen)) refused++;
                    note_reason(seen);
                }
                copy.data[at] = frame[at];
            }
        }
    }
    tap::note("%zu corrupted frames, %zu refused", corrupted, refused);
    tap::ok(corrupted > 100'000, "every byte of every frame took every other value");
    tap::is(wrong, size_t(0), "each was refused, read within its bounds, or waits for more");
}

// ---- headers ----------------------------------------------------------------------------------------

std::string header(uint32_t body_bytes, uint16_t kind, uint16_t count) {
    std::string bytes(sizeof(FrameHeader), '\0');
    write_frame_header(bytes.data(), {body_bytes, kind, count, 1});
    return bytes;
}

void headers_that_cannot_be() {
    auto said = [](uint32_t body_bytes, FrameKind kind, uint16_t count, const FrameLimits& limits) {
        const std::string seen = outcome(header(body_bytes, uint16_t(kind), count), limits);
        note_reason(seen);
        return seen;
    };
    const uint32_t most = frame_bytes_default - sizeof(FrameHeader);
    tap::is(said(most, FrameKind::requests, 1, from_proxy), "more", "the longest frame");
    tap::is(said(most + 1, FrameKind::requests, 1, from_proxy), "!frame_too_long",
            "one byte longer");
    tap::is(said(UINT32_MAX, FrameKind::chunk, 0, from_proxy), "!frame_too_long",
            "the longest possible");
    tap::is(said(0, FrameKind(0), 0, from_proxy), "!kind_unknown", "no kind");
    tap::is(said(0, FrameKind(20), 0, from_proxy), "!kind_unknown", "one kind too many");
    tap::is(said(0, FrameKind(0xffff), 0, from_proxy), "!kind_unknown", "the last kind");
    tap::is(said(16, FrameKind::requests, 0, from_proxy), "!count_wrong", "no requests");
    tap::is(said(0, FrameKind::ping, 1, from_proxy), "!count_wrong", "a ping with an entry");
    tap::is(said(31, FrameKind::requests, 2, from_proxy), "!body_short",
            "too few bytes for two requests");
    tap::is(said(16, FrameKind::requests, 65535, from_proxy), "!body_short", "nor for many");
    tap::is(said(1, FrameKind::ping, 0, from_proxy), "!body_excess", "a ping with a body");
    tap::is(said(49, FrameKind::lease_returns, 2, from_proxy), "!body_excess",
            "a list that is not of its entries");
}

// Which side may send which frame, and when.
void kinds_by_sender_and_moment() {
    const FrameLimits greeting_proxy{Sender::proxy, false, frame_bytes_lowest, 0};
    const FrameLimits greeting_node{Sender::node, false, frame_bytes_lowest, 0};
    auto accepted = [](const FrameLimits& limits) {
        std::string kinds;
        for (uint16_t kind = 1; kind <= uint16_t(FrameKind::epoch); kind++) {
            FrameParse parse = parse_frame(header(200, kind, 1), limits);
            if (parse.error != FrameError::kind_unexpected)
                kinds += frame_kind_name(FrameKind(kind)), kinds += " ";
        }
        return kinds;
    };
    tap::is(accepted(greeting_proxy), "hello proof ", "a proxy greets");
    tap::is(accepted(greeting_node), "welcome refuse challenge ", "a node answers");
    tap::is(accepted(from_proxy), "requests chunk ping pong goodbye lease_returns accesses lent report grant epoch ",
            "what a proxy sends then");
    tap::is(accepted(from_node), "replies chunk ping pong goodbye unlent reported epoch ", "what a node sends then");
    note_reason(outcome(header(200, uint16_t(FrameKind::hello), 0), from_proxy));
}

// ---- entries that cannot be -------------------------------------------------------------------------

std::string frame_of(FrameKind kind, uint16_t count, const std::string& body) {
    return header(uint32_t(body.size()), uint16_t(kind), count) + body;
}

template <class Record>
std::string raw(const Record& record) {
    std::string bytes(sizeof record, '\0');
    wire::put(bytes.data(), record);
    return bytes;
}

constexpr uint8_t op(RequestKind kind) { return uint8_t(kind); }
constexpr uint8_t op(ReplyKind kind) { return uint8_t(kind); }

void requests_that_cannot_be() {
    auto said = [](const RequestHeader& entry, const std::string& behind) {
        const std::string seen =
            outcome(frame_of(FrameKind::requests, 1, raw(entry) + behind), from_proxy);
        note_reason(seen);
        return seen.substr(seen.find(':') + 2);
    };
    using K = RequestKind;
    const uint32_t compare = uint32_t(RequestFlag::cas_compare);
    const uint32_t follows = uint32_t(RequestFlag::value_follows);
    const std::string fixed(sizeof(StoreRecord), '\0');
    tap::is(said({0, 0, 1, 0, 0, 0}, "k"), "!op_unknown", "no operation");
    tap::is(said({op(K::copies) + 1, 0, 1, 0, 0, 0}, "k"), "!op_unknown", "one operation too many");
    const auto hold = [&](uint64_t release, uint32_t seconds, uint32_t reserved) {
        return said({op(K::hold), 0, 1, 0, 0, 0}, raw(HoldRecord{release, seconds, reserved}) + "k");
    };
    tap::is(hold(0, 0, 0), "!hold_impossible", "a hold for no time");
    tap::is(hold(0, HoldOp::seconds_max + 1, 0), "!hold_impossible", "for too long");
    tap::is(hold(mark_bit | 1, 0, 0), "!hold_impossible", "the end of what is no hold");
    tap::is(hold(mark_bit | hold_bit, 1, 0), "!hold_impossible", "an end and a begin");
    tap::is(hold(0, 1, 1), "!reserved_set", "a reserved field of a hold");
    tap::is(said({op(K::copies), 0, 0, 0, 0, 0}, raw(CopiesRecord{4, 0})), "!reserved_set", "an unknown request about copies");
    FrameLimits version_8 = from_proxy, version_9 = from_proxy;
    version_8.version = version_with_holds - 1;
    version_9.version = version_with_moved - 1;
    const RequestHeader begin{op(K::hold), 0, 1, 0, 0, 0};
    const std::string held = frame_of(FrameKind::requests, 1, raw(begin) + raw(HoldRecord{0, 1, 0}) + "k");
    tap::ok(outcome(held, version_8).ends_with("!op_unknown") && !is_bad(outcome(held, from_proxy)), "version 8 knows no hold");
    const RequestHeader moved{op(K::get), 0, 1, uint32_t(RequestFlag::moved_since), 0, 0};
    const std::string asked = frame_of(FrameKind::requests, 1, raw(moved) + "12345678k");
    tap::ok(outcome(asked, version_9).ends_with("!flag_unknown") && !is_bad(outcome(asked, from_proxy)),
            "version 9 knows no items that moved");
    tap::is(said({op(K::keep), 0, 0, 0, 0, 0}, ""), "!value_unexpected", "kept keys without a text");
    tap::is(said({op(K::keep), 0, 1, 0, 1, 0}, "kv"), "!key_length", "kept keys with a key");
    tap::is(said({op(K::flush_prefix), 0, 0, 0, 0, 0}, ""), "!key_length", "a delete by no prefix");
    tap::is(said({op(K::get), 1, 1, 0, 0, 0}, "k"), "!mode_unknown", "a get with a mode");
    tap::is(said({op(K::store), 6, 1, 0, 0, 0}, fixed + "k"), "!mode_unknown", "one mode too many");
    tap::is(said({op(K::get), 0, 1, compare, 0, 0}, "12345678k"), "!flag_unknown", "a get that compares");
    tap::is(said({op(K::flush), 0, 0, UINT32_MAX, 0, 0}, ""), "!flag_unknown", "a flush with all flags");
    const RequestHeader spilled{op(K::store), 0, 1, uint32_t(RequestFlag::spilled), 0, 0};
    FrameLimits version_4 = from_proxy;
    version_4.version = version_with_spilled - 1;
    const std::string frame = frame_of(FrameKind::requests, 1, raw(spilled) + fixed + "k");
    tap::ok(said(spilled, fixed + "k").find("spilled=1") != std::string::npos, "a spilled item");
    tap::ok(outcome(frame, version_4).ends_with("!flag_unknown"), "is unknown to version 4");
    tap::is(said({op(K::get), 0, 1, uint32_t(RequestFlag::spilled), 0, 0}, "k"), "!flag_unknown", "and to a get");
    tap::is(said({op(K::get), 0, 0, 0, 0, 0}, ""), "!key_length", "no key");
    tap::is(said({op(K::get), 0, 251, 0, 0, 0}, std::string(251, 'k')), "!key_length",
            "too long a key");
    tap::is(said({op(K::flush), 0, 1, 0, 0, 0}, "k"), "!key_length", "a flush with a key");
    tap::is(said({op(K::get), 0, 1, 0, 1, 0}, "kv"), "!value_unexpected", "a get with a value");
    tap::is(said({op(K::store), 0, 1, follows, 0, 0}, fixed + "k"), "!value_unexpected",
            "a value that follows and is none");
    tap::is(said({op(K::store), 0, 1, follows, 3001, 0}, fixed + "k"), "!value_too_long",
            "one that follows and is too long");
    tap::is(said({op(K::store), 5, 1, 0, 0, 0}, fixed + "k"), "!cas_missing",
            "a cas without a number");
    tap::is(said({op(K::store), 0, 1, 0, 9, 0}, fixed + "k12345678"), "!entry_truncated",
            "a value cut short");
    tap::is(said({op(K::flush_at), 0, 0, 0, 0, 0}, std::string("\1\0\0\0\1\0\0\0", 8)),
            "!reserved_set", "a reserved field");
    tap::ok(said({op(K::get), 0, 1, 0, 0, 0}, "k?").ends_with("!body_excess"),
            "a byte behind the last request");
}

// Two readings of a count: too many and too few.
void counts_that_lie() {
    OutBuffer out;
    FrameWriter writer(out, frame_bytes_default);
    writer.begin(FrameKind::requests, 1);
    writer.add(get_of("a key of some length, so that there are bytes"), RequestOptions{});
    writer.add(get_of("key"), RequestOptions{});
    writer.end();
    std::string bytes(bytes_of(out));
    bytes[6] = 1;
    tap::ok(outcome(bytes, from_proxy).ends_with("!body_excess"),
            "one request that was not counted");
    bytes[6] = 3;
    tap::ok(outcome(bytes, from_proxy).ends_with("!entry_truncated"), "one that is not there");
}

std::string reply_said(const ReplyHeader& entry, const std::string& behind) {
    const std::string body = raw(ClockRecord{50, 0}) + raw(entry) + behind;
    const std::string seen = outcome(frame_of(FrameKind::replies, 1, body), from_node);
    note_reason(seen);
    return seen.substr(seen.find('\n') + 1);
}

// Why a grant is not there: in replies that could have brought one.
void denials_that_cannot_be() {
    using K = ReplyKind;
    const uint8_t young = uint8_t(LeaseDenial::young_);
    MetaRecord meta{};
    const std::string hit = raw(meta), stored = raw(StoredRecord{}), number = raw(ArithReplyRecord{});
    auto said = [](K kind, uint8_t status, uint8_t denied, const std::string& behind) {
        const std::string seen = reply_said({op(kind), status, 0, denied, 0, 0, 0}, behind);
        if (is_bad(seen)) return seen;
        const size_t at = seen.find("denied=");
        return at == std::string::npos ? std::string("none") : seen.substr(at, seen.find('\n') - at);
    };
    tap::is(said(K::get, 0, 0, hit), "none", "a hit without a reason");
    tap::is(said(K::get, 0, young, hit), "denied='young'", "a hit with one");
    tap::is(said(K::store, 0, young, stored), "denied='young'", "a store with one");
    for (const ArithReply::Status status : {ArithReply::Status::ok, ArithReply::Status::vivified})
        tap::is(said(K::arith, uint8_t(status), young, number), "denied='young'", "a number with one");
    tap::is(said(K::get, 0, uint8_t(LeaseDenial::count), hit), "!status_unknown", "one reason too many");
    tap::is(said(K::get, 0, 255, hit), "!status_unknown", "the largest number");
    tap::is(said(K::get, 1, young, ""), "!status_unknown", "a miss with a reason");
    tap::is(said(K::store, 1, young, stored), "!status_unknown", "a store that was not done");
    for (uint8_t status = uint8_t(ArithReply::Status::not_found); status <= uint8_t(ArithReply::Status::no_memory); status++)
        tap::is(said(K::arith, status, young, number), "!status_unknown", "a number that was not changed");
    tap::is(said(K::remove, 0, young, raw(RemovedRecord{})), "!status_unknown", "a delete");
    tap::is(said(K::done, 0, young, ""), "!status_unknown", "something done");
    FrameLimits version_3 = from_node;
    version_3.version = version_with_in_place - 1;
    const std::string body = raw(ClockRecord{50, 0}) + raw(ReplyHeader{op(K::get), 0, 0, young, 0, 0, 0}) + hit;
    const std::string seen = outcome(frame_of(FrameKind::replies, 1, body), version_3);
    tap::ok(seen.ends_with("!reserved_set"), "a reason in version 3");
}

// Of the node's clock, in a frame of replies and in a pong.
void clocks_that_cannot_be() {
    const ReplyHeader done{op(ReplyKind::done), 0, 0, 0, 0, 0, 0};
    FrameLimits version_1 = from_node;
    version_1.version = 1;
    auto said = [&](uint32_t now_us, const FrameLimits& limits) {
        const std::string clock = raw(ClockRecord{50, now_us});
        std::string both;
        for (const std::string& bytes :
             {frame_of(FrameKind::replies, 1, clock + raw(done)), frame_of(FrameKind::pong, 0, clock)}) {
            const std::string seen = outcome(bytes, limits);
            note_reason(seen);
            both += is_bad(seen) ? seen.substr(seen.find(bad_mark)) : " got";
        }
        return both;
    };
    tap::is(said(reading_us_max, from_node), " got got", "a microsecond before the next second");
    tap::is(said(reading_us_max + 1, from_node), "!clock_invalid!clock_invalid", "the next second");
    tap::is(said(UINT32_MAX, from_node), "!clock_invalid!clock_invalid", "an hour later");
    tap::is(said(0, version_1), " got got", "nothing in version 1");
    tap::is(said(1, version_1), "!reserved_set!reserved_set", "something in version 1");
}

void replies_that_cannot_be() {
    using K = ReplyKind;
    auto flag = [](ReplyFlag f) { return uint32_t(f); };
    MetaRecord meta{};
    meta.value_len = 3;
    tap::is(reply_said({0, 0, 0, 0, 0, 0, 0}, ""), "!op_unknown", "no kind of reply");
    tap::is(reply_said({8, 0, 0, 0, 0, 0, 0}, ""), "!op_unknown", "one kind too many");
    tap::is(reply_said({op(K::get), 3, 0, 0, 0, 0, 0}, ""), "!status_unknown",
            "one status too many");
    tap::is(reply_said({op(K::get), 1, 4, 0, 0, 0, 0}, ""), "!status_unknown",
            "one cause of a miss too many");
    tap::is(reply_said({op(K::done), 0, 1, 0, 0, 0, 0}, ""), "!status_unknown",
            "a cause where there is no miss");
    tap::is(reply_said({op(K::refused), uint8_t(RequestRefusal::count), 0, 0, 0, 0, 0}, ""),
            "!status_unknown", "one refusal too many");
    tap::is(reply_said({op(K::get), 1, 0, 0, flag(ReplyFlag::grant), 0, 0}, ""), "!flag_unknown",
            "a miss with a grant");
    tap::is(reply_said({op(K::get), 1, 0, 0, flag(ReplyFlag::no_value), 0, 0}, ""), "!flag_unknown",
            "a miss without a value");
    tap::is(reply_said({op(K::done), 0, 0, 0, 32, 0, 0}, ""), "!flag_unknown",
            "a flag that is none");
    tap::is(reply_said({op(K::get), 1, 0, 0, 0, 3, 0}, "abc"), "!value_unexpected",
            "a miss with a value");
    tap::is(reply_said({op(K::get), 0, 0, 0, 0, 3001, 0}, raw(meta)), "!value_too_long",
            "too long a value");
    tap::is(reply_said({op(K::get), 0, 0, 0, 0, 4, 0}, raw(meta) + "abcd"), "!value_mismatch",
            "a value that is not as long as its item");
    tap::is(reply_said({op(K::get), 0, 0, 0, 0, 3, 0}, raw(meta) + "ab"), "!entry_truncated",
            "a value cut short");
    tap::is(reply_said({op(K::stats), 0, 0, 0, 0, stats_bytes_max + 1, 0}, ""), "!value_too_long",
            "too long a text");
    meta.bits = 0x20;
    tap::is(reply_said({op(K::get), 0, 0, 0, 0, 3, 0}, raw(meta) + "abc"), "!meta_invalid",
            "a bit that is none");
    meta.bits = 0;
    meta.size_class = layout::large_class + 1;
    tap::is(reply_said({op(K::get), 0, 0, 0, 0, 3, 0}, raw(meta) + "abc"), "!meta_invalid",
            "one class too many");
    meta.size_class = 0;
    meta.value_len = 3001;
    tap::is(reply_said({op(K::get), 0, 0, 0, flag(ReplyFlag::no_value), 0, 0}, raw(meta)),
            "!meta_invalid", "an item larger than any, whose value is left out");
}

void grants_that_cannot_be() {
    MetaRecord meta{};
    meta.value_len = 3;
    const ReplyHeader hit{op(ReplyKind::get), 0, 0, 0, uint32_t(ReplyFlag::grant), 3, 0};
    auto said = [&](const GrantRecord& grant) {
        const std::string seen = reply_said(hit, raw(meta) + raw(grant) + "abc");
        return seen.substr(0, seen.find(' '));
    };
    const GrantRecord good{4096, 7, 0, 44, 4000, 64};
    tap::is(said(good), "got", "a grant");
    FrameLimits version_3 = from_node;
    version_3.version = version_with_in_place - 1;
    for (const uint32_t capacity : {0u, 64u}) {
        GrantRecord of_before = good;
        of_before.capacity = capacity;
        const std::string body = raw(ClockRecord{50, 1}) + raw(hit) + raw(meta) + raw(of_before) + "abc";
        const std::string seen = outcome(frame_of(FrameKind::replies, 1, body), version_3);
        tap::ok(seen.ends_with("!grant_invalid"), "a grant in version 3, of " + std::to_string(capacity) + " bytes");
        tap::note("%s", seen.c_str());
    }
    GrantRecord grant = good;
    grant.offset = 4097;
    tap::is(said(grant), "!grant_invalid", "not on a stride");
    grant = good;
    grant.generation = layout::generation_max + 1;
    tap::is(said(grant), "!grant_invalid", "a generation of too many bits");
    grant = good;
    grant.length = 43;
    tap::is(said(grant), "!grant_invalid", "shorter than the item");
    grant.length = grant.capacity = 40 + 250 + 3;
    tap::is(said(grant), "got", "as long as it can be, in a slot that it fills");
    grant.length = ++grant.capacity;
    tap::is(said(grant), "!grant_invalid", "longer than the item");
    grant = good;
    grant.term_ms = term_ms_highest + 1;
    tap::is(said(grant), "!grant_invalid", "a lease of more than a day");
    grant.term_ms = 0;
    tap::is(said(grant), "!grant_invalid", "a pointer without a lease");
    grant = good;
    grant.capacity = 43;
    tap::is(said(grant), "!grant_invalid", "a slot that is smaller than its item");
    grant.capacity = 0;
    tap::is(said(grant), "!grant_invalid", "no slot");
    grant = {};
    tap::is(said(grant), "got", "an empty record is no grant");
    grant.capacity = 64;
    tap::is(said(grant), "!grant_invalid", "a slot without a pointer");
    tap::is(reply_said({op(ReplyKind::arith), uint8_t(ArithReply::Status::exists), 0, 0, uint32_t(ReplyFlag::grant), 0, 0},
                       raw(ArithReplyRecord{}) + raw(good)),
            "!flag_unknown", "a grant of a number that was not changed");
    const Grant at_the_end{4096, 7, 0, 44, 4000, 64};
    tap::ok(grant_fits(at_the_end, 4160), "a slot that ends where its region ends");
    tap::ok(!grant_fits(at_the_end, 4159), "one that does not fit, although its item does");
    tap::ok(!grant_fits(at_the_end, 63), "nor in a region that is smaller than the slot");
    tap::ok(!grant_fits({UINT64_MAX - 15, 7, 0, 44, 4000, 64}, 1 << 20), "offsets do not wrap");
}

// Of another node's memory.
void grants_elsewhere_that_cannot_be() {
    MetaRecord meta{};
    meta.value_len = 3;
    const uint32_t both = uint32_t(ReplyFlag::grant) | uint32_t(ReplyFlag::grant_elsewhere);
    auto said = [&](const GrantRecord& grant, uint64_t incarnation, uint32_t flags) {
        const std::string seen = reply_said({op(ReplyKind::get), 0, 0, 0, flags, 3, 0},
                                            raw(meta) + raw(grant) + raw(incarnation) + "abc");
        return seen.substr(0, seen.find(' '));
    };
    const GrantRecord good{4096, 7, 0, 61, spilled_term_ms_max, 64};
    tap::is(said(good, 9, both), "got", "a grant of another node's memory");
    tap::is(said(good, 0, both), "!grant_invalid", "of no node's");
    tap::is(said(good, 9, uint32_t(ReplyFlag::grant_elsewhere)), "!flag_unknown", "without a grant");
    GrantRecord grant = good;
    grant.term_ms++;
    tap::is(said(grant, 9, both), "!grant_invalid", "for too long");
    tap::is(said({}, 9, both), "!grant_invalid", "an empty record");
    grant = good;
    grant.length--;
    tap::is(said(grant, 9, both), "!grant_invalid", "shorter than the item with any key");
    grant.length = grant.capacity = 40 + 17 + 250 + 3;
    tap::is(said(grant, 9, both), "got", "as long as it can be");
    grant.length = ++grant.capacity;
    tap::is(said(grant, 9, both), "!grant_invalid", "longer");
    grant = good;
    grant.capacity = 60;
    tap::is(said(grant, 9, both), "!grant_invalid", "a slot that is smaller than its item");
    const ReplyHeader hit{op(ReplyKind::get), 0, 0, 0, both, 3, 0};
    FrameLimits version_4 = from_node;
    version_4.version = version_with_spilled - 1;
    const std::string body = raw(ClockRecord{50, 1}) + raw(hit) + raw(meta) + raw(good) + raw(uint64_t(9)) + "abc";
    tap::ok(outcome(frame_of(FrameKind::replies, 1, body), version_4).ends_with("!flag_unknown"), "unknown to version 4");
    tap::is(reply_said({op(ReplyKind::store), 0, 0, 0, both, 0, 0}, raw(StoredRecord{}) + raw(good) + raw(uint64_t(9))),
            "!flag_unknown", "a stored item is the node's own");
}

// The number's digits are not in the frame, their count is.
void grants_of_numbers() {
    ArithReplyRecord number{};
    number.meta.value_len = 2;
    const ReplyHeader changed{op(ReplyKind::arith), uint8_t(ArithReply::Status::vivified), 0, 0, uint32_t(ReplyFlag::grant), 0, 0};
    auto said = [&](const GrantRecord& grant) { return reply_said(changed, raw(number) + raw(grant)); };
    tap::ok(said({4096, 7, 0, 43, 4000, 64}).find("term=4000 capacity=64") != std::string::npos, "a number with a grant");
    tap::is(said({4096, 7, 0, 42, 4000, 64}), "!grant_invalid", "shorter than its digits");
    tap::is(said({4096, 7, 0, 43, 4000, 42}), "!grant_invalid", "in a slot that is shorter");
    tap::is(reply_said(changed, raw(number)), "!entry_truncated", "the grant is not there");
}

void small_frames_that_cannot_be() {
    auto said = [](FrameKind kind, uint16_t count, const std::string& body) {
        const std::string seen = outcome(frame_of(kind, count, body), from_proxy);
        note_reason(seen);
        return seen.substr(is_bad(seen) ? seen.find(bad_mark) : 0);
    };
    using K = FrameKind;
    const auto of_node = [](FrameKind kind, uint16_t count, const std::string& body) {
        const std::string seen = outcome(frame_of(kind, count, body), from_node);
        return seen.substr(is_bad(seen) ? seen.find(bad_mark) : 0);
    };
    const uint32_t with = clock_with_right;
    tap::is(of_node(K::pong, 0, raw(ClockRecord{5, with}) + raw(RightRecord{7, 0})), "pong 1:  now=5 us=0 right=7",
            "a pong with a right");
    tap::is(of_node(K::pong, 0, raw(ClockRecord{5, with})), "!body_short", "without its record");
    tap::is(of_node(K::pong, 0, raw(ClockRecord{5, 0}) + raw(RightRecord{7, 0})), "!body_excess",
            "a record that nothing announces");
    tap::is(of_node(K::pong, 0, raw(ClockRecord{5, with}) + raw(RightRecord{7, 1})), "!reserved_set", "a right with more");
    tap::is(of_node(K::pong, 0, raw(ClockRecord{5, with}) + raw(RightRecord{right_ms_highest + 1, 0})), "!clock_invalid",
            "one that cannot be");
    tap::is(said(K::pong, 0, raw(ClockRecord{0, 1})), "!reserved_set",
            "a fraction of a proxy's clock");
    tap::is(said(K::chunk, 0, raw(ChunkHeader{0, 2, 0}) + "x"), "!flag_unknown", "a chunk's flag");
    tap::is(said(K::chunk, 0, raw(ChunkHeader{0, 0, 0})), "!chunk_empty", "an empty chunk");
    tap::is(said(K::chunk, 0, raw(ChunkHeader{0, 1, 0}) + "x"), "!chunk_empty",
            "bytes of an abandoned value");
    tap::is(said(K::goodbye, 0, raw(SentenceRecord{0, 2, 0}) + "x"), "!body_short",
            "a sentence cut short");
    tap::is(said(K::goodbye, 0, raw(SentenceRecord{0, 1, 0}) + "xy"), "!body_excess",
            "bytes behind it");
    tap::is(said(K::goodbye, 0, raw(SentenceRecord{0, 1, 0}) + "\n"), "!text_invalid",
            "a control character");
    tap::is(said(K::goodbye, 0, raw(SentenceRecord{0, 513, 0}) + std::string(513, 'x')),
            "!text_invalid", "too long a sentence");
    tap::is(said(K::goodbye, 0, raw(SentenceRecord{999, 1, 0}) + "x"),
            "goodbye 1: stopping text='x'", "a reason from the future");
    tap::is(said(K::lease_returns, 1, raw(LeaseReturnRecord{0, UINT64_MAX, 0, 0})),
            "!entry_invalid", "a lease of no item");
    tap::is(said(K::lease_returns, 1, raw(LeaseReturnRecord{0, 1, 0, 1})), "!reserved_set",
            "its reserved field");
    tap::is(said(K::lent, 0, raw(LentRecord{1, 1, 0, 0})), "!reserved_set", "that of a lent value");
    tap::is(said(K::lent, 0, raw(LentRecord{1, 0, 0, 0}) + "x"), "!body_excess", "bytes behind it");
    tap::is(said(K::unlent, 0, raw(UnlentRecord{1, 0})), "!kind_unexpected", "a proxy gives nothing back");
    tap::is(said(K::accesses, 1, raw(AccessRecord{0, 1})), "!entry_invalid",
            "no accesses");
}

// Reports and their answers, by their headers and by what is in them.
void reports_that_cannot_be() {
    using K = FrameKind;
    auto of = [](const FrameLimits& limits, K kind, uint16_t count, size_t body_bytes, const std::string& begins = "") {
        std::string body(body_bytes, '\0');
        body.replace(0, begins.size(), begins);
        const std::string seen = outcome(frame_of(kind, count, body), limits);
        note_reason(seen);
        if (!is_bad(seen)) return std::string("got");
        const size_t first = seen.find(bad_mark);
        return seen.substr(first, seen.find(bad_mark, first + 1) - first);
    };
    const std::string good = raw(record_of({1, 64, 1, 0, 2}));
    constexpr size_t record = sizeof(AccessRecord);
    tap::is(of(from_proxy, K::report, 1, record, good), "got", "a report");
    tap::is(of(from_proxy, K::report, 0, 0), "!count_wrong", "of nothing");
    tap::is(of(from_proxy, K::report, 2, 2 * record - 1, good), "!body_short", "cut short");
    tap::is(of(from_proxy, K::report, 1, record + 1, good), "!body_excess", "with a byte behind");
    tap::is(of(from_proxy, K::report, report_records_max, report_records_max * record, good), "!entry_invalid",
            "the longest is looked into");
    tap::is(of(from_proxy, K::report, report_records_max + 1, (report_records_max + 1) * record, good), "!frame_too_long",
            "one of more than 8 KiB is not");
    tap::is(of(from_proxy, K::report, 1, record, raw(AccessRecord{1, 4})), "!entry_invalid", "no accesses");
    auto answer = [](uint32_t left_us, uint32_t reserved, uint32_t term_ms) {
        return raw(ReportedRecord{left_us, reserved}) + raw(RenewalRecord{term_ms});
    };
    constexpr size_t head = sizeof(ReportedRecord);
    tap::is(of(from_node, K::reported, 1, head + 4, answer(report_left_us_highest, 0, term_ms_highest)), "got", "an answer");
    tap::is(of(from_node, K::reported, 0, head), "!count_wrong", "to nothing");
    tap::is(of(from_node, K::reported, 2, head + 7), "!body_short", "cut short");
    tap::is(of(from_node, K::reported, 1, head + 5), "!body_excess", "with a byte behind");
    tap::is(of(from_node, K::reported, report_records_max, head + 4 * report_records_max), "got", "the longest");
    tap::is(of(from_node, K::reported, report_records_max + 1, head + 4 * (report_records_max + 1)), "!frame_too_long",
            "to more than a report has");
    tap::is(of(from_node, K::reported, 1, head + 4, answer(0, 1, 0)), "!reserved_set", "a reserved field");
    tap::is(of(from_node, K::reported, 1, head + 4, answer(report_left_us_highest + 1, 0, 0)), "!report_invalid",
            "more than a second left");
    tap::is(of(from_node, K::reported, 1, head + 4, answer(0, 0, term_ms_highest + 1)), "!report_invalid",
            "a lease of more than a day");
    for (FrameLimits limits : {from_proxy, from_node}) {
        limits.version = version_with_in_place - 1;
        const bool proxy = limits.sender == Sender::proxy;
        tap::is(of(limits, proxy ? K::report : K::reported, 1, proxy ? record : head + 4), "!kind_unexpected",
                "an older version has none");
        if (proxy) tap::is(of(limits, K::accesses, 1, record, good), "!kind_unexpected", "nor accesses");
    }
}

// The bytes written into a container are one whole report, or one answer.
void written_that_cannot_be() {
    const std::string report = frame_of(FrameKind::report, 1, raw(record_of({1, 64, 1, 0, 2})));
    const std::string answer = frame_of(FrameKind::reported, 1, raw(ReportedRecord{0, 0}) + raw(RenewalRecord{5}));
    const auto of = [](const FrameLimits& limits, const std::string& content) {
        Frame frame;
        const FrameError error = parse_written(content, limits, frame);
        note_reason(bad_mark + std::string(frame_error_name(error)));
        return std::string(frame_error_name(error));
    };
    tap::is(of(from_proxy, report), "none", "a report");
    tap::is(of(from_node, answer), "none", "an answer");
    tap::is(of(from_node, report), "kind_unexpected", "a node reports nothing");
    tap::is(of(from_proxy, answer), "kind_unexpected", "a proxy answers nothing");
    tap::is(of(from_proxy, report + "x"), "written_mismatch", "a byte more");
    int wrong = 0;
    for (size_t bytes = 0; bytes < report.size(); bytes++) wrong += of(from_proxy, report.substr(0, bytes)) != "written_mismatch";
    tap::is(wrong, 0, "any less");
    tap::is(of(from_proxy, frame_of(FrameKind::accesses, 1, raw(record_of({1, 64, 1, 0, 2})))), "written_mismatch", "accesses");
    tap::is(of(from_proxy, frame_of(FrameKind::ping, 0, "")), "written_mismatch", "a ping");
    tap::is(of(from_node, frame_of(FrameKind::ping, 0, "")), "written_mismatch", "of a node");
}

// Every reason of a reader occurred above. The others belong to the code of exchanges, or to the greeting.
void every_reason() {
    const std::set<std::string> elsewhere = {
        "none",        "chunk_order",  "chunk_overrun", "chunk_stranger", "reply_stranger",
        "lent_mismatch", "magic_wrong", "name_invalid", "version_wrong", "facts_invalid",  "credits_exceeded",
        "request_repeated"};
    std::string missing;
    for (size_t i = 0; i < size_t(FrameError::count); i++) {
        const std::string name(frame_error_name(FrameError(i)));
        if (frame_error_help(FrameError(i)).empty()) missing += name + " has no help ";
        if (elsewhere.count(name) == 0 && reasons.count(name) == 0) missing += name + " ";
    }
    tap::is(missing, "", "every reason to end a connection was met");
}

}  // namespace

int main() {
    every_truncation();
    every_corruption();
    headers_that_cannot_be();
    kinds_by_sender_and_moment();
    requests_that_cannot_be();
    counts_that_lie();
    clocks_that_cannot_be();
    replies_that_cannot_be();
    grants_that_cannot_be();
    grants_elsewhere_that_cannot_be();
    denials_that_cannot_be();
    grants_of_numbers();
    small_frames_that_cannot_be();
    reports_that_cannot_be();
    written_that_cannot_be();
    every_reason();
    return tap::done();
}
