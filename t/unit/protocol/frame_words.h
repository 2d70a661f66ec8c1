// SPDX-License-Identifier: BSD-3-Clause
// Frames in words, for t/unit/protocol/frame and the fuzz target. They hold all that a reader returns, with every byte
// read. So two readings can be compared, and the sanitizer finds a view that leaves its frame.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "protocol/frame.h"
#include "protocol/frame_reply.h"
#include "protocol/frame_request.h"
#include "protocol/frame_writer.h"
#include "protocol/handshake.h"

namespace frame_words {

using namespace farcached;
using namespace farcached::protocol;

// Begins the reason in the words of bad bytes; nowhere else.
constexpr char bad_mark = '!';

class Words {
  public:
    template <class T>
    Words& operator()(std::string_view name, const T& value) {
        text_ += " ";
        text_ += name;
        text_ += "=";
        if constexpr (std::is_convertible_v<const T&, std::string_view>) {
            text_ += "'";
            for (char c : std::string_view(value)) text_ += c == bad_mark ? '?' : c;
            text_ += "'";
        } else if constexpr (std::is_enum_v<T>) {
            text_ += std::to_string(uint64_t(value));
        } else {
            text_ += std::to_string(value);
        }
        return *this;
    }
    template <class T>
    Words& operator()(std::string_view name, const std::optional<T>& value) {
        return value.has_value() ? (*this)(name, *value) : *this;
    }
    std::string take() { return std::move(text_); }

