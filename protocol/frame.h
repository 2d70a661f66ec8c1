// SPDX-License-Identifier: BSD-3-Clause
// Frames between a proxy (farcached) and a node (farnode): the same bytes in shared-memory rings, over a stream, and as
// single messages. This file has the parser and the frames without operations. Requests and replies are in
// protocol/frame_request.h and frame_reply.h, the greeting in protocol/handshake.h, all records in
// protocol/frame_layout.h.
//
//  0          4      6       8          16
//  | body     | kind | count | sequence | body ...                   little-endian
//  | bytes    |      |       |          |
//
//  kind          from    body
//  hello         proxy   its name, versions and limits                \  the greeting: one frame each way
//  welcome       node    its name, regions and limits                  > before any other
//  refuse        node    a reason and a sentence                      /
//  requests      proxy   `count` requests; the sequence names the exchange
//  replies       node    clock, then `count` replies to requests of that sequence; one frame or several
//  chunk         either  a piece of a value that was announced in a frame of that sequence
//  ping, pong    either  the pong repeats the sequence; a node's has its clock
//  goodbye       either  a reason and a sentence; no new request or reply starts after it
//  lease_returns proxy   `count` pointers whose leases are no longer needed
//  accesses      proxy   `count` accesses that the node did not see
//  lent          proxy   the place where the node can READ a value that was announced in a frame of that sequence
//  unlent        node    it does not READ it; the value must follow in chunks
//  report        proxy   `count` accesses that the node did not see, to be answered; the sequence numbers the report
//  challenge     node    to a hello with a nonce: a nonce; instead of welcome and refuse, which follow the proof
//  proof         proxy   the name of its key, and a proof that it holds the key
//  grant         proxy   after the welcome, once: what the node must know of the proxy's memory
//  reported      node    the result for the first `count` of that report, and the time left for more
//  epoch         proxy   of the list of nodes by which it chose this one for the requests that follow
//                node    of the newest list that it knows of, once to a proxy with an older one
//
// A frame is at most as long as the greeting agreed (frame_bytes_max). So a receiver's buffer, a ring and a posted
// receive have one size, and a small request never waits behind a large value. A value that does not fit into a frame
// with its request or reply is announced there, with its length. It travels in chunks, in order, and the receiver puts
// each straight into its place; other frames may come between. A node executes a request whose value follows when the
// last byte has arrived. A proxy that needs an order between it and another request waits for its reply.
//
// Pure: bytes to fields, and fields to bytes of the caller's OutBuffer. Any thread.
//
// F1  Every length is compared with the bytes present before it is used (S10).
// F2  The same bytes give the same frames however they arrive.
// F3  The header alone rejects an impossible frame: the parser does not wait for its body.
// F4  The views of a frame point into the input.
// F5  Reserved fields are written as zero and rejected otherwise; so are fields that the agreed version lacks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/enum_text.h"
#include "base/hash.h"
#include "base/node_clock.h"
#include "base/out_buffer.h"
#include "protocol/frame_layout.h"
#include "protocol/wire.h"

