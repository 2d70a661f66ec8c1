// SPDX-License-Identifier: BSD-3-Clause
// How engines ask: ask<Half>(asker, op, record) has the operation executed, by the embedded node or the Backend, and
// lets Half answer it, now or in its turn. For the engines only.
//
// A Half is the answering half of one kind of request:
//     Half(const Answering& to, std::string_view key, const Record& record, std::string_view words)
//     void done(Reply& reply);           // counts, tells watchers, writes to `to.out`
//     void unavailable();                // the same for no answer
// and for a get, too:
//     bool wants_value() const;
//     char* value_at(const protocol::ItemMeta& meta);  // before done(): where the value goes, or nullptr
//
// A record is trivially copyable and holds what Half needs of the request besides key and words. Its views do not
// outlive the request, but those named `key` and `flags.words`, which are set anew.
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
#include "protocol/op.h"

namespace farcached::daemon {

struct Asker {
    Context& context;
    SessionState& session;
    OutBuffer& out;
    Carry* carry = nullptr;  // for answers that come at once and leave something for another

    Answering answering() const { return {context, session.fd, out, carry}; }
};

// Of a get or set that is answered in this process.
inline void note_local(const Context& context, std::string_view key) {
    if (context.hot_keys != nullptr && context.hot_keys->due()) [[unlikely]]
        context.hot_keys->sample(Way::local, key);
}

namespace asking {

inline protocol::StoreReply execute(const Context& context, const protocol::StoreOp& op) {
    if (context.latencies != nullptr) context.latencies->at_once(Verb::set);
    note_local(context, op.key.bytes);
    return context.node.store(op, context.now);
}
inline protocol::DeleteReply execute(const Context& context, const protocol::DeleteOp& op) {
    broken::fail_if_named(op.key.bytes);
    return context.node.remove(op, context.now);
}
inline protocol::ArithReply execute(const Context& context, const protocol::ArithOp& op) {
    return context.node.arith(op, context.now);
}
inline protocol::DoneReply execute(const Context& context, const protocol::ForgetOp& op) {
    context.node.forget(op.key, context.now);
    return {};
}
inline protocol::DoneReply execute(const Context& context, const protocol::FlushOp& op) {
    if (op.at.has_value())
        context.admin.flush_at(*op.at);
    else
        context.node.flush_all(context.now);
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

// Who finds no memory to ask leaves no slot behind: should an answer come all the same, its ticket is void.
template <class Ask>
Asked or_drop(ReplyQueue& queue, ReplySlot& slot, Ask ask) {
    try {
        return ask();
    } catch (const std::bad_alloc&) {
        queue.drop(slot);
        throw;
    }
}

// Out of the way of those who ask the embedded node.
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
    asker.out.truncate(before);  // of a read that proved nothing
    queue.park(slot, asker.out, asked == Asked::crowded, wanted.value, op.key.bytes, words, record,
               &take_get_turn<Half, Record>);
    return false;
}

}  // namespace asking

// True: it was answered at once.
template <class Half, class Op, class Record>
inline bool ask(const Asker& asker, const Op& op, const Record& record, std::string_view words = {}) {
    using Reply = decltype(asking::execute(asker.context, op));
    if (asker.context.backend != nullptr) [[unlikely]]
        return asking::ask_backend_for<Half, Reply>(asker, op, record, words);
    Reply reply = asking::execute(asker.context, op);
    Half(asker.answering(), asking::key_bytes(op), record, words).done(reply);
    return true;
}

// The same for a get. plain: as in Wanted.
template <class Half, class Record>
inline bool ask_get(const Asker& asker, const protocol::GetOp& op, bool plain, const Record& record,
                    std::string_view words = {}) {
    if (asker.context.backend != nullptr) [[unlikely]]
        return asking::get_from_backend<Half>(asker, op, plain, record, words);
    Half half(asker.answering(), op.key.bytes, record, words);
    auto sink = [&](const protocol::ItemMeta& meta) { return half.value_at(meta); };
    protocol::GetReply reply = asker.context.node.get(op, asker.context.now, sink);
    half.done(reply);
    return true;
}

// Asks nodes for statistics; `turn` writes the reply from stats_told(). With a Backend only.
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

// Empty: nothing was answered.
inline std::string_view stats_told(const ReplySlot& slot) {
    return slot.available() ? slot.value() : std::string_view();
}

struct NoRecord {};

// Of a set that was refused before its value came. The client was told; but what follows waits for it.
class ForgetHalf {
  public:
    ForgetHalf(const Answering& to, std::string_view, NoRecord, std::string_view) : to_(to) {}
    void done(const protocol::DoneReply&) {}
    void unavailable() { to_.context.counters.change_unavailable.add(1); }

  private:
    Answering to_;
};

}  // namespace farcached::daemon
