// SPDX-License-Identifier: BSD-3-Clause
// Streams of frames for the tests of frames: drawn by seed, with what their reader should see.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "t/unit/protocol/frame_random.h"
#include "t/unit/protocol/frame_words.h"

namespace frame_streams {

using namespace frame_words;
using frame_random::Draw;

constexpr FrameLimits from_proxy{Sender::proxy, true, frame_bytes_default,
                                 frame_random::value_bytes_max};
constexpr FrameLimits from_node{Sender::node, true, frame_bytes_default,
                                frame_random::value_bytes_max};

inline std::string_view bytes_of(const OutBuffer& out) { return {out.data(), out.size()}; }

// A copy of exact size, so that the sanitizer sees a read behind it.
struct Exact {
    explicit Exact(std::string_view bytes) : data(new char[bytes.size()]), size(bytes.size()) {
        if (size != 0) std::memcpy(data.get(), bytes.data(), size);
    }
    std::string_view view() const { return {data.get(), size}; }
    std::unique_ptr<char[]> data;
    size_t size;
};

// The frames that a receiver reads from bytes that came whole.
inline std::string read_all(std::string_view bytes, const FrameLimits& limits) {
    Receiver receiver(limits);
    receiver.feed(bytes);
    return receiver.seen();
}

inline GetOp get_of(std::string_view key) {
    GetOp op;
    op.key = {key, 0};
    return op;
}

// In the form in which the reader returns it.
inline NodeRequest as_read(RequestOp op, const RequestOptions& options) {
    NodeRequest request;
    request.options = options;
    if (StoreOp* store = std::get_if<StoreOp>(&op)) {
        request.value_bytes = uint32_t(store->value.size());
        if (options.value_follows) store->value = {};
    }
    request.op = op;
    return request;
}

// A frame of requests, and what should be read from it.
inline std::string write_requests(OutBuffer& out, Draw& draw, uint64_t sequence) {
    FrameWriter writer(out, frame_bytes_default);
    writer.begin(FrameKind::requests, sequence);
    std::string want = "requests " + std::to_string(sequence) + ": ";
    for (uint64_t left = draw.entries(); left > 0; left--) {
        const RequestOp op = draw.request();
        const RequestOptions options = draw.options(op);
        bool fits = std::visit([&](const auto& o) { return writer.add(o, options); }, op);
        if (!fits) break;
        want += describe(as_read(op, options)) + "\n";
    }
    writer.end();
    return want + "\n";
}

inline void add_reply(ReplyWriter& writer, const NodeReply& reply, bool grant_room) {
    ReplyOptions options;
    options.tag = reply.tag;
    options.value = reply.form;
    options.grant = reply.grant;
    options.denied = reply.denied;
    options.grant_room = grant_room;
    std::visit(
        [&](const auto& op) {
            if constexpr (!std::is_same_v<std::decay_t<decltype(op)>, StatsReply>)
                writer.add(op, options, reply.value);
        },
        reply.op);
}

inline std::string write_replies(OutBuffer& out, Draw& draw, uint64_t sequence) {
    NodeReading now{draw.number<NodeSeconds>(), draw.number<uint32_t>() % (reading_us_max + 1)};
    if (draw.coin()) now.right_ms = draw.number<uint32_t>() % (right_ms_highest + 1);
    ReplyWriter writer(out, frame_bytes_default, sequence, now);
    std::string want =
        "replies " + std::to_string(sequence) + ": " + describe(now) + "\n";
    size_t left = frame_bytes_default / 2;  // all in one frame
    for (uint64_t n = draw.entries(); n > 0; n--) {
        const NodeReply reply = draw.reply();
        if (reply.value.size() + 300 > left) break;
        left -= reply.value.size() + 300;
        add_reply(writer, reply, draw.coin());
        want += describe(reply) + "\n";
    }
    writer.end();
    return want + "\n";
}

// One of each kind that this side may send after the greeting, with requests and replies of every
// operation.
inline void write_stream(OutBuffer& out, Sender sender, Draw& draw, int lists) {
    append_ping(out, 1);
    for (int i = 0; i < lists; i++) {
        if (sender == Sender::proxy) write_requests(out, draw, 2 + uint64_t(i));
        if (sender == Sender::node) write_replies(out, draw, 2 + uint64_t(i));
    }
    append_pong(out, 90, sender == Sender::node ? NodeReading{12345, 678'901} : NodeReading());
    append_epoch(out, 0x0102030405060708);
    if (sender == Sender::proxy) {
        FrameWriter writer(out, frame_bytes_default);
        writer.begin(FrameKind::lease_returns, 91);
        writer.add(LeaseReturnRecord{4096, layout::generation_max, 3, 0});
        writer.add(LeaseReturnRecord{64, 1, 0, 0});
        writer.end();
        writer.begin(FrameKind::accesses, 92);
        writer.add(ItemAccess{0xfeed, 128, 1, 0, 17});
        writer.end();
        writer.begin(FrameKind::report, 95);
        writer.add(ItemAccess{0xfeed, 128, 1, 0, 17});
        writer.add(ItemAccess{UINT64_MAX, access_offset_max, UINT32_MAX, access_region_max, UINT16_MAX});
        writer.end();
    } else {
        append_reported(out, 95, 473, std::array<uint32_t, 2>{4000, 0});
    }
    write_chunk_head(out.reserve(chunk_head_bytes + 3), 93, 4, 0, 3);
    std::memcpy(out.reserve(chunk_head_bytes + 3) + chunk_head_bytes, "abc", 3);
    out.commit(chunk_head_bytes + 3);
    append_abandoned(out, 93, 5);
    if (sender == Sender::proxy)
        append_lent(out, 94, {6, 0, 4096, lent_check("a value")});
    else
        append_unlent(out, 94, 6);
    append_goodbye(out, Goodbye::draining, goodbye_text(Goodbye::draining));
}

struct Stream {
    FrameLimits limits;
    std::string bytes;
};

inline std::vector<Stream> streams(int lists, bool brief = false) {
    std::vector<Stream> all;
    for (const FrameLimits& limits : {from_proxy, from_node}) {
        OutBuffer out;
        Draw draw(4, brief);
        write_stream(out, limits.sender, draw, lists);
        all.push_back({limits, std::string(bytes_of(out))});
    }
    return all;
}

inline std::vector<std::string_view> frames_of(const Stream& stream) {
    std::vector<std::string_view> frames;
    std::string_view rest = stream.bytes;
    while (!rest.empty()) {
        FrameParse parse = parse_frame(rest, stream.limits);
        CHECK(parse.status == FrameParse::Status::frame);
        frames.push_back(rest.substr(0, parse.bytes));
        rest.remove_prefix(parse.bytes);
    }
    return frames;
}

}  // namespace frame_streams
