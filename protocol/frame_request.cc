// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/frame_request.h"

#include <array>
#include <bit>
#include <type_traits>

#include "base/check.h"
#include "base/limits.h"
#include "protocol/handshake.h"

namespace farcached::protocol {

namespace {

constexpr uint32_t bit(RequestFlag flag) { return uint32_t(flag); }
constexpr uint32_t bit_if(bool set, RequestFlag flag) { return set ? bit(flag) : 0; }

template <class... Flags>
constexpr uint32_t bits(Flags... flags) {
    return (bit(flags) | ...);
}

constexpr uint32_t wide_optionals = bits(RequestFlag::cas_compare, RequestFlag::cas_set, RequestFlag::moved_since);
constexpr uint32_t narrow_optionals = bits(RequestFlag::touch, RequestFlag::vivify, RequestFlag::recache_before);
constexpr uint32_t all_optionals = wide_optionals | narrow_optionals;

// Bytes of the optional fields that are present, by their flags, which are the lowest bits.
constexpr auto optional_sizes = [] {
    std::array<uint8_t, all_optionals + 1> sizes{};
    for (uint32_t flags = 0; flags <= all_optionals; flags++)
        sizes[flags] = uint8_t(std::popcount(flags & wide_optionals) * 8 +
                               std::popcount(flags & narrow_optionals) * 4);
    return sizes;
}();
static_assert(optional_sizes.size() == 64);

constexpr uint32_t optional_bytes(uint32_t flags) { return optional_sizes[flags & all_optionals]; }

// ---- the shape of each kind -------------------------------------------------------------------------

enum class KeyRule : uint8_t { none, must, may };

struct RequestRule {
    KeyRule key = KeyRule::none;
    bool value = false;
    uint8_t modes = 1;         // 0 .. modes - 1
    uint32_t fixed_bytes = 0;  // before the optionals
    uint32_t flags = 0;        // the allowed ones
    uint32_t version = 0;      // the first with this kind
};

// By RequestKind.
constexpr std::array<RequestRule, 13> request_rules = {{
    {},
    // get
    {KeyRule::must, false, 1, 0,
     bits(RequestFlag::cas_set, RequestFlag::touch, RequestFlag::vivify, RequestFlag::recache_before, RequestFlag::key_binary,
          RequestFlag::peek, RequestFlag::no_bump, RequestFlag::win_tokens, RequestFlag::recache_first, RequestFlag::no_value,
          RequestFlag::want_grant, RequestFlag::moved_since)},
    // store
    {KeyRule::must, true, uint8_t(StoreOp::Mode::cas) + 1, sizeof(StoreRecord),
     bits(RequestFlag::cas_compare, RequestFlag::cas_set, RequestFlag::vivify, RequestFlag::key_binary, RequestFlag::invalidate,
          RequestFlag::forget, RequestFlag::want_grant, RequestFlag::value_follows, RequestFlag::spilled,
          RequestFlag::moved_since)},
    // remove
    {KeyRule::must, false, 1, 0,
     bits(RequestFlag::cas_compare, RequestFlag::cas_set, RequestFlag::touch, RequestFlag::invalidate, RequestFlag::remove_value)},
    // arith
    {KeyRule::must, false, 1, sizeof(ArithRecord),
     bits(RequestFlag::cas_compare, RequestFlag::cas_set, RequestFlag::touch, RequestFlag::vivify, RequestFlag::key_binary,
          RequestFlag::decrement, RequestFlag::want_grant)},
    {KeyRule::must, false, 1, 0, 0},                    // forget
    {KeyRule::none, false, 1, 0, 0},                    // flush
    {KeyRule::none, false, 1, sizeof(ClockRecord), 0},  // flush_at
    {KeyRule::may, false, 1, 0, 0},                     // stats
    {KeyRule::must, false, 1, 0, 0, version_with_prefix_deletes},  // flush_prefix
    {KeyRule::none, true, 1, 0, 0, version_with_right},            // keep
    {KeyRule::must, false, 1, sizeof(HoldRecord), 0, version_with_holds},
    {KeyRule::none, false, 1, sizeof(CopiesRecord), 0, version_with_holds},
}};
static_assert(request_rules.size() == size_t(RequestKind::copies) + 1);
static_assert(sizeof(FrameHeader) + sizeof(RequestHeader) + sizeof(ArithRecord) +
                      optional_bytes(all_optionals) + limits::key_bytes_max <=
                  frame_bytes_lowest,
              "a frame holds any request without its value");

constexpr const RequestRule& rule_of(RequestKind kind) { return request_rules[size_t(kind)]; }

bool key_fits(KeyRule rule, size_t key_len) {
    if (key_len > limits::key_bytes_max) return false;
    if (rule == KeyRule::must) return key_len != 0;
    return rule == KeyRule::may || key_len == 0;
}

// ---- writing ----------------------------------------------------------------------------------------

// visit(flag, field) for each optional field that the operation has, in the order of the wire.
template <class Op, class Visit>
void each_optional(Op& op, Visit visit) {
    if constexpr (requires { op.cas_compare; }) visit(RequestFlag::cas_compare, op.cas_compare);
    if constexpr (requires { op.cas_set; }) visit(RequestFlag::cas_set, op.cas_set);
    if constexpr (requires { op.touch; }) visit(RequestFlag::touch, op.touch);
    if constexpr (requires { op.vivify; }) visit(RequestFlag::vivify, op.vivify);
    if constexpr (requires { op.recache_before; }) visit(RequestFlag::recache_before, op.recache_before);
    if constexpr (requires { op.moved_since; }) visit(RequestFlag::moved_since, op.moved_since);
}

// The same for its switches.
template <class Op, class Visit>
void each_switch(Op& op, Visit visit) {
    if constexpr (requires { op.key_binary; }) visit(RequestFlag::key_binary, op.key_binary);
    if constexpr (requires { op.peek; }) visit(RequestFlag::peek, op.peek);
    if constexpr (requires { op.no_bump; }) visit(RequestFlag::no_bump, op.no_bump);
    if constexpr (requires { op.win_tokens; }) visit(RequestFlag::win_tokens, op.win_tokens);
    if constexpr (requires { op.recache_first; }) visit(RequestFlag::recache_first, op.recache_first);
    if constexpr (requires { op.invalidate; }) visit(RequestFlag::invalidate, op.invalidate);
    if constexpr (requires { op.remove_value; }) visit(RequestFlag::remove_value, op.remove_value);
    if constexpr (requires { op.decrement; }) visit(RequestFlag::decrement, op.decrement);
    if constexpr (requires { op.forget; }) visit(RequestFlag::forget, op.forget);
    if constexpr (requires { op.spilled; }) visit(RequestFlag::spilled, op.spilled);
}

template <class Op>
uint32_t presence(const Op& op) {
    uint32_t flags = 0;
    each_optional(op, [&](RequestFlag flag, const auto& field) { flags |= bit_if(field.has_value(), flag); });
    return flags;
}

RequestKind kind_of(const FlushOp& op) {
    if (!op.prefix.empty()) return RequestKind::flush_prefix;
    if (!op.kept.empty()) return RequestKind::keep;
    return op.at.has_value() ? RequestKind::flush_at : RequestKind::flush;
}

size_t head_bytes(RequestKind kind, uint32_t flags, size_t key_len) {
    return sizeof(RequestHeader) + rule_of(kind).fixed_bytes + optional_bytes(flags) + key_len;
}

// It begins or ends a hold.
bool is_possible(const HoldOp& op) {
    return op.release == 0 ? op.seconds != 0 && op.seconds <= HoldOp::seconds_max : op.seconds == 0 && is_hold(op.release);
}

// Without optionals and switches.
char* put_plain(char* to, RequestKind kind, std::string_view key, const RequestOptions& options, std::string_view value = {}) {
    CHECK(key_fits(rule_of(kind).key, key.size()));
    to = wire::put(to, RequestHeader{uint8_t(kind), 0, uint16_t(key.size()), 0, uint32_t(value.size()), options.tag});
    return wire::put_bytes(wire::put_bytes(to, key), value);
}

template <class Op>
char* put_head(char* to, RequestKind kind, const Op& op, const RequestOptions& options, uint8_t mode = 0,
               uint32_t value_bytes = 0) {
    CHECK(key_fits(KeyRule::must, op.key.bytes.size()));
    const uint32_t wanted = bit_if(options.no_value, RequestFlag::no_value) |
                            bit_if(options.want_grant, RequestFlag::want_grant) |
                            bit_if(options.value_follows, RequestFlag::value_follows);
    uint32_t flags = presence(op) | (wanted & rule_of(kind).flags);
    each_switch(op, [&](RequestFlag flag, bool set) { flags |= bit_if(set, flag); });
    to = wire::put(to, RequestHeader{uint8_t(kind), mode, uint16_t(op.key.bytes.size()), flags, value_bytes, options.tag});
    if constexpr (std::is_same_v<Op, StoreOp>) to = wire::put(to, StoreRecord{op.flags, op.exptime});
    if constexpr (std::is_same_v<Op, ArithOp>) to = wire::put(to, ArithRecord{op.delta, op.initial});
    each_optional(op, [&](RequestFlag, const auto& field) {
        if (field.has_value()) to = wire::put(to, *field);
    });
    return wire::put_bytes(to, op.key.bytes);
}

}  // namespace

size_t request_head_bytes(const GetOp& op) {
    return head_bytes(RequestKind::get, presence(op), op.key.bytes.size());
}
size_t request_head_bytes(const StoreOp& op) {
    return head_bytes(RequestKind::store, presence(op), op.key.bytes.size());
}
size_t request_head_bytes(const DeleteOp& op) {
    return head_bytes(RequestKind::remove, presence(op), op.key.bytes.size());
}
size_t request_head_bytes(const ArithOp& op) {
    return head_bytes(RequestKind::arith, presence(op), op.key.bytes.size());
}
size_t request_head_bytes(const ForgetOp& op) { return head_bytes(RequestKind::forget, 0, op.key.bytes.size()); }
size_t request_head_bytes(const FlushOp& op) { return head_bytes(kind_of(op), 0, op.prefix.size()) + op.kept.size(); }
size_t request_head_bytes(const StatsOp& op) { return head_bytes(RequestKind::stats, 0, op.group.size()); }
size_t request_head_bytes(const CopiesOp&) { return head_bytes(RequestKind::copies, 0, 0); }
size_t request_head_bytes(const HoldOp& op) { return head_bytes(RequestKind::hold, 0, op.key.bytes.size()); }

char* write_request_head(char* to, const GetOp& op, const RequestOptions& options) {
    return put_head(to, RequestKind::get, op, options);
}

char* write_request_head(char* to, const StoreOp& op, const RequestOptions& options) {
    CHECK(op.value.size() <= value_bytes_highest);
    CHECK(!options.value_follows || !op.value.empty());
    CHECK(op.mode != StoreOp::Mode::cas || op.cas_compare.has_value());
    return put_head(to, RequestKind::store, op, options, uint8_t(op.mode), uint32_t(op.value.size()));
}

char* write_request_head(char* to, const DeleteOp& op, const RequestOptions& options) {
    return put_head(to, RequestKind::remove, op, options);
}

char* write_request_head(char* to, const ArithOp& op, const RequestOptions& options) {
    return put_head(to, RequestKind::arith, op, options);
}

char* write_request_head(char* to, const ForgetOp& op, const RequestOptions& options) {
    return put_plain(to, RequestKind::forget, op.key.bytes, options);
}

char* write_request_head(char* to, const FlushOp& op, const RequestOptions& options) {
    CHECK(op.prefix.empty() + op.kept.empty() + !op.at.has_value() >= 2 && op.kept.size() <= kept_bytes_max);
    to = put_plain(to, kind_of(op), op.prefix, options, op.kept);
    return op.at.has_value() ? wire::put(to, ClockRecord{*op.at, 0}) : to;
}

char* write_request_head(char* to, const StatsOp& op, const RequestOptions& options) {
    return put_plain(to, RequestKind::stats, op.group, options);
}

char* write_request_head(char* to, const CopiesOp& op, const RequestOptions& options) {
    return wire::put(put_plain(to, RequestKind::copies, {}, options), CopiesRecord{uint32_t(op.what), op.name});
}

char* write_request_head(char* to, const HoldOp& op, const RequestOptions& options) {
    CHECK(key_fits(KeyRule::must, op.key.bytes.size()) && is_possible(op));
    to = wire::put(to, RequestHeader{uint8_t(RequestKind::hold), 0, uint16_t(op.key.bytes.size()), 0, 0, options.tag});
    return wire::put_bytes(wire::put(to, HoldRecord{op.release, op.seconds, 0}), op.key.bytes);
}

// ---- reading ----------------------------------------------------------------------------------------

namespace {

// Checks a header alone, by its kind's rule.
FrameError judge(const RequestHeader& header, uint64_t value_bytes_max, uint32_t version) {
    if (header.op == 0 || header.op >= request_rules.size()) return FrameError::op_unknown;
    const RequestRule& rule = request_rules[header.op];
    if (version < rule.version) return FrameError::op_unknown;
    if (header.mode >= rule.modes) return FrameError::mode_unknown;
    if ((header.flags & ~rule.flags) != 0) return FrameError::flag_unknown;
    const bool grant_for_number = header.op == uint8_t(RequestKind::arith) && (header.flags & bit(RequestFlag::want_grant)) != 0;
    if (grant_for_number && !reads_one_sided(version)) return FrameError::flag_unknown;
    if ((header.flags & bit(RequestFlag::spilled)) != 0 && version < version_with_spilled) return FrameError::flag_unknown;
    if ((header.flags & bit(RequestFlag::moved_since)) != 0 && version < version_with_moved) return FrameError::flag_unknown;
    if (!key_fits(rule.key, header.key_len)) return FrameError::key_length;
    if (!rule.value && header.value_len != 0) return FrameError::value_unexpected;
    if ((header.flags & bit(RequestFlag::value_follows)) != 0 && header.value_len == 0)
        return FrameError::value_unexpected;
    return header.value_len <= value_bytes_max ? FrameError::none : FrameError::value_too_long;
}

// The fields after a valid header: taken in order, from bytes that are all present.
class Fields {
  public:
    Fields(const RequestHeader& header, std::string_view bytes)
        : flags_(header.flags), at_(bytes.data()) {}

