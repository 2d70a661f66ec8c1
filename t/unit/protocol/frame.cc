// SPDX-License-Identifier: BSD-3-Clause
// Frames: a reader gets what was written, however the bytes arrive; the bytes themselves are pinned. Bytes that are no
// frames are in t/unit/protocol/frame_bad, the greeting in t/unit/protocol/handshake.
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "t/lib/tap.h"
#include "t/unit/protocol/frame_streams.h"

namespace {

using namespace frame_streams;

// ---- requests ---------------------------------------------------------------------------------------

void requests_at_random() {
    Draw draw(1);
    int wrong = 0;
    for (int i = 0; i < 3000; i++) {
        OutBuffer out;
        const std::string want = write_requests(out, draw, draw.number<uint64_t>());
        if (read_all(bytes_of(out), from_proxy) != want) wrong++;
    }
    tap::is(wrong, 0, "3000 request frames: what was written is what is read");
}

// One request alone: written size as promised, and read back.
template <class Op>
bool alone(const Op& op, const RequestOptions& options) {
    OutBuffer out;
    FrameWriter writer(out, frame_bytes_default);
    writer.begin(FrameKind::requests, 7);
    if (!writer.add(op, options)) return false;
    writer.end();
    if (out.size() != sizeof(FrameHeader) + request_bytes(op, options)) return false;
    return read_all(bytes_of(out), from_proxy) ==
           "requests 7: " + describe(as_read(op, options)) + "\n\n";
}

template <class T>
std::optional<T> if_bit(uint32_t mask, uint32_t bit, T value) {
    if ((mask & bit) == 0) return std::nullopt;
    return value;
}

// Every combination of optionals and choices of one operation.
void every_get() {
    int wrong = 0;
    for (uint32_t mask = 0; mask < 4096; mask++) {
        GetOp op;
        op.key = {"a key", 0};
        op.cas_set = if_bit<uint64_t>(mask, 1, 11);
        op.touch = if_bit<NodeSeconds>(mask, 2, 12);
        op.vivify = if_bit<NodeSeconds>(mask, 4, 13);
        op.recache_before = if_bit<NodeSeconds>(mask, 8, 14);
        op.peek = (mask & 16) != 0;
        op.no_bump = (mask & 32) != 0;
        op.win_tokens = (mask & 64) != 0;
        op.recache_first = (mask & 128) != 0;
        op.key_binary = (mask & 256) != 0;
        op.moved_since = if_bit<uint64_t>(mask, 2048, 15);
        const RequestOptions options{5, (mask & 512) != 0, (mask & 1024) != 0, false};
        if (!alone(op, options)) wrong++;
    }
    tap::is(wrong, 0, "get: every combination of its 12 choices");
}

void every_store() {
    int wrong = 0;
    for (uint32_t mask = 0; mask < 512; mask++) {
        for (uint32_t mode = 0; mode <= uint32_t(StoreOp::Mode::cas); mode++) {
            StoreOp op;
            op.key = {"a key", 0};
            op.mode = StoreOp::Mode(mode);
            op.value = "a value";
            op.flags = 21;
            op.exptime = 22;
            op.cas_compare = if_bit<uint64_t>(mask, 1, 23);
            if (op.mode == StoreOp::Mode::cas) op.cas_compare = 0;
            op.cas_set = if_bit<uint64_t>(mask, 2, 24);
            op.vivify = if_bit<NodeSeconds>(mask, 4, 25);
            op.invalidate = (mask & 8) != 0;
            op.key_binary = (mask & 16) != 0;
            op.forget = (mask & 128) != 0;
            op.spilled = (mask & 256) != 0;
            const RequestOptions options{6, false, (mask & 32) != 0, (mask & 64) != 0};
            if (!alone(op, options)) wrong++;
        }
    }
    tap::is(wrong, 0, "store: every mode and combination of its 9 choices");
}

void every_remove_and_arith() {
    int wrong = 0;
    for (uint32_t mask = 0; mask < 128; mask++) {
        DeleteOp remove;
        remove.key = {"a key", 0};
        remove.cas_compare = if_bit<uint64_t>(mask, 1, 31);
        remove.cas_set = if_bit<uint64_t>(mask, 2, 32);
        remove.touch = if_bit<NodeSeconds>(mask, 4, 33);
        remove.invalidate = (mask & 8) != 0;
        remove.remove_value = (mask & 16) != 0;
        if (!alone(remove, RequestOptions{mask})) wrong++;
        ArithOp arith;
        arith.key = {"a key", 0};
        arith.delta = UINT64_MAX;
        arith.initial = 41;
        arith.cas_compare = if_bit<uint64_t>(mask, 1, 42);
        arith.cas_set = if_bit<uint64_t>(mask, 2, 43);
        arith.touch = if_bit<NodeSeconds>(mask, 4, 44);
        arith.vivify = if_bit<NodeSeconds>(mask, 8, 0);
        arith.decrement = (mask & 16) != 0;
        arith.key_binary = (mask & 32) != 0;
        if (!alone(arith, RequestOptions{mask, false, (mask & 64) != 0})) wrong++;
    }
    tap::is(wrong, 0, "remove and arith: every combination of their choices");
}

// ---- replies ----------------------------------------------------------------------------------------

void replies_at_random() {
    Draw draw(2);
    int wrong = 0;
    for (int i = 0; i < 3000; i++) {
        OutBuffer out;
        const std::string want = write_replies(out, draw, draw.number<uint64_t>());
        if (read_all(bytes_of(out), from_node) != want) wrong++;
    }
    tap::is(wrong, 0, "3000 frames of replies: what was written is what is read");
}

// As a node writes a hit: the value before the reply is known, the grant decided last.
void a_hit_in_place() {
    OutBuffer out;
    ReplyWriter writer(out, frame_bytes_default, 3, {50});
    GetReply reply;
    reply.status = GetReply::Status::hit;
    reply.why = Miss::none;
    reply.meta.value_len = 5;
    const size_t head = hit_head_bytes(true);
    char* to = writer.room(head + 5);
    std::memcpy(to + head, "value", 5);
    ReplyOptions options;
    options.tag = 9;
    options.value = ValueForm::here;
    options.grant_room = true;
    char* end = write_reply_head(to, reply, options);
    tap::ok(end == to + head, "the head of a hit is as long as promised");
    writer.commit(head + 5);
    writer.end();
    const std::string seen = read_all(bytes_of(out), from_node);
    tap::ok(seen.find("value='value'") != std::string::npos, "the value is behind it");
    tap::ok(seen.find("term=") == std::string::npos, "room for a grant is no grant");
}

// The incarnation of another node stands behind the grant, and only there.
void a_grant_elsewhere() {
    GetReply reply;
    reply.status = GetReply::Status::hit;
    reply.meta.value_len = 5;
    ReplyOptions options;
    options.grant = Grant{4096, 7, 3, uint32_t(spilled_item_bytes(3, 5)), spilled_term_ms_max, 96};
    const auto written = [&](uint64_t incarnation) {
        options.grant->incarnation = incarnation;
        if (incarnation == 0) options.grant->length = uint32_t(layout::item_bytes(3, 5));
        OutBuffer out;
        ReplyWriter writer(out, frame_bytes_default, 3, {50});
        writer.add(reply, options);
        writer.end();
        return std::string(bytes_of(out));
    };
    const std::string elsewhere = written(0x1122334455667788), here = written(0);
    tap::is(elsewhere.size() - here.size(), size_t(8), "a grant of another node's memory takes eight bytes more");
    tap::is(elsewhere.size() - sizeof(FrameHeader) - sizeof(ClockRecord), hit_head_bytes(true, true), "as its size tells");
    const auto names = [](const std::string& bytes, std::string_view incarnation) {
        return read_all(bytes, from_node).find(incarnation) != std::string::npos;
    };
    tap::ok(names(elsewhere, " incarnation=1234605616436508552\n"), "and has its incarnation");
    tap::ok(names(here, " incarnation=0\n"), "another grant is the replying node's");
}

// The key of a spilled item, and the value of one.
void spilled_items() {
    const SpilledKey key = spilled_key(0x0807060504030201, 0x100f0e0d0c0b0a09);
    std::string want = "\x01";
    for (char c = 1; c <= 16; c++) want += c;
    tap::is(view_of(key), std::string_view(want), "a spilled item's key: mark, home, number");
    tap::ok(is_spilled_key(view_of(key)) && !is_spilled_key(view_of(key).substr(0, 16)) && !is_spilled_key("17 bytes of a key"),
            "is known by mark and length");
    tap::is(spilled_item_bytes(3, 5), layout::item_bytes(17, 8), "the item has key and value behind that key");
    tap::is(spilled_value("keyvalue", "key").value_or("none"), "value", "the value is behind the home's key");
    tap::is(spilled_value("key", "key").value_or("none"), "", "and may be empty");
    tap::ok(!spilled_value("kezvalue", "key").has_value() && !spilled_value("ke", "key").has_value(), "another key has none");
}

void statistics() {
    FrameLimits small_items = from_node;
    small_items.value_bytes_max = 10;
    OutBuffer out;
    ReplyWriter writer(out, frame_bytes_default, 3, {50});
    writer.add_stats(1, "");
    writer.add_stats(2, "STAT a 1\nSTAT b 2\n");
    writer.add_stats(3, std::string(2 * frame_bytes_default, 's'));
    writer.end();
    tap::is(read_all(bytes_of(out), small_items),
            "replies 3:  now=50 us=0\ntext tag=1 form=0 bytes=0 value=''\n"
            "text tag=2 form=1 bytes=18 value='STAT a 1\nSTAT b 2\n'\n"
            "text tag=3 form=2 bytes=131072 value=''\n\n",
            "statistics: none, here, and in chunks; their size has nothing to do with items");
}

// ---- filling frames ---------------------------------------------------------------------------------

size_t count_frames(std::string_view bytes, const FrameLimits& limits, size_t& longest) {
    size_t frames = 0;
    for (; !bytes.empty(); frames++) {
        FrameParse parse = parse_frame(bytes, limits);
        if (parse.status != FrameParse::Status::frame) return 0;
        longest = std::max(longest, parse.bytes);
        bytes.remove_prefix(parse.bytes);
    }
    return frames;
}

void frames_fill() {
    OutBuffer out;
    FrameWriter writer(out, frame_bytes_lowest);
    writer.begin(FrameKind::requests, 1);
    int requests = 0;
    while (writer.add(get_of("0123456789"), RequestOptions{})) requests++;
    writer.end();
    tap::is(requests, int((frame_bytes_lowest - 16) / 26),
            "a frame takes requests until it is full");
    tap::is(writer.count(), uint16_t(requests), "and knows how many");

    OutBuffer many;
    ReplyWriter replies(many, frame_bytes_lowest, 2, {60});
    for (int i = 0; i < 1000; i++) replies.add(DoneReply(), ReplyOptions{});
    replies.end();
    size_t longest = 0;
    tap::is(count_frames(bytes_of(many), from_node, longest), size_t(4),
            "1000 replies take four small frames");
    tap::ok(longest <= frame_bytes_lowest, "none longer than agreed");

    OutBuffer returns;
    FrameWriter lists(returns, frame_bytes_highest);
    lists.begin(FrameKind::lease_returns, 4);
    int entries = 0;
    while (lists.add(LeaseReturnRecord{64, 5, 0, 0})) entries++;
    lists.end();
    tap::is(entries, 65535, "a count has sixteen bits");

    OutBuffer none;
    ReplyWriter nothing(none, frame_bytes_lowest, 2, {60});
    nothing.end();
    tap::ok(none.empty(), "no reply, no frame");
}

// The largest value that a frame holds, and one byte more.
void a_value_that_just_fits() {
    StoreOp op;
    op.key = {"key", 0};
    const size_t most = frame_bytes_lowest - sizeof(FrameHeader) - request_head_bytes(op);
    const std::string value(most + 1, 'v');
    op.value = std::string_view(value).substr(0, most);
    tap::ok(!must_follow(op, frame_bytes_lowest), "a value that fills its frame is sent in it");
    FrameLimits limits = from_proxy;
    limits.frame_bytes_max = frame_bytes_lowest;
    limits.value_bytes_max = most;
    OutBuffer out;
    FrameWriter writer(out, frame_bytes_lowest);
    writer.begin(FrameKind::requests, 1);
    tap::ok(writer.add(op, RequestOptions{}), "it fits");
    writer.end();
    tap::ok(!read_all(bytes_of(out), limits).ends_with("!value_too_long\n"), "a value as long as agreed is read");
    limits.value_bytes_max--;
    tap::ok(read_all(bytes_of(out), limits).ends_with("!value_too_long\n"),
            "a longer value than agreed is not");

    op.value = value;
    tap::ok(must_follow(op, frame_bytes_lowest), "one byte more must follow");
    OutBuffer none;
    FrameWriter full(none, frame_bytes_lowest);
    full.begin(FrameKind::requests, 1);
    tap::ok(!full.add(op, RequestOptions{}), "it does not fit");
}

// ---- chunks -----------------------------------------------------------------------------------------

void a_large_value_in_chunks() {
    std::string value(3 * frame_bytes_lowest + 17, '\0');
    for (size_t i = 0; i < value.size(); i++) value[i] = char(i * 7);
    OutBuffer out;
    for (size_t at = 0; at < value.size();) {
        const uint32_t size = chunk_size(value.size() - at, frame_bytes_lowest);
        char* to = out.reserve(chunk_head_bytes + size);
        char* bytes = write_chunk_head(to, 5, 77, at, size);
        std::memcpy(bytes, value.data() + at, size);
        out.commit(chunk_head_bytes + size);
        at += size;
    }
    FrameLimits limits = from_node;
    limits.frame_bytes_max = frame_bytes_lowest;
    std::string got(value.size(), '\0');
    ValueProgress progress{value.size(), 0};
    std::string_view input = bytes_of(out);
    size_t wrong = 0;
    while (!input.empty()) {
        FrameParse parse = parse_frame(input, limits);
        if (parse.status != FrameParse::Status::frame) break;
        Chunk chunk;
        if (parse_chunk(parse.frame, chunk) != FrameError::none) wrong++;
        const uint64_t at = progress.received;
        if (progress.accept(chunk) != FrameError::none) wrong++;
        std::memcpy(got.data() + at, chunk.bytes.data(), chunk.bytes.size());
        if (chunk.tag != 77 || parse.frame.sequence != 5) wrong++;
        input.remove_prefix(parse.bytes);
    }
    tap::is(wrong, size_t(0), "a large value comes in chunks of its exchange");
    tap::ok(progress.whole(), "all of it");
    tap::ok(got == value, "as it was");
}

// A receiver may take the head of a chunk and receive the bytes where they belong.
void the_head_of_a_chunk() {
    OutBuffer out;
    write_chunk_head(out.reserve(chunk_head_bytes), 5, 77, 1000, 4000);
    out.commit(chunk_head_bytes);
    out.append("ab");
    FrameParse parse = parse_frame(bytes_of(out), from_node);
    tap::ok(parse.status == FrameParse::Status::need_more, "a chunk whose head has come");
    tap::ok(parse.header_known, "is known to be one");
    tap::ok(parse.frame.kind == FrameKind::chunk, "by its kind");
    Chunk chunk;
    FrameError error = parse_chunk(bytes_of(out).substr(sizeof(FrameHeader)),
                                   parse.bytes - sizeof(FrameHeader), chunk);
    tap::is(frame_error_name(error), "none", "its own header is read");
    tap::is(chunk.size, 4000u, "it will have so many bytes");
    tap::is(chunk.bytes, "ab", "of which these are here");
}

void chunks_out_of_order() {
    auto accept = [](uint64_t total, uint64_t received, Chunk chunk) {
        ValueProgress progress{total, received};
        const FrameError error = progress.accept(chunk);
        return std::string(frame_error_name(error)) + std::to_string(progress.received);
    };
    tap::is(accept(10, 4, {1, false, 4, 6, ""}), "none10", "the next piece");
    tap::is(accept(10, 4, {1, false, 3, 6, ""}), "chunk_order4", "a piece again");
    tap::is(accept(10, 4, {1, false, 5, 5, ""}), "chunk_order4", "a piece left out");
    tap::is(accept(10, 4, {1, false, 4, 7, ""}), "chunk_overrun4", "too long a piece");
    tap::is(accept(10, 10, {1, false, 10, 1, ""}), "chunk_overrun10",
            "a piece behind the last one");
    tap::is(accept(10, 4, {1, true, 0, 0, ""}), "none4", "an abandoned value");
    OutBuffer out;
    append_abandoned(out, 5, 77);
    tap::is(read_all(bytes_of(out), from_proxy),
            "chunk 5:  tag=77 abandoned=1 offset=0 size=0 bytes=''\n",
            "is sent in a chunk without bytes");
}

// ---- streams ----------------------------------------------------------------------------------------

void every_split() {
    int wrong = 0;
    size_t splits = 0;
    for (const Stream& stream : streams(2)) {
        const std::string want = read_all(stream.bytes, stream.limits);
        if (is_bad(want)) wrong++;
        Receiver single(stream.limits);
        for (char c : stream.bytes) single.feed({&c, 1});
        if (single.seen() != want || single.unread() != 0) wrong++;
        for (size_t cut = 0; cut <= stream.bytes.size(); cut++, splits++) {
            Receiver two(stream.limits);
            two.feed(std::string_view(stream.bytes).substr(0, cut));
            two.feed(std::string_view(stream.bytes).substr(cut));
            if (two.seen() != want || two.unread() != 0) wrong++;
        }
    }
    tap::note("%zu splits", splits);
    tap::is(wrong, 0, "streams of all frames, cut anywhere or byte by byte: the same frames");
}

// ---- the bytes --------------------------------------------------------------------------------------

std::string hex(std::string_view bytes) {
    std::string text;
    for (char c : bytes) {
        char pair[3];
        std::snprintf(pair, sizeof pair, "%02x", unsigned(uint8_t(c)));
        text += pair;
    }
    return text;
}

// Hexadecimal digits as they are written below, in words.
std::string words(std::string text) {
    std::erase(text, ' ');
    return text;
}

void the_bytes_of_a_get() {
    OutBuffer out;
    FrameWriter writer(out, frame_bytes_default);
    writer.begin(FrameKind::requests, 0x1122334455667788);
    GetOp get;
    get.key = {"key", 0};
    get.touch = 0x01020304;
    writer.add(get, RequestOptions{0xa1a2a3a4, false, true, false});
    writer.end();
    tap::is(hex(bytes_of(out)),
            words("17000000 0400 0100 8877665544332211 "    // FrameHeader
                  "01 00 0300 04000200 00000000 a4a3a2a1 "  // RequestHeader
                  "04030201 6b6579"),                       // touch, key
            "the bytes of a get");
}

void the_bytes_of_holds() {
    OutBuffer out;
    FrameWriter writer(out, frame_bytes_default);
    writer.begin(FrameKind::requests, 0x1122334455667788);
    writer.add(HoldOp{{"key", 0}, 0x0102}, RequestOptions{0xa1a2a3a4, false, false, false});
    writer.add(HoldOp{{"k", 0}, 0, 0xc1c2c3c4c5c6c7c8}, RequestOptions{5, false, false, false});
    writer.add(CopiesOp{CopiesOp::What::close, 0x31323334}, RequestOptions{6, false, false, false});
    writer.end();
    tap::is(hex(bytes_of(out)),
            words("5c000000 0400 0300 8877665544332211 "            // FrameHeader
                  "0b 00 0300 00000000 00000000 a4a3a2a1 "          // RequestHeader: a hold begins
                  "0000000000000000 02010000 00000000 6b6579"       // HoldRecord, key
                  "0b 00 0100 00000000 00000000 05000000 "          // one is released
                  "c8c7c6c5c4c3c2c1 00000000 00000000 6b"           // HoldRecord, key
                  "0c 00 0000 00000000 00000000 06000000 "          // copies
                  "02000000 34333231"),                             // CopiesRecord
            "the bytes of holds and of a request about copies");
}

void the_bytes_of_a_hit() {
    OutBuffer out;
    ReplyWriter replies(out, frame_bytes_default, 2, {0x05, 0x0a0b0c});
    GetReply hit;
    hit.status = GetReply::Status::hit;
    hit.why = Miss::none;
    hit.meta.cas = 0x0102030405060708;
    hit.meta.value_len = 2;
    hit.meta.flags = 0x11121314;
    hit.meta.item_bytes = 0x21222324;
    hit.meta.exptime = 0x31323334;
    hit.meta.last_access = 0x41424344;
    hit.meta.size_class = 9;
    hit.meta.fetched = hit.meta.win = hit.meta.key_binary = true;
    ReplyOptions options;
    options.tag = 0xb1b2b3b4;
    options.value = ValueForm::here;
    options.grant = Grant{0x10, 3, 1, 45, 4000, 64};
    replies.add(hit, options, "vv");
    replies.end();
    tap::is(hex(bytes_of(out)),
            words("5a000000 0500 0100 0200000000000000 "          // FrameHeader
                  "05000000 0c0b0a00 "                            // ClockRecord
                  "01 00 00 00 02000000 02000000 b4b3b2b1 "       // ReplyHeader
                  "0807060504030201 14131211 24232221 34333231 "  // MetaRecord
                  "44434241 02000000 09 15 0000 "
                  "1000000000000000 0300000000000000 "  // GrantRecord
                  "01000000 2d000000 a00f0000 40000000 "
                  "7676"),  // value
            "the bytes of a hit with a grant");
    append_pong(out, 2, {5, 0x0a0b0c, 0x0d0e0f});
    tap::is(hex(bytes_of(out)).substr(2 * bytes_of(out).size() - 64),
            words("10000000 0800 0000 0200000000000000 "  // FrameHeader
                  "05000000 0c0b0a80 "                    // ClockRecord
                  "0f0e0d00 00000000"),                   // RightRecord
            "the bytes of a pong with a right");
}

// Each end of each field, and one bit of each alone.
void the_bytes_of_an_access() {
    const auto bytes = [](const ItemAccess& item) {
        OutBuffer out;
        FrameWriter writer(out, frame_bytes_default);
        writer.begin(FrameKind::report, 0x1122334455667788);
        CHECK(writer.add(item));
        writer.end();
        const FrameLimits limits{Sender::proxy, true, frame_bytes_default, 0};
        const FrameParse parse = parse_frame(bytes_of(out), limits);
        CHECK(parse.status == FrameParse::Status::frame);
        ItemAccess read;
        const FrameError error = access_at(parse.frame, 0, read);
        ItemAccess told = item;
        told.count = std::min(told.count, access_count_max);
        if (error != FrameError::none || read != told) return std::string("read as another");
        return hex(bytes_of(out));
    };
    tap::is(bytes({0xa1a2a3a4a5a6a7a8, 0x123456789 * 16, 0x21, 0xb, 0x4321}),
            words("10000000 0e00 0100 8877665544332211 "  // FrameHeader
                  "a8a7a6a5a4a3a2a1 8967452 3b1 21 2143"), // AccessRecord: place and region share a byte
            "the bytes of an access");
    const std::string head = words("10000000 0e00 0100 8877665544332211 0000000000000000 ");
    tap::is(bytes({0, 16, 1, 0, 0}), head + words("0100000000 01 0000"), "place, in strides");
    tap::is(bytes({0, access_offset_max, 1, 0, 0}), head + words("ffffffff0f 01 0000"), "the last, 16 bytes below 1 TiB");
    tap::is(bytes({0, 0, 1, 1, 0}), head + words("0000000010 01 0000"), "region");
    tap::is(bytes({0, 0, 1, access_region_max, 0}), head + words("00000000f0 01 0000"), "the last one");
    tap::is(bytes({0, 0, 255, 0, 0}), head + words("0000000000 ff 0000"), "255 accesses");
    tap::is(bytes({0, 0, 256, 0, 0}), head + words("0000000000 ff 0000"), "or more");
    tap::is(bytes({0, 0, UINT32_MAX, 0, 0xffff}), head + words("0000000000 ff ffff"), "and a tag");
    tap::ok(!item_access(1, access_offset_max + 16, 0, 1, 1) && !item_access(1, 8, 0, 1, 1) && !item_access(1, 0, 16, 1, 1),
            "no record names a place beyond that, between strides, or in another region");
    const auto made = item_access(1, 32, 2, UINT64_C(0x123456) * layout::partitions_max + 7, 3);
    tap::ok(made == ItemAccess{1, 32, 3, 2, 0x3456}, "the tag is of the partition's count of generations");
}

// A change of any record, number or order changes this. protocol_version then goes up. The exception is an addition
// that is used only where both sides announced it (lent, unlent: the greetings of fabric/).
void the_bytes_of_all() {
    std::string all;
    for (const Stream& stream : streams(200)) all += stream.bytes;
    tap::is(protocol_version, 13u, "protocol version 13");
    tap::is(hash_bytes(all.data(), all.size(), 0), UINT64_C(2437260302100485095),
            "and what it looks like");
}

}  // namespace

int main() {
    requests_at_random();
    every_get();
    every_store();
    every_remove_and_arith();
    replies_at_random();
    a_hit_in_place();
    a_grant_elsewhere();
    spilled_items();
    statistics();
    frames_fill();
    a_value_that_just_fits();
    a_large_value_in_chunks();
    the_head_of_a_chunk();
    chunks_out_of_order();
    every_split();
    the_bytes_of_a_get();
    the_bytes_of_holds();
    the_bytes_of_a_hit();
    the_bytes_of_an_access();
    the_bytes_of_all();
    return tap::done();
}