namespace farcached::protocol {

// Errors in the bytes from the other end of a node connection. Each ends that connection and is counted by its name; `none`
// is no error.

//    name               help
#define FRAME_ERRORS(X)                                                                           \
    X(none, "no error")                                                                           \
    X(frame_too_long, "a frame was longer than agreed")                                           \
    X(kind_unknown, "a frame was of no known kind")                                               \
    X(kind_unexpected, "a frame's kind was not for this sender, or not for this moment")          \
    X(count_wrong, "a frame promised no entries, or entries where its kind has none")             \
    X(body_short, "a frame's body was too short for its kind and its count")                      \
    X(body_excess, "a frame had bytes behind its last entry")                                     \
    X(reserved_set, "a reserved field was not zero")                                              \
    X(entry_truncated, "a request or a reply ran over the end of its frame")                      \
    X(op_unknown, "a request or a reply was of no known operation")                               \
    X(mode_unknown, "a store was of no known mode")                                               \
    X(flag_unknown, "a flag was set that its operation does not have")                            \
    X(key_length, "a key was empty, too long, or where none belongs")                             \
    X(value_unexpected, "a value was where none belongs, or none followed where one was said to") \
    X(value_too_long, "a value was longer than agreed")                                           \
    X(value_mismatch, "a value was not as long as its item")                                      \
    X(cas_missing, "a cas had no number to compare with")                                         \
    X(hold_impossible, "a hold neither begins nor ends")                                          \
    X(status_unknown, "a reply had no known status")                                              \
    X(meta_invalid, "a reply described an item that cannot be")                                   \
    X(grant_invalid, "a reply granted a pointer or a lease that cannot be")                       \
    X(clock_invalid, "a node's clock told a fraction of a second or more")                        \
    X(entry_invalid, "a returned lease or an access was of no possible item")                     \
    X(chunk_order, "a piece of a value did not begin where the last one ended")                   \
    X(chunk_overrun, "the pieces of a value were longer than the value")                          \
    X(chunk_empty, "a piece of a value was empty, or an abandoned value had one more")            \
    X(chunk_stranger, "a piece came of a value that was not announced")                           \
    X(lent_mismatch, "a value that the proxy lent was not the one that it had announced")         \
    X(reply_stranger, "a reply came to what was not asked")                                       \
    X(report_invalid, "a report was answered with more records, more time or a longer lease than can be")       \
    X(written_mismatch, "what was written into a container was not one whole report, or one answer")               \
    X(request_repeated, "a request had the sequence, or sequence and tag, of one in flight")      \
    X(credits_exceeded, "more request frames were in flight than agreed")                     \
    X(magic_wrong, "the other end is not farcached's")                                            \
    X(name_invalid, "a name was empty, too long, or not printable")                               \
    X(text_invalid, "a sentence was too long, or not printable")                                  \
    X(version_wrong, "the node chose a protocol version that was not offered")                    \
    X(facts_invalid, "the handshake had a fact that cannot be")

enum class FrameError : uint8_t {
#define X(name, help) name,
    FRAME_ERRORS(X)
#undef X
        count
};

inline constexpr EnumText frame_error_texts[] = {
#define X(name, help) {#name, help},
    FRAME_ERRORS(X)
#undef X
};
constexpr std::string_view frame_error_name(FrameError value) { return text_of(frame_error_texts, value).name; }
constexpr std::string_view frame_error_help(FrameError value) { return text_of(frame_error_texts, value).help; }

constexpr uint32_t frame_bytes_lowest = 4 * 1024;  // holds any greeting and any request's head
constexpr uint32_t frame_bytes_default = 64 * 1024;  // a thousand small requests; stays in a cache
constexpr uint32_t frame_bytes_highest = 16 * 1024 * 1024;
constexpr uint64_t value_bytes_highest = UINT64_C(1) << 30;  // the largest -I
constexpr uint32_t stats_bytes_max = 4 * 1024 * 1024;        // the text of a stats reply
constexpr uint32_t text_bytes_max = 512;                     // of a sentence
constexpr uint32_t term_ms_highest = 24 * 60 * 60 * 1000;    // of a lease
constexpr uint32_t report_bytes_max = 8 * 1024;              // of a report, with its header; other frames may be longer
constexpr uint32_t report_records_max = (report_bytes_max - sizeof(FrameHeader)) / sizeof(AccessRecord);
constexpr uint32_t report_left_us_highest = 1'000'000;
constexpr uint32_t right_ms_highest = 60 * 60 * 1000;        // of a serving right

constexpr uint32_t grant_frame_bytes_max = sizeof(FrameHeader) + 256;  // fabric::grant_bytes_max

std::string_view frame_kind_name(FrameKind kind);

enum class Sender : uint8_t { proxy, node };

// Limits for the receiver. The initial values are those of the greeting.
struct FrameLimits {
    Sender sender = Sender::proxy;                  // at the other end
    bool greeted = false;                           // after the greeting
    uint32_t frame_bytes_max = frame_bytes_lowest;  // header and body
    uint64_t value_bytes_max = 0;                   // of an item
    uint32_t version = protocol_version;            // the agreed one
};

struct Frame {
    FrameKind kind = FrameKind::ping;
    uint16_t count = 0;
    uint64_t sequence = 0;
    std::string_view body;
};

struct FrameParse {
    enum class Status : uint8_t {
        need_more,  // the frame has at least `bytes`, as far as known
        frame,      // `frame`; it has `bytes` of the input
        bad,        // `error`
    } status = Status::need_more;
    FrameError error = FrameError::none;
    bool header_known = false;  // the header is valid, and all of `frame` but its body is set
    size_t bytes = sizeof(FrameHeader);
    Frame frame;
};

// `input`: every byte received and not yet consumed.
FrameParse parse_frame(std::string_view input, const FrameLimits& limits);

// ---- pieces of a large value ------------------------------------------------------------------------

constexpr size_t chunk_head_bytes = sizeof(FrameHeader) + sizeof(ChunkHeader);

struct Chunk {
    uint32_t tag = 0;
    bool abandoned = false;
    uint64_t offset = 0;
    uint32_t size = 0;       // bytes of the value in this chunk
    std::string_view bytes;  // as many of them as the input has
};

// `frame.body` may be cut anywhere after the ChunkHeader, when the rest of `size` is received elsewhere; `body_bytes` is
// the length in the frame's header.
FrameError parse_chunk(std::string_view body, size_t body_bytes, Chunk& chunk);
inline FrameError parse_chunk(const Frame& frame, Chunk& chunk) {
    return parse_chunk(frame.body, frame.body.size(), chunk);
}

// ---- a large value that the node READs ---------------------------------------------------------------

// Identifies the lent value.
inline uint64_t lent_check(std::string_view value) { return hash_bytes(value.data(), value.size(), 0); }

// The frame's record; its reserved fields must be 0.
FrameError parse_lent(const Frame& frame, LentRecord& lent);
FrameError parse_unlent(const Frame& frame, UnlentRecord& unlent);
void append_lent(OutBuffer& out, uint64_t sequence, const LentRecord& lent);
void append_unlent(OutBuffer& out, uint64_t sequence, uint32_t tag);

// The state of the receiver of a large value.
struct ValueProgress {
    uint64_t total = 0;     // as announced
    uint64_t received = 0;  // the next chunk begins here