    template <class T>
    T take() {
        T value = wire::get<T>(at_);
        at_ += sizeof(T);
        return value;
    }
    template <class T>
    void take_if(RequestFlag flag, std::optional<T>& value) {
        if (is(flag)) value = take<T>();
    }
    std::string_view take_bytes(size_t size) {
        std::string_view bytes(at_, size);
        at_ += size;
        return bytes;
    }
    bool is(RequestFlag flag) const { return (flags_ & bit(flag)) != 0; }

  private:
    uint32_t flags_;
    const char* at_;
};

template <class Op>
void fill(Op& op, Fields& fields, const RequestHeader& header) {
    if constexpr (std::is_same_v<Op, StoreOp>) {
        const StoreRecord record = fields.take<StoreRecord>();
        op.mode = StoreOp::Mode(header.mode);
        op.flags = record.flags;
        op.exptime = record.exptime;
    }
    if constexpr (std::is_same_v<Op, ArithOp>) {
        const ArithRecord record = fields.take<ArithRecord>();
        op.delta = record.delta;
        op.initial = record.initial;
    }
    each_optional(op, [&](RequestFlag flag, auto& field) { fields.take_if(flag, field); });
    each_switch(op, [&](RequestFlag flag, bool& set) { set = fields.is(flag); });
    op.key = {fields.take_bytes(header.key_len), 0};
}

FrameError fill(RequestOp& op, Fields& fields, const RequestHeader& header) {
    switch (RequestKind(header.op)) {
        case RequestKind::get:
            fill(op.emplace<GetOp>(), fields, header);
            break;
        case RequestKind::store: {
            StoreOp& store = op.emplace<StoreOp>();
            fill(store, fields, header);
            if (!fields.is(RequestFlag::value_follows)) store.value = fields.take_bytes(header.value_len);
            if (store.mode == StoreOp::Mode::cas && !store.cas_compare.has_value())
                return FrameError::cas_missing;
            break;
        }
        case RequestKind::remove:
            fill(op.emplace<DeleteOp>(), fields, header);
            break;
        case RequestKind::arith:
            fill(op.emplace<ArithOp>(), fields, header);
            break;
        case RequestKind::forget:
            op.emplace<ForgetOp>().key = {fields.take_bytes(header.key_len), 0};
            break;
        case RequestKind::flush:
            op.emplace<FlushOp>();
            break;
        case RequestKind::flush_at: {
            const ClockRecord record = fields.take<ClockRecord>();
            if (record.now_us != 0) return FrameError::reserved_set;
            op.emplace<FlushOp>().at = record.now;
            break;
        }
        case RequestKind::flush_prefix:
            op.emplace<FlushOp>().prefix = fields.take_bytes(header.key_len);
            break;
        case RequestKind::keep:
            if (header.value_len == 0) return FrameError::value_unexpected;
            op.emplace<FlushOp>().kept = fields.take_bytes(header.value_len);
            break;
        case RequestKind::copies: {
            const CopiesRecord record = fields.take<CopiesRecord>();
            if (record.what > uint32_t(CopiesOp::What::open)) return FrameError::reserved_set;
            op.emplace<CopiesOp>() = {CopiesOp::What(record.what), record.name};
            break;
        }
        case RequestKind::hold: {
            HoldOp& hold = op.emplace<HoldOp>();
            const HoldRecord record = fields.take<HoldRecord>();
            hold = {{fields.take_bytes(header.key_len), 0}, record.seconds, record.release};
            if (record.reserved != 0) return FrameError::reserved_set;
            if (!is_possible(hold)) return FrameError::hold_impossible;
            break;
        }
        case RequestKind::stats:
            op.emplace<StatsOp>().group = fields.take_bytes(header.key_len);
            break;
    }
    return FrameError::none;
}

}  // namespace

RequestReader::RequestReader(const Frame& frame, const FrameLimits& limits) : EntryReader(frame, limits) {
    CHECK(frame.kind == FrameKind::requests);
}

FrameStep RequestReader::next(NodeRequest& request) {
    return step([&] { return read(request); });
}

FrameError RequestReader::read(NodeRequest& request) {
    RequestHeader header;
    if (!at_.take(header)) return FrameError::entry_truncated;
    FrameError error = judge(header, value_bytes_max_, version_);
    if (error != FrameError::none) return error;
    const bool follows = (header.flags & bit(RequestFlag::value_follows)) != 0;
    const size_t size = head_bytes(RequestKind(header.op), header.flags, header.key_len) -
                        sizeof header + (follows ? 0 : header.value_len);
    std::string_view bytes;
    if (!at_.take_bytes(size, bytes)) return FrameError::entry_truncated;
    request.options.tag = header.tag;
    request.options.no_value = (header.flags & bit(RequestFlag::no_value)) != 0;
    request.options.want_grant = (header.flags & bit(RequestFlag::want_grant)) != 0;
    request.options.value_follows = follows;
    request.value_bytes = header.value_len;
    Fields fields(header, bytes);
    return fill(request.op, fields, header);
}

}  // namespace farcached::protocol
