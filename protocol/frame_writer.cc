// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/frame_writer.h"

namespace farcached::protocol {

void FrameWriter::begin(FrameKind kind, uint64_t sequence) {
    CHECK(!open_);
    open_ = true;
    start_ = out_.size();
    header_ = {0, uint16_t(kind), 0, sequence};
    out_.reserve(sizeof header_);
    out_.commit(sizeof header_);
}

void FrameWriter::begin_replies(uint64_t sequence, const NodeReading& now) {
    begin(FrameKind::replies, sequence);
    write_clock(out_.reserve(clock_bytes(now)), now);
    out_.commit(clock_bytes(now));
    header_.body_bytes = uint32_t(clock_bytes(now));
}

char* FrameWriter::room(size_t bytes) {
    CHECK(open_);
    if (bytes > frame_bytes_max_ - sizeof header_ - header_.body_bytes) return nullptr;
    if (header_.count == UINT16_MAX) return nullptr;
    return out_.reserve(bytes);
}

void FrameWriter::commit(size_t bytes) {
    CHECK(open_);
    CHECK(bytes <= frame_bytes_max_ - sizeof header_ - header_.body_bytes);
    out_.commit(bytes);
    header_.body_bytes += uint32_t(bytes);
    header_.count++;
}

void FrameWriter::end() {
    CHECK(open_);
    CHECK(header_.count != 0);
    write_frame_header(out_.at(start_), header_);
    open_ = false;
}

char* ReplyWriter::room(size_t bytes) {
    if (frame_.open()) {
        if (char* to = frame_.room(bytes)) return to;
        frame_.end();
    }
    frame_.begin_replies(sequence_, now_);
    char* to = frame_.room(bytes);
    CHECK(to != nullptr);
    return to;
}

void ReplyWriter::add_stats(uint32_t tag, std::string_view text) {
    ReplyOptions options;
    options.tag = tag;
    const bool follows = must_follow(sizeof(ReplyHeader), text.size());
    if (!text.empty()) options.value = follows ? ValueForm::follows : ValueForm::here;
    const size_t bytes = sizeof(ReplyHeader) + (follows ? 0 : text.size());
    char* to = write_stats_head(room(bytes), uint32_t(text.size()), options);
    if (!follows) wire::put_bytes(to, text);
    commit(bytes);
}

void ReplyWriter::end() {
    if (frame_.open()) frame_.end();
}

}  // namespace farcached::protocol