  private:
    std::string text_;
};

inline std::string describe(const GetOp& op) {
    return "get" + Words()("key", op.key.bytes)("peek", op.peek)("no_bump", op.no_bump)(
                       "win", op.win_tokens)("touch", op.touch)("vivify", op.vivify)(
                       "recache", op.recache_before)("first", op.recache_first)(
                       "cas_set", op.cas_set)("binary", op.key_binary)("moved", op.moved_since)
                       .take();
}
inline std::string describe(const StoreOp& op) {
    return "store" +
           Words()("key", op.key.bytes)("mode", op.mode)("value", op.value)("flags", op.flags)(
               "exptime", op.exptime)("compare", op.cas_compare)("cas_set", op.cas_set)(
               "invalidate", op.invalidate)("vivify", op.vivify)("binary", op.key_binary)(
               "forget", op.forget)("spilled", op.spilled)("moved", op.moved_since)
               .take();
}
inline std::string describe(const DeleteOp& op) {
    return "remove" +
           Words()("key", op.key.bytes)("compare", op.cas_compare)("cas_set", op.cas_set)(
               "touch", op.touch)("invalidate", op.invalidate)("remove_value", op.remove_value)
               .take();
}
inline std::string describe(const ArithOp& op) {
    return "arith" + Words()("key", op.key.bytes)("decrement", op.decrement)("delta", op.delta)(
                         "vivify", op.vivify)("initial", op.initial)("compare", op.cas_compare)(
                         "cas_set", op.cas_set)("touch", op.touch)("binary", op.key_binary)
                         .take();
}
inline std::string describe(const ForgetOp& op) {
    return "forget" + Words()("key", op.key.bytes).take();
}
inline std::string describe(const FlushOp& op) {
    if (!op.prefix.empty()) return "flush prefix=" + std::string(op.prefix);
    if (!op.kept.empty()) return "flush kept=" + std::to_string(op.kept.size());
    return "flush" + Words()("at", op.at).take();
}
inline std::string describe(const StatsOp& op) {
    return "stats" + Words()("group", op.group).take();
}

inline std::string describe(const HoldOp& op) {
    return "hold" + Words()("key", op.key.bytes)("seconds", op.seconds)("release", op.release).take();
}

inline std::string describe(const CopiesOp& op) { return "copies" + Words()("what", op.what)("name", op.name).take(); }

inline std::string describe(const NodeRequest& request) {
    const RequestOptions& o = request.options;
    return std::visit([](const auto& op) { return describe(op); }, request.op) +
           Words()("tag", o.tag)("no_value", o.no_value)("grant", o.want_grant)(
               "follows", o.value_follows)("bytes", request.value_bytes)
               .take();
}

inline std::string describe(const ItemMeta& meta) {
    return Words()("cas", meta.cas)("len", meta.value_len)("flags", meta.flags)(
               "item", meta.item_bytes)("exptime", meta.exptime)("access", meta.last_access)(
               "class", meta.size_class)("fetched", meta.fetched)("stale", meta.stale)(
               "win", meta.win)("sent", meta.win_sent)("binary", meta.key_binary)
        .take();
}
inline std::string describe(const GetReply& reply) {
    const bool hit = reply.status == GetReply::Status::hit;  // else no meta is sent
    return "got" +
           Words()("status", reply.status)("why", reply.why)("vivified", reply.vivified).take() +
           (hit ? describe(reply.meta) : std::string());
}
inline std::string describe(const StoreReply& reply) {
    return "stored" +
           Words()("status", reply.status)("cas", reply.cas)("item", reply.item_bytes)(
               "len", reply.value_len)("class", reply.size_class)("exptime", reply.exptime)
               .take();
}
inline std::string describe(const DeleteReply& reply) {
    return "removed" +
           Words()("status", reply.status)("class", reply.size_class)("item", reply.item_bytes)
               .take();
}
inline std::string describe(const ArithReply& reply) {
    return "number" + Words()("status", reply.status)("value", reply.value).take() +
           describe(reply.meta);
}
inline std::string describe(const DoneReply&) { return "done"; }
inline std::string describe(const StatsReply&) { return "text"; }
inline std::string describe(const RefusedReply& reply) {
    return "refused " + std::string(request_refusal_name(reply.reason));
}

inline std::string describe(const NodeReply& reply) {
    std::string text = std::visit([](const auto& op) { return describe(op); }, reply.op) +
                       Words()("tag", reply.tag)("form", reply.form)("bytes", reply.value_bytes)(
                           "value", reply.value)
                           .take();
    if (reply.grant.has_value())
        text += Words()("region", reply.grant->region)("offset", reply.grant->offset)(
                    "length", reply.grant->length)("generation", reply.grant->generation)(
                    "term", reply.grant->term_ms)("capacity", reply.grant->capacity)(
                    "incarnation", reply.grant->incarnation)
                    .take();
    if (reply.denied != LeaseDenial::none) text += Words()("denied", lease_denial_name(reply.denied)).take();
    return text;
}

inline std::string describe(const Versions& v) {
    return Words()("protocol", v.protocol)("lowest", v.protocol_lowest)("layout", v.layout)(
               "hash", v.layout_hash)
        .take();
}
inline std::string describe(const Hello& hello) {
    return "hello" + describe(hello.speaks) +
           Words()("name", hello.name)("host", hello.host)("pid", hello.pid)(
               "frame", hello.frame_bytes_max)("credits", hello.credits)("copies", hello.copies)
               .take();
}
inline std::string describe(const NodeReading& now) {
    return Words()("now", now.seconds)("us", now.us)("right", now.right_ms).take();
}
inline std::string describe(const Welcome& w) {
    std::string text =
        "welcome" +
        Words()("version", w.version)("layout", w.layout_version)("hash", w.layout_hash)(
            "name", w.name)("incarnation", w.incarnation)("seed", w.hash_seed)(
            "secret", w.check_secret)("now", w.now.seconds)("us", w.now.us)("started", w.started_unix)(
            "item", w.item_bytes_max)("frame", w.frame_bytes_max)("credits", w.credits)(
            "min", w.term_ms_min)("max", w.term_ms_max)("grace", w.grace_ms)
            .take();
    for (const RegionFact& region : w.regions)
        text += Words()("region", region.id)("bytes", region.bytes)("access", region.access).take();
    return text;
}
inline std::string describe(const Refuse& refuse) {
    return "refuse " + std::string(refusal_name(refuse.reason)) +
           Words()("text", refuse.text).take();
}

inline std::string bad(FrameError error) { return bad_mark + std::string(frame_error_name(error)); }

inline bool is_bad(std::string_view seen) { return seen.find(bad_mark) != std::string_view::npos; }

template <class T>
std::string said(FrameError error, const T& what) {
    return error == FrameError::none ? what : bad(error);
}

inline std::string read_requests(const Frame& frame, const FrameLimits& limits) {
    RequestReader reader(frame, limits);
    NodeRequest request;
    std::string text;
    FrameStep step;
    while ((step = reader.next(request)) == FrameStep::entry) text += describe(request) + "\n";
    return step == FrameStep::end ? text : text + bad(reader.error());
}

inline std::string read_replies(const Frame& frame, const FrameLimits& limits) {
    ReplyReader reader(frame, limits);
    NodeReply reply;
    std::string text = describe(reader.now()) + "\n";
    FrameStep step;
    while ((step = reader.next(reply)) == FrameStep::entry) text += describe(reply) + "\n";
    return step == FrameStep::end ? text : text + bad(reader.error());
}

inline std::string read_lists(const Frame& frame) {
    std::string text;
    for (uint32_t i = 0; i < frame.count; i++) {
        if (frame.kind == FrameKind::lease_returns) {
            LeaseReturnRecord entry;
            FrameError error = lease_return_at(frame, i, entry);
            text += said(error, Words()("offset", entry.offset)("generation", entry.generation)(
                                    "region", entry.region)
                                    .take());
        } else {
            ItemAccess entry;
            FrameError error = access_at(frame, i, entry);
            text += said(error, Words()("hash", entry.hash)("offset", entry.offset)("region", entry.region)(
                                    "count", entry.count)("generation_tag", entry.generation_tag)
                                    .take());
        }
    }
    return text;
}

inline std::string read_chunk(const Frame& frame) {
    Chunk chunk;
    FrameError error = parse_chunk(frame, chunk);
    return said(error, Words()("tag", chunk.tag)("abandoned", chunk.abandoned)(
                           "offset", chunk.offset)("size", chunk.size)("bytes", chunk.bytes)
                           .take());
}

inline std::string read_lent(const Frame& frame) {
    LentRecord lent{};
    FrameError error = parse_lent(frame, lent);
    return said(error, Words()("tag", lent.tag)("offset", lent.offset)("check", lent.check).take());
}

inline std::string read_unlent(const Frame& frame) {
    UnlentRecord unlent{};
    FrameError error = parse_unlent(frame, unlent);
    return said(error, Words()("tag", unlent.tag).take());
}

inline std::string read_challenge(const Frame& frame) {
    AuthNonce nonce{};
    FrameError error = parse_challenge(frame, nonce);
    return said(error, Words()("nonce", std::string_view(nonce.data(), nonce.size())).take());
}

inline std::string read_proof(const Frame& frame) {
    Proof proof;
    const std::string bytes = whole_frame(frame);
    FrameError error = parse_proof(bytes, proof);
    return said(error, Words()("role", proof.role)("name", proof.name).take());
}

inline std::string read_reported(const Frame& frame) {
    uint32_t left_us = 0;
    FrameError error = parse_reported(frame, left_us);
    std::string text = Words()("left_us", left_us).take();
    for (uint32_t i = 0; i < frame.count && error == FrameError::none; i++) {
        uint32_t term_ms = 0;
        error = renewal_at(frame, i, term_ms);
        text += " " + std::to_string(term_ms);
    }
    return said(error, text);
}

inline std::string read_goodbye(const Frame& frame) {
    GoodbyeFrame goodbye;
    FrameError error = parse_goodbye(frame, goodbye);
    return said(error,
                std::string(goodbye_name(goodbye.reason)) + Words()("text", goodbye.text).take());
}

inline std::string read_pong(const Frame& frame, const FrameLimits& limits) {
    NodeReading now;
    FrameError error = parse_pong(frame, limits, now);
    return said(error, describe(now));
}

template <class T>
std::string read_greeting(FrameError (*parse)(const Frame&, T&), const Frame& frame) {
    T what;
    FrameError error = parse(frame, what);
    return said(error, error == FrameError::none ? describe(what) : std::string());
}

// A whole frame. Ends in bad_mark and the reason when it is not what it should be.
inline std::string read_frame(const Frame& frame, const FrameLimits& limits) {
    std::string text =
        std::string(frame_kind_name(frame.kind)) + " " + std::to_string(frame.sequence) + ": ";
    switch (frame.kind) {
        case FrameKind::hello:
            return text + read_greeting<Hello>(
                              [](const Frame& f, Hello& h) { return parse_hello(f, h); }, frame);
        case FrameKind::welcome:
            return text + read_greeting<Welcome>(parse_welcome, frame);
        case FrameKind::refuse:
            return text + read_greeting<Refuse>(parse_refuse, frame);
        case FrameKind::requests:
            return text + read_requests(frame, limits);
        case FrameKind::replies:
            return text + read_replies(frame, limits);
        case FrameKind::chunk:
            return text + read_chunk(frame);
        case FrameKind::ping:
            return text;
        case FrameKind::pong:
            return text + read_pong(frame, limits);
        case FrameKind::goodbye:
            return text + read_goodbye(frame);
        case FrameKind::lease_returns:
        case FrameKind::accesses:
        case FrameKind::report:
            return text + read_lists(frame);
        case FrameKind::reported:
            return text + read_reported(frame);
        case FrameKind::lent:
            return text + read_lent(frame);
        case FrameKind::unlent:
            return text + read_unlent(frame);
        case FrameKind::challenge:
            return text + read_challenge(frame);
        case FrameKind::proof:
            return text + read_proof(frame);
        case FrameKind::grant:
            return text + Words()("bytes", frame.body).take();
        case FrameKind::epoch:
            return text + Words()("epoch", epoch_of(frame)).take();
    }
    return text + "?";
}

// A connection's receiving side: consumes bytes as they come, records the frames, and stops at the first error.
class Receiver {
  public:
    explicit Receiver(const FrameLimits& limits) : limits_(limits) {}

    void feed(std::string_view bytes) {
        held_.append(bytes);
        while (!closed_ && step()) {
        }
    }
    // With trouble(): bytes of the input may look like it.
    std::string seen() const { return seen_ + trouble_; }
    // Of the parser; empty: none.
    const std::string& trouble() const { return trouble_; }
    size_t unread() const { return held_.size(); }

  private:
    bool step() {
        FrameParse parse = parse_frame(held_, limits_);
        if (parse.status == FrameParse::Status::need_more) {
            if (parse.bytes <= held_.size()) trouble_ = "!no progress";
            if (parse.bytes > limits_.frame_bytes_max) trouble_ = "!too much wanted";
            return false;
        }
        if (parse.status == FrameParse::Status::bad) {
            seen_ += bad(parse.error);
            closed_ = true;
            return false;
        }
        const std::string frame = read_frame(parse.frame, limits_);
        seen_ += frame + "\n";
        closed_ = is_bad(frame);
        held_.erase(0, parse.bytes);
        return true;
    }

    FrameLimits limits_;
    std::string held_;
    std::string seen_, trouble_;
    bool closed_ = false;
};

}  // namespace frame_words