    bool whole() const { return received == total; }
    // Takes the chunk, or returns why it is not the next one. Ignores the offset and size of an abandoned value's chunk.
    FrameError accept(const Chunk& chunk);
};

// The number of bytes of a value in the next chunk.
constexpr uint32_t chunk_size(uint64_t left, uint32_t frame_bytes_max) {
    const uint64_t most = frame_bytes_max - chunk_head_bytes;
    return uint32_t(left < most ? left : most);
}
// Writes the head of a chunk, chunk_head_bytes, at `to`; returns the end.
char* write_chunk_head(char* to, uint64_t sequence, uint32_t tag, uint64_t offset, uint32_t size);
void append_abandoned(OutBuffer& out, uint64_t sequence, uint32_t tag);

// ---- frames without entries -------------------------------------------------------------------------

void append_ping(OutBuffer& out, uint64_t sequence);

// epoch: as in EpochRecord. To a node of version_with_epoch or later, to a proxy of version_with_newest_epoch or later.
void append_epoch(OutBuffer& out, uint64_t epoch);
uint64_t epoch_of(const Frame& frame);

// now: the node's clock, with its fraction from version_with_now_us on only, and its right from version_with_right on; from a
// proxy zero.
void append_pong(OutBuffer& out, uint64_t sequence, const NodeReading& now);
FrameError parse_pong(const Frame& frame, const FrameLimits& limits, NodeReading& now);

//        name            text
#define GOODBYES(X)                                                      \
    X(stopping, "the process stops")                                     \
    X(draining, "the operator drains it; what is in flight is answered") \
    X(idle, "nothing was heard for too long")                            \
    X(protocol_error, "the other end sent what is no frame")             \
    X(no_memory, "out of memory for the connection")                     \
    X(authentication, "its key is no longer accepted")

enum class Goodbye : uint16_t {
#define X(name, text) name,
    GOODBYES(X)
#undef X
        count
};
inline constexpr EnumText goodbye_texts[] = {
#define X(name, text) {#name, text},
    GOODBYES(X)
#undef X
};
constexpr std::string_view goodbye_name(Goodbye value) { return text_of(goodbye_texts, value).name; }
constexpr std::string_view goodbye_text(Goodbye value) { return text_of(goodbye_texts, value).help; }

struct GoodbyeFrame {
    Goodbye reason = Goodbye::stopping;  // also for an unknown reason
    std::string_view text;               // printable
};
// Longer text is cut.
void append_goodbye(OutBuffer& out, Goodbye reason, std::string_view text);
FrameError parse_goodbye(const Frame& frame, GoodbyeFrame& goodbye);

// ---- lists from a proxy without a reply -------------------------------------------------------------

// The `index`th entry of a frame that parse_frame returned; index < frame.count.
FrameError lease_return_at(const Frame& frame, uint32_t index, LeaseReturnRecord& entry);
FrameError access_at(const Frame& frame, uint32_t index, ItemAccess& entry);  // of accesses, or of a report

// ---- the answer to a report ---------------------------------------------------------------------------

// terms_ms: of the records that the node examined, in their order: at least one, at most report_records_max.
void append_reported(OutBuffer& out, uint64_t sequence, uint32_t left_us, std::span<const uint32_t> terms_ms);
FrameError parse_reported(const Frame& frame, uint32_t& left_us);
FrameError renewal_at(const Frame& frame, uint32_t index, uint32_t& term_ms);

// ---- frames in containers -----------------------------------------------------------------------------

// content: a private copy of the container, as long as the other end announced. It must be one whole frame of kind report
// or reported (fabric/channel.h, C7). The frame's body is a view into the copy.
FrameError parse_written(std::string_view content, const FrameLimits& limits, Frame& frame);

// ---- for writers of frames --------------------------------------------------------------------------

inline char* write_frame_header(char* to, const FrameHeader& header) {
    std::memcpy(to, &header, sizeof header);
    return to + sizeof header;
}

// The header of a frame without entries, whose body the caller appends.
inline void append_frame_header(OutBuffer& out, FrameKind kind, uint64_t sequence, size_t body_bytes) {
    write_frame_header(out.reserve(sizeof(FrameHeader)), {uint32_t(body_bytes), uint16_t(kind), 0, sequence});
    out.commit(sizeof(FrameHeader));
}

// The bytes of a frame, header and body.
std::string whole_frame(const Frame& frame);

// A node's reading: a ClockRecord, and a RightRecord if the reading has a right.
constexpr size_t clock_bytes(const NodeReading& now) {
    return sizeof(ClockRecord) + (now.right_ms.has_value() ? sizeof(RightRecord) : 0);
}
char* write_clock(char* to, const NodeReading& now);
// The sender's.
FrameError take_clock(wire::Cursor& at, const FrameLimits& limits, NodeReading& now);
// The two parts of it. now_us: of a node's record, of that version.
uint32_t told_us(const NodeReading& now);
FrameError read_clock_us(uint32_t now_us, uint32_t version, NodeReading& now);
FrameError take_right(wire::Cursor& at, NodeReading& now);

// Printable ASCII and blanks only: fit for a log line.
bool printable(std::string_view text);

// A frame of kind goodbye or refuse.
void append_sentence(OutBuffer& out, FrameKind kind, uint16_t reason, std::string_view text);
FrameError parse_sentence(const Frame& frame, uint16_t& reason, std::string_view& text);

}  // namespace farcached::protocol
