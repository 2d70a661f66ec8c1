// SPDX-License-Identifier: BSD-3-Clause
// Fuzz target: frames as either side receives them, of the greeting and after it. The first byte of the input selects
// which. Checked: cutting the input changes no frame; reads stay inside the input; a request or reply that was read,
// written and read again is the same.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>

#include "protocol/owned_keys.h"
#include "t/unit/protocol/frame_streams.h"

namespace {

using namespace frame_streams;

void insist(bool good) {
    if (!good) std::abort();
}

FrameLimits limits_of(uint8_t choice) {
    FrameLimits limits;
    limits.sender = (choice & 1) != 0 ? Sender::node : Sender::proxy;
    limits.greeted = (choice & 2) == 0;
    if (limits.greeted) limits.value_bytes_max = 1000;
    if ((choice & 4) != 0) limits.version = 1;
    if ((choice & 8) != 0) limits.version = version_with_spilled - 1;
    if ((choice & 16) != 0) limits.version = version_with_right - 1;
    return limits;
}

// The frame's requests once more, as they were read; those of an announced value with a value of
// that length.
void write_again(const Frame& frame, const FrameLimits& limits) {
    static const std::string any_value(1000, 'v');
    OutBuffer out;
    FrameWriter writer(out, frame_bytes_highest);
    writer.begin(FrameKind::requests, frame.sequence);
    RequestReader reader(frame, limits);
    NodeRequest request;
    FrameStep step;
    while ((step = reader.next(request)) == FrameStep::entry) {
        StoreOp* store = std::get_if<StoreOp>(&request.op);
        if (request.options.value_follows)
            store->value = std::string_view(any_value).substr(0, request.value_bytes);
        const FlushOp* flush = std::get_if<FlushOp>(&request.op);
        if (flush != nullptr && !flush->kept.empty())
            if (const auto kept = parse_kept(flush->kept)) insist(kept_text(*kept) == flush->kept);
        std::visit([&](const auto& op) { insist(writer.add(op, request.options)); }, request.op);
    }
    if (step == FrameStep::bad) return;
    writer.end();
    insist(bytes_of(out).substr(sizeof(FrameHeader)) == frame.body);
}

void write_replies_again(const Frame& frame, const FrameLimits& limits) {
    OutBuffer out;
    ReplyReader reader(frame, limits);
    ReplyWriter writer(out, frame_bytes_highest, frame.sequence, reader.now());
    NodeReply reply;
    FrameStep step;
    while ((step = reader.next(reply)) == FrameStep::entry) {
        if (std::holds_alternative<StatsReply>(reply.op)) return;  // written from its text alone
        add_reply(writer, reply, false);
    }
    if (step == FrameStep::bad) return;
    writer.end();
    FrameLimits wide = limits;
    wide.frame_bytes_max = frame_bytes_highest;
    insist(read_all(bytes_of(out), wide) == read_frame(frame, limits) + "\n");
}

void first_frame(std::string_view bytes, const FrameLimits& limits) {
    FrameParse parse = parse_frame(bytes, limits);
    if (parse.status != FrameParse::Status::frame) return;
    insist(parse.bytes <= bytes.size());
    if (parse.frame.kind == FrameKind::requests) write_again(parse.frame, limits);
    if (parse.frame.kind == FrameKind::replies) write_replies_again(parse.frame, limits);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 2) return 0;
    const FrameLimits limits = limits_of(data[0]);
    const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
    Receiver whole(limits);
    whole.feed(bytes);
    Receiver single(limits);
    for (char c : bytes) single.feed({&c, 1});
    insist(single.seen() == whole.seen());
    const size_t cut = (size_t(data[size - 1]) * 257 + data[size / 2]) % bytes.size();
    Receiver two(limits);
    two.feed(bytes.substr(0, cut));
    two.feed(bytes.substr(cut));
    insist(two.seen() == whole.seen());
    insist(whole.trouble().empty());
    first_frame(bytes, limits);
    return 0;
}
