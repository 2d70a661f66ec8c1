// SPDX-License-Identifier: BSD-3-Clause
// Submission of operations: ask<Half>(asker, op, record) has the embedded node or the Backend execute the operation. Half
// completes it, at once or in request order. For the engines only.
//
// A Half is the completion of one kind of request:
//     Half(const Answering& to, std::string_view key, const Record& record, std::string_view words)
//     void done(Reply& reply);           // counts, writes watch lines, writes to `to.out`
//     void unavailable();                // the same, without an answer
// Of a get, also:
//     bool wants_value() const;
//     char* value_at(const protocol::ItemMeta& meta);  // before done(): destination of the value, or nullptr
// If it may want a value:
//     bool sends(const fabric::ReadMeta& meta) const;  // true: the reply has this item's value; else value_at() is nullptr
//     bool sends(const protocol::ItemMeta& meta) const;
//     char* value_at(const fabric::ReadMeta& meta);  // as above, and then
//     void hit();                                    // instead of done()
//     void value_lent(const protocol::ItemMeta& meta, BorrowedBytes&& value);  // instead of value_at(), for a large one
//     void refused();  // instead of done(): no memory for the value
//
// A record is trivially copyable and holds the parts of the request that Half needs besides key and words. Its views end with
// the request, except `key` and `flags.words`, which point into the slot afterwards.
#pragma once

#include <cstring>
#include <new>
#include <string_view>
#include <variant>

#include "base/broken.h"
#include "daemon/backend.h"
#include "daemon/engine.h"
#include "daemon/hot_keys.h"
#include "daemon/latency.h"
#include "daemon/reply_queue.h"
#include "daemon/session_memory.h"
#include "protocol/op.h"

namespace farcached::daemon {

struct Asker {
    Context& context;
    SessionState& session;
    OutBuffer& out;
    Carry* carry = nullptr;  // for immediate answers that leave state for later ones
    node::Upload* upload = nullptr;  // the value of the store

