// SPDX-License-Identifier: BSD-3-Clause
// Operations and replies drawn at random, with every optional present or absent, by seed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "base/limits.h"
#include "protocol/frame_reply.h"
#include "protocol/frame_request.h"
#include "protocol/layout.h"
#include "protocol/spilled.h"

namespace frame_random {

using namespace farcached;
using namespace farcached::protocol;

constexpr uint32_t value_bytes_max = 3000;

class Draw {
  public:
    // brief: short keys and values, few of them.
    explicit Draw(uint64_t seed, bool brief = false) : random_(seed), brief_(brief) {}

    uint64_t entries() { return 1 + below(brief_ ? 5 : 20); }

    uint64_t below(uint64_t n) { return random_() % n; }
    bool coin() { return below(2) == 0; }

    // Of any size, with the shortest and longest more often than at random.
    template <class T>
    T number() {
        switch (below(4)) {
            case 0:
                return T(below(4));
            case 1:
                return T(~T(0) - T(below(3)));
            default:
                return T(random_());
        }
    }
    template <class T>
    std::optional<T> maybe() {
        if (coin()) return std::nullopt;
        return number<T>();
    }
    template <class Enum>
    Enum of(Enum last) {
        return Enum(below(uint64_t(last) + 1));
    }
    // Lives until the Draw's next `kept_max` texts.
    std::string_view text(size_t low, size_t high) {
        std::string& kept = kept_[next_++ % kept_max];
        kept.resize(low + below(high - low + 1));
        for (char& c : kept) c = char(random_());
        return kept;
    }
    Key key() {
        if (brief_) return {text(1, 10), 0};
        return {text(1, coin() ? 20 : limits::key_bytes_max), 0};
    }
    std::string_view value() {
        if (brief_) return text(0, 10);
        return text(0, coin() ? 100 : value_bytes_max);
    }

    GetOp get() {
        GetOp op;
        op.key = key();
        op.peek = coin();
        op.no_bump = coin();
        op.win_tokens = coin();
        op.touch = maybe<NodeSeconds>();
        op.vivify = maybe<NodeSeconds>();
        op.recache_before = maybe<NodeSeconds>();
        op.moved_since = maybe<uint64_t>();
        op.recache_first = coin();
        op.cas_set = maybe<uint64_t>();
        op.key_binary = coin();
        return op;
    }
    StoreOp store() {
        StoreOp op;
        op.key = key();
        op.mode = of(StoreOp::Mode::cas);
        op.value = value();
        op.flags = number<uint32_t>();
        op.exptime = number<NodeSeconds>();
        op.cas_compare = maybe<uint64_t>();
        if (op.mode == StoreOp::Mode::cas) op.cas_compare = number<uint64_t>();
        op.cas_set = maybe<uint64_t>();
        op.invalidate = coin();
        op.vivify = maybe<NodeSeconds>();
        op.key_binary = coin();
        op.forget = coin();
        op.spilled = coin();
        op.moved_since = maybe<uint64_t>();
        return op;
    }
    DeleteOp remove() {
        DeleteOp op;
        op.key = key();
        op.cas_compare = maybe<uint64_t>();
        op.cas_set = maybe<uint64_t>();
        op.touch = maybe<NodeSeconds>();
        op.invalidate = coin();
        op.remove_value = coin();
        return op;
    }
    ArithOp arith() {
        ArithOp op;
        op.key = key();
        op.decrement = coin();
        op.delta = number<uint64_t>();
        op.vivify = maybe<NodeSeconds>();
        op.initial = number<uint64_t>();
        op.cas_compare = maybe<uint64_t>();
        op.cas_set = maybe<uint64_t>();
        op.touch = maybe<NodeSeconds>();
        op.key_binary = coin();
        return op;
    }
    RequestOp request() {
        switch (below(9)) {
            case 0:
                return get();
            case 1:
                return store();
            case 2:
                return remove();
            case 3:
                return arith();
            case 4:
                return ForgetOp{key()};
            case 7:
                return CopiesOp{CopiesOp::What(below(4)), uint32_t(below(3))};
            case 6:
                if (coin()) return HoldOp{key(), 0, number<uint64_t>() | mark_bit | hold_bit};
                return HoldOp{key(), uint32_t(1 + below(HoldOp::seconds_max))};
            case 5:
                if (coin()) return FlushOp{std::nullopt, key().bytes};
                return FlushOp{maybe<NodeSeconds>()};
            default:
                return StatsOp{text(0, 30)};
        }
    }
    // Only options that fit the operation.
    RequestOptions options(const RequestOp& op) {
        RequestOptions options;
        options.tag = number<uint32_t>();
        const StoreOp* store = std::get_if<StoreOp>(&op);
        const bool get = std::holds_alternative<GetOp>(op);
        const bool arith = std::holds_alternative<ArithOp>(op);
        options.no_value = get && coin();
        options.want_grant = (get || arith || store != nullptr) && coin();
        options.value_follows = store != nullptr && !store->value.empty() && below(4) == 0;
        return options;
    }