    Answering answering() const { return {context, session.fd, out, carry}; }
    // True: the engine yields or holds (engine.h, E3, E4).
    bool no_room() const {
        return out.leaves() >= context.out_bytes_max || (session.replies != nullptr && session.replies->full());
    }
};

// Samples a get or set answered in this process.
inline void note_local(const Context& context, std::string_view key) {
    if (context.hot_keys != nullptr && context.hot_keys->due()) [[unlikely]]
        context.hot_keys->sample(Way::local, key);
}

namespace asking {

inline protocol::StoreReply execute(const Asker& asker, const protocol::StoreOp& op) {
    if (asker.context.latencies != nullptr) asker.context.latencies->at_once(Verb::set);
    note_local(asker.context, op.key.bytes);
    return asker.context.node.store(op, asker.context.now, asker.upload);
}
inline protocol::DeleteReply execute(const Asker& asker, const protocol::DeleteOp& op) {
    broken::fail_if_named(op.key.bytes);
    return asker.context.node.remove(op, asker.context.now);
}
inline protocol::ArithReply execute(const Asker& asker, const protocol::ArithOp& op) {
    return asker.context.node.arith(op, asker.context.now);
}
inline protocol::DoneReply execute(const Asker& asker, const protocol::ForgetOp& op) {
    asker.context.node.forget(op.key, asker.context.now);
    return {};
}
inline protocol::DoneReply execute(const Asker& asker, const protocol::FlushOp& op) {
    if (op.at.has_value())
        asker.context.admin.flush_at(*op.at);
    else
        asker.context.node.flush_all(asker.context.now);
    return {};
}

inline Asked ask_backend(Backend& backend, const protocol::ForgetOp& op, Ticket ticket, protocol::DoneReply&) {
    return backend.ask(op, ticket);
}
inline Asked ask_backend(Backend& backend, const protocol::FlushOp& op, Ticket ticket, protocol::DoneReply&) {
    return backend.ask(op, ticket);
}
template <class Op, class Reply>
Asked ask_backend(Backend& backend, const Op& op, Ticket ticket, Reply& now) {
    return backend.ask(op, ticket, now);
}

template <class Op>
std::string_view key_bytes(const Op& op) {
    return op.key.bytes;
}
inline std::string_view key_bytes(const protocol::FlushOp&) { return {}; }

template <class Record>
Record& revived(ReplySlot& slot) {
    Record& record = slot.record<Record>();
    if constexpr (requires { record.key = slot.key(); }) record.key = slot.key();
    if constexpr (requires { record.flags.words = slot.words(); }) record.flags.words = slot.words();
    return record;
}

// ReplySlot::Turn.
template <class Half, class Record, class Reply>
void take_turn(ReplySlot& slot, const Answering& to) {
    Half half(to, slot.key(), revived<Record>(slot), slot.words());
    if (!slot.available()) return half.unavailable();
    Reply* reply = std::get_if<Reply>(&slot.reply());
    CHECK(reply != nullptr);
    half.done(*reply);
}

template <class Half, class Record>
void take_get_turn(ReplySlot& slot, const Answering& to) {
    Half half(to, slot.key(), revived<Record>(slot), slot.words());
    if (!slot.available()) return half.unavailable();
    auto* reply = std::get_if<protocol::GetReply>(&slot.reply());
    CHECK(reply != nullptr);
    if (reply->status == protocol::GetReply::Status::hit) {
        const std::string_view value = slot.value();
        char* at = half.value_at(reply->meta);
        if (at != nullptr) {
            CHECK(value.size() == reply->meta.value_len);
            if (!value.empty()) std::memcpy(at, value.data(), value.size());
        }
    }
    half.done(*reply);
}

// If memory for the submission runs out, the slot is freed. A late answer then finds its ticket void.
template <class Ask>
Asked or_drop(ReplyQueue& queue, ReplySlot& slot, Ask ask) {
    try {
        return ask();
    } catch (const std::bad_alloc&) {
        queue.drop(slot);
        throw;
    }
}

// Not inlined: the embedded node's path stays short.
template <class Half, class Reply, class Op, class Record>
[[gnu::noinline]] bool ask_backend_for(const Asker& asker, const Op& op, const Record& record,
                                                  std::string_view words) {
    const std::string_view key = key_bytes(op);
    ReplyQueue& queue = *asker.session.replies;
    ReplySlot& slot = queue.open(std::is_same_v<Op, protocol::StoreOp> ? Verb::set : Verb::other);
    Reply now;
    const Asked asked =
        or_drop(queue, slot, [&] { return ask_backend(*asker.context.backend, op, queue.ticket_of(slot), now); });
    if (asked == Asked::now) {
        queue.drop(slot);
        Half(asker.answering(), key, record, words).done(now);
        return true;
    }
    queue.park(slot, asker.out, asked == Asked::crowded, /* gets_value= */ false, key, words, record,
               &take_turn<Half, Record, Reply>);
    return false;
}

template <class Half, class Record>
[[gnu::noinline]] bool get_from_backend(const Asker& asker, const protocol::GetOp& op, bool plain,
                                        const Record& record, std::string_view words) {
    Half half(asker.answering(), op.key.bytes, record, words);
    auto sink = [&](const protocol::ItemMeta& meta) { return half.value_at(meta); };
    ReplyQueue& queue = *asker.session.replies;
    ReplySlot& slot = queue.open(Verb::get);
    protocol::GetReply now;
    const Wanted wanted{half.wants_value(), plain};
    const size_t before = asker.out.size();
    const Asked asked = or_drop(
        queue, slot, [&] { return asker.context.backend->ask(op, wanted, queue.ticket_of(slot), sink, now); });
    if (asked == Asked::now) {
        queue.drop(slot);
        if (asker.context.latencies != nullptr) asker.context.latencies->at_once(Verb::get);
        note_local(asker.context, op.key.bytes);
        half.done(now);
        return true;
    }
    asker.out.truncate(before);  // of a read that failed its checks
    queue.park(slot, asker.out, asked == Asked::crowded, wanted.value, op.key.bytes, words, record,
               &take_get_turn<Half, Record>);
    return false;
}

// True: the answer may hold a value.
template <class Half>
constexpr bool reads_values = requires(Half& half) { half.refused(); };

// One attempt. unlent: the bytes of a large value that could not be lent. False: no room for a copy either.
template <class Half>
bool try_value(const Asker& asker, const protocol::GetOp& op, Half& half, protocol::GetReply& reply, BorrowedBytes& lent,
               uint64_t& unlent) {
    const SessionMemory* const memory = asker.context.memory;
    bool has_room = true;
    const auto sink = [&](const protocol::ItemMeta& meta) -> char* {
        if (meta.value_len < node::lent_bytes_min || !half.sends(meta)) return half.value_at(meta);
        unlent = meta.value_len;
        has_room = memory == nullptr || memory->has_room(meta.value_len);
        return has_room ? half.value_at(meta) : nullptr;
    };
    reply = asker.context.node.get(op, asker.context.now, sink, &lent);
    return has_room;
}

// A large value is sent from the slot, copied within SessionMemory, or refused. Room is made between attempts: an attempt holds
// the partition's lock, and a session that ends may unpin values of that partition. A get that took a win token is not
// repeated.
template <class Half>
void get_value(const Asker& asker, const protocol::GetOp& op, Half& half) {
    Context& context = asker.context;
    protocol::GetReply reply;
    BorrowedBytes lent;
    uint64_t unlent = 0;
    bool fits = try_value(asker, op, half, reply, lent, unlent);
    if (!fits && !reply.meta.win && context.room != nullptr && context.room->make_room(unlent, Lack::value)) {
        protocol::GetOp again = op;
        again.no_bump = true;
        fits = try_value(asker, again, half, reply, lent, unlent);
        unlent = 0;
    }
    if (!fits) {
        context.counters.response_oom.add(1);
        return half.refused();
    }
    if (lent) half.value_lent(reply.meta, std::move(lent));
    half.done(reply);
    if (unlent != 0 && context.room != nullptr) [[unlikely]]
        context.room->make_room(unlent, Lack::value);  // pins are spent
}

template <class Half>
void get_locked(const Asker& asker, const protocol::GetOp& op, Half& half) {
    if constexpr (reads_values<Half>) {
        if (half.wants_value()) return get_value(asker, op, half);
    }
    auto sink = [&](const protocol::ItemMeta& meta) { return half.value_at(meta); };
    protocol::GetReply reply = asker.context.node.get(op, asker.context.now, sink);
    half.done(reply);
}

inline protocol::GetOp plain_get(const protocol::Key& key, bool tokens_matter) {
    protocol::GetOp op;
    op.key = key;
    op.win_tokens = tokens_matter;
    return op;
}

// Apart from the lock-free read, which is short and needs registers. was_read: the lock-free read hit, and counted as an
// access.
template <class Half, class Record>
[[gnu::noinline]] void get_after_read(const Asker& asker, const protocol::Key& key, bool tokens_matter, bool was_read,
                                      const Record& record, std::string_view words) {
    Half half(asker.answering(), key.bytes, record, words);
    protocol::GetOp op = plain_get(key, tokens_matter);
    op.no_bump = was_read;
    get_locked(asker, op, half);
}

}  // namespace asking

// True: answered at once.
template <class Half, class Op, class Record>
inline bool ask(const Asker& asker, const Op& op, const Record& record, std::string_view words = {}) {
    using Reply = decltype(asking::execute(asker, op));
    if (asker.context.backend != nullptr) [[unlikely]]
        return asking::ask_backend_for<Half, Reply>(asker, op, record, words);
    Reply reply = asking::execute(asker, op);
    Half(asker.answering(), asking::key_bytes(op), record, words).done(reply);
    return true;
}

// The same for a get that may change the item or needs more than the value.
template <class Half, class Record>
inline bool ask_get(const Asker& asker, const protocol::GetOp& op, const Record& record, std::string_view words = {}) {
    if (asker.context.backend != nullptr) [[unlikely]]
        return asking::get_from_backend<Half>(asker, op, /* plain= */ false, record, words);
    Half half(asker.answering(), op.key.bytes, record, words);
    if constexpr (asking::reads_values<Half>)
        if (half.wants_value() || !op.touch.has_value()) note_local(asker.context, op.key.bytes);
    asker.context.record_accesses();
    asking::get_locked(asker, op, half);
    return true;
}

// The same for a get of value, client flags and cas only. The steps, in order:
//   1. the embedded node's memory, without a lock;
//   2. the embedded node, under the lock;
// With a Backend: those of Backend::ask(). tokens_matter: win tokens and stale items are shown as such (mg).
template <class Half, class Record>
inline bool ask_plain_get(const Asker& asker, const protocol::Key& key, bool tokens_matter, const Record& record,
                          std::string_view words = {}) {
    Context& context = asker.context;
    if (context.backend != nullptr) [[unlikely]]
        return asking::get_from_backend<Half>(asker, asking::plain_get(key, tokens_matter), /* plain= */ true, record, words);
    note_local(context, key.bytes);
    if (context.local.accesses_full()) [[unlikely]]
        context.record_accesses();
    Half half(asker.answering(), key.bytes, record, words);
    bool large = false;
    const auto sink = [&](const fabric::ReadMeta& meta) -> char* {
        large = meta.value_len >= node::lent_bytes_min && half.sends(meta);
        return large ? nullptr : half.value_at(meta);
    };
    const fabric::Outcome outcome =
        context.local.read(key.bytes, key.hash, context.now, tokens_matter, /* count_access= */ true, sink);
    const bool is_hit = outcome == fabric::Outcome::hit;
    if (!is_hit || large) [[unlikely]]
        return asking::get_after_read<Half>(asker, key, tokens_matter, is_hit, record, words), true;
    half.hit();
    return true;
}

// Submits a request for nodes' statistics; `turn` writes the reply from stats_told(). With a Backend only.
template <class Record>
void ask_stats(const Asker& asker, const StatsNeed& need, std::string_view key, std::string_view words,
               const Record& record, ReplySlot::Turn turn) {
    ReplyQueue& queue = *asker.session.replies;
    ReplySlot& slot = queue.open();
    const protocol::StatsOp op{need.group};
    const Asked asked = asking::or_drop(
        queue, slot, [&] { return asker.context.backend->ask(op, need.node, queue.ticket_of(slot)); });
    CHECK(asked != Asked::now);
    queue.park(slot, asker.out, asked == Asked::crowded, /* gets_value= */ true, key, words, record, turn);
}

// Empty: no answer.
inline std::string_view stats_told(const ReplySlot& slot) {
    return slot.available() ? slot.value() : std::string_view();
}

struct NoRecord {};

// The completion for a set refused before its value arrived. Its reply is already sent; later requests wait for it.
class ForgetHalf {
  public:
    ForgetHalf(const Answering& to, std::string_view, NoRecord, std::string_view) : to_(to) {}
    void done(const protocol::DoneReply&) {}
    void unavailable() { to_.context.counters.change_unavailable.add(1); }

  private:
    Answering to_;
};

}  // namespace farcached::daemon