    ItemMeta meta(uint32_t value_len) {
        ItemMeta meta;
        meta.cas = number<uint64_t>();
        meta.value_len = value_len;
        meta.flags = number<uint32_t>();
        meta.item_bytes = number<uint32_t>();
        meta.exptime = number<NodeSeconds>();
        meta.last_access = number<NodeSeconds>();
        meta.size_class = uint8_t(below(layout::large_class + 1));
        meta.fetched = coin();
        meta.stale = coin();
        meta.win = coin();
        meta.win_sent = coin();
        meta.key_binary = coin();
        return meta;
    }
    Grant grant(uint32_t value_len) {
        Grant grant;
        grant.offset = number<uint64_t>() & ~uint64_t(layout::stride_bytes - 1);
        grant.generation = number<uint64_t>() & layout::generation_max;
        grant.region = number<uint32_t>();
        grant.length = uint32_t(layout::item_bytes(1 + below(limits::key_bytes_max), value_len));
        grant.term_ms = uint32_t(1 + below(term_ms_highest));
        grant.capacity = grant.length + uint32_t(below(layout::page_bytes));
        return grant;
    }
    // Of another node's memory.
    Grant grant_elsewhere(uint32_t value_len) {
        Grant elsewhere = grant(value_len);
        elsewhere.length = uint32_t(spilled_item_bytes(1 + below(limits::key_bytes_max), value_len));
        elsewhere.capacity = elsewhere.length + uint32_t(below(layout::page_bytes));
        elsewhere.term_ms = uint32_t(1 + below(spilled_term_ms_max));
        elsewhere.incarnation = number<uint64_t>() | 1;
        return elsewhere;
    }
    // For a reply that may bring a grant: a grant, or the reason against one, or neither.
    void grant_or_denial(NodeReply& reply, uint32_t value_len) {
        if (coin())
            reply.grant = grant(value_len);
        else
            reply.denied = LeaseDenial(below(uint64_t(LeaseDenial::count)));
    }
    StoreReply stored() {
        StoreReply reply;
        reply.status = of(StoreReply::Status::no_memory);
        reply.cas = number<uint64_t>();
        reply.item_bytes = number<uint32_t>();
        reply.value_len = uint32_t(below(value_bytes_max + 1));
        reply.size_class = uint8_t(below(layout::large_class + 1));
        reply.exptime = number<NodeSeconds>();
        return reply;
    }
    // A reply as its reader will hand it out.
    NodeReply reply() {
        NodeReply reply;
        reply.tag = number<uint32_t>();
        switch (below(7)) {
            case 0:
            case 1:
                got(reply);
                break;
            case 2: {
                const StoreReply op = stored();
                if (op.status == StoreReply::Status::stored) grant_or_denial(reply, op.value_len);
                reply.op = op;
                break;
            }
            case 3:
                reply.op = DeleteReply{of(DeleteReply::Status::exists),
                                       uint8_t(below(layout::large_class + 1)), number<uint32_t>()};
                break;
            case 4:
                reply.op = changed(reply);
                break;
            case 5:
                reply.op = DoneReply();
                break;
            default:
                reply.op = RefusedReply{RequestRefusal(below(uint64_t(RequestRefusal::count)))};
        }
        return reply;
    }

  private:
    ArithReply changed(NodeReply& reply) {
        ArithReply op;
        op.status = of(ArithReply::Status::no_memory);
        op.value = number<uint64_t>();
        op.meta = meta(uint32_t(below(21)));
        const bool done = op.status == ArithReply::Status::ok || op.status == ArithReply::Status::vivified;
        if (done) grant_or_denial(reply, op.meta.value_len);
        return op;
    }
    void got(NodeReply& reply) {
        GetReply op;
        op.status = of(GetReply::Status::no_memory);
        op.why = of(Miss::flushed);
        op.vivified = coin();
        if (op.status == GetReply::Status::hit) {
            reply.form = of(ValueForm::follows);
            const std::string_view bytes = value();
            if (bytes.empty() && reply.form == ValueForm::follows) reply.form = ValueForm::here;
            op.meta = meta(uint32_t(bytes.size()));
            reply.value_bytes = reply.form == ValueForm::none ? 0 : uint32_t(bytes.size());
            if (reply.form == ValueForm::here) reply.value = bytes;
            grant_or_denial(reply, op.meta.value_len);
            if (reply.grant.has_value() && coin()) reply.grant = grant_elsewhere(op.meta.value_len);
        }
        reply.op = op;
    }

    static constexpr size_t kept_max = 64;

    std::mt19937_64 random_;
    bool brief_;
    std::string kept_[kept_max];
    size_t next_ = 0;
};

}  // namespace frame_random
