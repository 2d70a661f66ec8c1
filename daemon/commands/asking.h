// SPDX-License-Identifier: BSD-3-Clause
// The request path between an engine and a peer. An engine makes an operation of parsed bytes. ask(), ask_get() or
// ask_plain_get() hands it to the router's peer. The Completion turns the reply into bytes, at once or in request order. For the
// engines only.
//
// Owner: none; calls of an engine. Threads: the worker that serves the session or the datagram.
//
// A Completion is made for one kind of request:
//     Completion(const ReplyTarget& to, std::string_view key, const Record& record, std::string_view words)
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
// A Record is trivially copyable. It holds what the Completion needs of the request besides key and words. Views in it end with
// the request. So each Record has a function, which gives it new ones that point into the slot; it does nothing without views:
//     void restore(Record& record, const ReplySlot& slot);
#pragma once

#include <cstring>
#include <functional>
#include <new>
#include <string_view>
#include <type_traits>
#include <variant>

#include "base/broken.h"
#include "daemon/engine/disk_gets.h"
#include "daemon/engine/engine.h"
#include "daemon/engine/links.h"
#include "daemon/engine/reply_queue.h"
#include "daemon/engine/router.h"
#include "daemon/engine/session_memory.h"
#include "daemon/stats/hot_keys.h"
#include "daemon/stats/latency.h"
#include "daemon/steps/stepped_requests.h"
#include "protocol/op.h"

namespace farcached::daemon {

struct Submitter {
    Context& context;
    SessionState& session;
    OutBuffer& out;
    ReplyContext* carry = nullptr;  // for immediate answers that leave state for later ones
    node::Upload* upload = nullptr;  // the value of the store

    ReplyTarget target() const { return {context, session.fd, out, carry}; }
    // True: the engine yields or holds (daemon/engine/engine.h, E3, E4).
    bool no_room() const {
        return out.leaves() >= context.out_bytes_max || (session.replies != nullptr && session.replies->full());
    }
};

// Samples a get or set answered in this process.
inline void note_local(const Context& context, std::string_view key) {
    if (context.hot_keys != nullptr && context.hot_keys->due()) [[unlikely]]
        context.hot_keys->sample(Way::local, key);
}

// A request on its way: what the completion is made of. Views, for the time of the call.
template <class Record>
struct Request {
    std::string_view key;
    const Record& record;
    std::string_view words;
};

struct NoRecord {};
inline void restore(NoRecord&, const ReplySlot&) {}

// A get answered here, where others may wait for the disk or take steps; without these Latencies counts them by itself.
inline void measure_get(const Context& context) {
    if ((context.disk != nullptr || context.steps != nullptr) && context.latencies != nullptr) [[unlikely]]
        context.latencies->at_once(Verb::get);
}

// The base of a Completion with these members only. The record outlives it.
template <class Record>
class Completing {
  public:
    Completing(const ReplyTarget& to, std::string_view key, const Record& asked, std::string_view)
        : to_(to), key_(key), asked_(asked) {}

  protected:
    ReplyTarget to_;
    std::string_view key_;
    const Record& asked_;
};

namespace asking {

// A mutation or a flush, at the embedded node.
template <class Op>
auto execute(const Submitter& asker, LocalPeer& peer, const Op& op) {
    if constexpr (std::is_same_v<Op, protocol::StoreOp>) {
        if (asker.context.latencies != nullptr) asker.context.latencies->at_once(Verb::set);
        note_local(asker.context, op.key.bytes);
        return peer.execute(op, asker.context.now, asker.upload);
    } else {
        return peer.execute(op, asker.context.now);
    }
}

template <class Op>
std::string_view key_bytes(const Op& op) {
    return op.key.bytes;
}
inline std::string_view key_bytes(const protocol::FlushOp&) { return {}; }

template <class Record>
Record& restored(ReplySlot& slot) {
    Record& record = slot.record<Record>();
    restore(record, slot);
    return record;
}

// ReplySlot::Complete.
template <class Completion, class Record, class Reply>
void complete(ReplySlot& slot, const ReplyTarget& to) {
    Completion completion(to, slot.key(), restored<Record>(slot), slot.words());
    if (!slot.available()) return completion.unavailable();
    Reply* reply = std::get_if<Reply>(&slot.reply());
    CHECK(reply != nullptr);
    completion.done(*reply);
}

template <class Completion, class Record>
void complete_get(ReplySlot& slot, const ReplyTarget& to) {
    Completion completion(to, slot.key(), restored<Record>(slot), slot.words());
    if (!slot.available()) return completion.unavailable();
    auto* reply = std::get_if<protocol::GetReply>(&slot.reply());
    CHECK(reply != nullptr);
    if (reply->status == protocol::GetReply::Status::hit) {
        const std::string_view value = slot.value();
        char* at = completion.value_at(reply->meta);
        if (at != nullptr) {
            CHECK(value.size() == reply->meta.value_len);
            if (!value.empty()) std::memcpy(at, value.data(), value.size());
        }
    }
    completion.done(*reply);
}

// For a later answer. `submission(ticket)` returns a SubmitResult; the slot's answer is written by `write`. If
// memory runs out, the slot is freed: a late answer then finds its ticket void.
template <class Record, class Submission>
void submit_later(const Submitter& asker, const Request<Record>& request, Verb verb, bool gets_value,
                     ReplySlot::Complete write, Submission submission, bool plain = false) {
    ReplyQueue& queue = *asker.session.replies;
    ReplySlot& slot = queue.open(verb);
    slot.is_plain(plain);
    SubmitResult result;
    try {
        result = submission(queue.ticket_of(slot));
    } catch (const std::bad_alloc&) {
        queue.drop(slot);
        throw;
    }
    queue.park(slot, asker.out, result == SubmitResult::crowded, gets_value, request.key, request.words, request.record, write);
}

// Not inlined: the embedded node's path stays short.
template <class Completion, class Reply, class Op, class Record>
[[gnu::noinline]] void submit_op_to_links(const Submitter& asker, const Op& op, const Request<Record>& request) {
    submit_later(asker, request, std::is_same_v<Op, protocol::StoreOp> ? Verb::set : Verb::other, /* gets_value= */ false,
                    &complete<Completion, Record, Reply>,
                    [&](Ticket ticket) { return asker.context.router.links().ask(op, ticket); });
}

template <class Completion, class Record>
[[gnu::noinline]] void submit_get_to_links(const Submitter& asker, LinkPeer* peer, const protocol::GetOp& op, Wanted wanted,
                                           const Request<Record>& request) {
    submit_later(asker, request, Verb::get, wanted.value, &complete_get<Completion, Record>,
                    [&](Ticket ticket) { return asker.context.router.links().get(peer, op, wanted, ticket); }, wanted.plain);
}

// SteppedRequests, for either kind of peer.
inline bool takes_steps(const Context& context) { return context.steps != nullptr; }
inline bool must_wait(const Submitter& asker, std::string_view key) {
    return takes_steps(asker.context) && asker.context.steps->must_wait(key, asker.session.replies->number());
}
// For a get that changes nothing.
inline bool get_takes_steps(const Submitter& asker, std::string_view key) {
    return takes_steps(asker.context) && (asker.context.steps->takes_gets(key) || must_wait(asker, key));
}

// True: no memory, and answered as unavailable.
template <class Completion, class Record, class Op>
[[gnu::noinline]] bool submit_in_steps(const Submitter& asker, const Op& op, Verb verb, Wanted wanted,
                                         const Request<Record>& request, ReplySlot::Complete write) {
    try {
        const size_t lent = asker.out.leaves() - asker.out.size();
        if (lent != 0 && !asker.context.has_room(lent)) throw SessionMemorySpent();
        if (lent != 0) asker.out.own_all();  // parked replies hold no borrowed bytes
        submit_later(asker, request, verb, wanted.value && verb == Verb::get, write,
                     [&](Ticket ticket) { return asker.context.steps->submit(op, wanted, ticket); }, wanted.plain);
        return false;
    } catch (const std::bad_alloc&) {
        Completion(asker.target(), request.key, request.record, request.words).unavailable();
        return true;
    }
}

// The lock-free read of a peer's memory, straight into the reply. lent_min: values of so many bytes are not copied (Read::large).
enum class Read : uint8_t { hit, large, other };

template <class Completion, class Adapt>
Read read_memory(proxy::LocalGet& memory, const protocol::Key& key, NodeSeconds now, bool tokens_matter, uint64_t lent_min,
                 Completion& completion, fabric::Found& found, Adapt adapt) {
    bool large = false;
    const auto sink = [&](const fabric::ReadMeta& read) -> char* {
        const fabric::ReadMeta& meta = adapt(read);
        large = meta.value_len >= lent_min && completion.sends(meta);
        return large ? nullptr : completion.value_at(meta);
    };
    if (memory.read(key.bytes, key.hash, now, tokens_matter, sink, found) != fabric::Outcome::hit) return Read::other;
    return large ? Read::large : Read::hit;
}

// Of a node behind a link whose memory is mapped. True: answered.
template <class Completion>
bool read_mapped(const Submitter& asker, LinkPeer& peer, const protocol::Key& key, bool tokens_matter, Completion& completion) {
    const protocol::Key hashed{key.bytes, peer.mapped().hash(key.bytes)};
    proxy::LocalGet* memory = peer.mapped_memory(hashed.hash, asker.session.replies->number());
    if (memory == nullptr) return false;
    fabric::Found found;
    fabric::ReadMeta shown;
    const auto without_cas = [&](const fabric::ReadMeta& read) -> const fabric::ReadMeta& {
        if (asker.context.options.cas_enabled) return read;
        shown = read;
        shown.cas = 0;
        return shown;
    };
    const Read read = read_memory(*memory, hashed, peer.mapped().node_seconds(), tokens_matter, /* lent_min= */ UINT64_MAX,
                                  completion, found, without_cas);
    broken::hold(broken::faults.held_copies && key.bytes.starts_with("held"));
    if (read != Read::hit || !peer.mapped().confirms()) return false;
    peer.note_access(hashed.hash, found);
    if (asker.context.latencies != nullptr) asker.context.latencies->at_once(Verb::get);
    note_local(asker.context, key.bytes);
    completion.hit();
    return true;
}

// True: the answer may hold a value.
template <class Completion>
constexpr bool reads_values = requires(Completion& completion) { completion.refused(); };

// What the embedded node answered, apart from a value that the completion has.
struct Got {
    protocol::GetReply reply;
    BorrowedBytes lent;    // the value, not copied
    node::Place away{};    // of the value on the disk; zeros: it is in memory
    uint64_t unlent = 0;   // bytes of a large value that could not be lent
};

// One attempt. False: no room for a copy of a large value.
template <class Completion>
bool try_value(const Submitter& asker, LocalPeer& peer, const protocol::GetOp& op, Completion& completion, Got& got) {
    const SessionMemory* const memory = asker.context.memory;
    bool has_room = true;
    const auto sink = [&](const protocol::ItemMeta& meta) -> char* {
        if (meta.value_len < node::lent_bytes_min || !completion.sends(meta)) return completion.value_at(meta);
        got.unlent = meta.value_len;
        has_room = memory == nullptr || memory->has_room(meta.value_len);
        return has_room ? completion.value_at(meta) : nullptr;
    };
    // Parked replies hold no borrowed bytes.
    const bool lends = asker.session.replies == nullptr || asker.session.replies->empty();
    got.reply = peer.execute(op, asker.context.now, sink, lends ? &got.lent : nullptr,
                             asker.context.disk != nullptr ? &got.away : nullptr);
    return has_room;
}

// The reply waits in the session's queue until the disk has the value.
template <class Completion, class Record>
[[gnu::noinline]] void get_from_disk(const Submitter& asker, const Got& got, const Request<Record>& request) {
    asker.out.own_all();
    submit_later(asker, request, Verb::get, /* gets_value= */ true, &complete_get<Completion, Record>, [&](Ticket ticket) {
        asker.context.disk->get(ticket, request.key, got.reply, got.away);
        return SubmitResult::later;
    });
}

// True: answered at once. A large value is sent from the slot, copied within SessionMemory, or refused. Room is made between
// attempts: an attempt holds the partition's lock, and a session that ends may unpin values of that partition. A get that took a
// win token is not repeated.
template <class Completion, class Record>
bool get_value(const Submitter& asker, LocalPeer& peer, const protocol::GetOp& op, Completion& completion,
               const Request<Record>& request) {
    Context& context = asker.context;
    Got got;
    bool fits = try_value(asker, peer, op, completion, got);
    if (!fits && !got.reply.meta.win && context.room != nullptr && context.room->make_room(got.unlent, Lack::value)) {
        protocol::GetOp again = op;
        again.no_bump = true;
        fits = try_value(asker, peer, again, completion, got);
        got.unlent = 0;
    }
    if (got.away != node::Place{}) [[unlikely]] {
        const bool sends = completion.sends(got.reply.meta);
        fits = !sends || context.has_room(asker.out.leaves() - asker.out.size());  // borrowed bytes become own ones
        if (sends && fits) return get_from_disk<Completion>(asker, got, request), false;
        if (!sends) completion.value_at(got.reply.meta);
    }
    if (!fits) {
        context.counters.response_oom.add(1);
        return completion.refused(), true;
    }
    if (got.lent) completion.value_lent(got.reply.meta, std::move(got.lent));
    completion.done(got.reply);
    if (!op.touch.has_value()) measure_get(context);
    if (got.unlent != 0 && context.room != nullptr) [[unlikely]]
        context.room->make_room(got.unlent, Lack::value);  // pins are spent
    return true;
}

// True: answered at once.
template <class Completion, class Record>
bool get_locked(const Submitter& asker, LocalPeer& peer, const protocol::GetOp& op, Completion& completion,
                const Request<Record>& request) {
    if constexpr (reads_values<Completion>) {
        if (completion.wants_value()) return get_value(asker, peer, op, completion, request);
    }
    auto sink = [&](const protocol::ItemMeta& meta) { return completion.value_at(meta); };
    protocol::GetReply reply = peer.execute(op, asker.context.now, sink);
    completion.done(reply);
    if (!op.touch.has_value()) measure_get(asker.context);
    return true;
}

inline protocol::GetOp plain_get(const protocol::Key& key, bool tokens_matter) {
    protocol::GetOp op;
    op.key = key;
    op.win_tokens = tokens_matter;
    return op;
}

// Apart from the lock-free read, which is short and needs registers. was_read: the lock-free read hit, and counted as an
// access.
template <class Completion, class Record>
[[gnu::noinline]] bool get_after_read(const Submitter& asker, LocalPeer& peer, const protocol::Key& key, bool tokens_matter,
                                      bool was_read, const Request<Record>& request) {
    Completion completion(asker.target(), request.key, request.record, request.words);
    protocol::GetOp op = plain_get(key, tokens_matter);
    op.no_bump = was_read;
    return get_locked(asker, peer, op, completion, request);
}

template <class Completion, class Record>
[[gnu::noinline]] bool get_in_steps(const Submitter& asker, const protocol::Key& key, bool tokens_matter,
                                      const Request<Record>& request, bool near = false) {
    const bool wants_value = Completion(asker.target(), request.key, request.record, request.words).wants_value();
    const Wanted wanted{wants_value, /* plain= */ true, near};
    return submit_in_steps<Completion>(asker, plain_get(key, tokens_matter), Verb::get, wanted, request,
                                       &complete_get<Completion, Record>);
}

// Keys behind links: mapped memory; then what proxy::Requests::get() tries in turn: pointer, index, two-sided.
template <class Completion, class Record>
[[gnu::noinline]] bool get_plain_from_links(const Submitter& asker, const protocol::Key& key, bool tokens_matter,
                                            const Request<Record>& request) {
    Links& links = asker.context.router.links();
    LinkPeer* const near = links.peers().near_copy(key.bytes);
    LinkPeer* const peer = near != nullptr ? near : links.peers().choose_to_read(key.bytes);
    bool wants_value;
    {
        Completion completion(asker.target(), request.key, request.record, request.words);
        const bool reads = peer != nullptr && peer->is_mapped() && links.peers().may_read(*peer, key.bytes);
        if (reads && !must_wait(asker, key.bytes) && read_mapped(asker, *peer, key, tokens_matter, completion)) {
            if (near != nullptr) asker.context.counters.replica_reads.add(1);
            return true;
        }
        wants_value = completion.wants_value();
    }
    if (near != nullptr || get_takes_steps(asker, key.bytes))
        return get_in_steps<Completion>(asker, key, tokens_matter, request, near != nullptr);
    submit_get_to_links<Completion>(asker, peer, plain_get(key, tokens_matter), {wants_value, /* plain= */ true}, request);
    return false;
}

}  // namespace asking

// A mutation, or a flush. True: answered at once.
template <class Completion, class Op, class Record>
inline bool ask(const Submitter& asker, const Op& op, const Record& record, std::string_view words = {}) {
    using Reply = decltype(asking::execute(asker, std::declval<LocalPeer&>(), op));
    const Request<Record> request{asking::key_bytes(op), record, words};
    if (asking::takes_steps(asker.context) && asker.context.steps->takes_changes(request.key)) [[unlikely]] {
        const Verb verb = std::is_same_v<Op, protocol::StoreOp> ? Verb::set : Verb::other;
        return asking::submit_in_steps<Completion>(asker, op, verb, {}, request, &asking::complete<Completion, Record, Reply>);
    }
    LocalPeer* peer = asker.context.router.local();
    if (peer == nullptr) [[unlikely]]
        return asking::submit_op_to_links<Completion, Reply>(asker, op, request), false;
    Reply reply = asking::execute(asker, *peer, op);
    Completion(asker.target(), request.key, record, words).done(reply);
    return true;
}

// A get that may change the item or needs more than the value. True: answered at once.
template <class Completion, class Record>
inline bool ask_get(const Submitter& asker, const protocol::GetOp& op, const Record& record, std::string_view words = {}) {
    const Request<Record> request{op.key.bytes, record, words};
    Completion completion(asker.target(), request.key, record, words);
    const bool changes = op.touch.has_value() || op.vivify.has_value();
    const bool in_steps = asking::takes_steps(asker.context) && (changes ? asker.context.steps->takes_changes(request.key)
                                                                         : asking::get_takes_steps(asker, request.key));
    if (in_steps) [[unlikely]] {
        return asking::submit_in_steps<Completion>(asker, op, Verb::get, {completion.wants_value(), /* plain= */ false}, request,
                                                     &asking::complete_get<Completion, Record>);
    }
    LocalPeer* peer = asker.context.router.local();
    if (peer == nullptr) [[unlikely]] {
        LinkPeer* chosen = asker.context.router.links().peers().choose_to_read(request.key, /* plain= */ false);
        asking::submit_get_to_links<Completion>(asker, chosen, op, {completion.wants_value(), /* plain= */ false}, request);
        return false;
    }
    if constexpr (asking::reads_values<Completion>)
        if (completion.wants_value() || !op.touch.has_value()) note_local(asker.context, op.key.bytes);
    peer->record_accesses(asker.context.now);
    return asking::get_locked(asker, *peer, op, completion, request);
}

// A get of value, client flags and cas only. Each way that does not answer leaves the get to the next one.
// The embedded node: its memory, without a lock; the node, under the lock of the key's partition.
// A node behind a link: its memory, if it is mapped here; a remote pointer; a probe of its index; an RPC.
// SteppedRequests may take what is not read here at once.
// The counters of proxy/local_get.h, and those that proxy/onesided_share.h sums, have the reasons.
// tokens_matter: win tokens and stale items are shown as such (mg).
template <class Completion, class Record>
inline bool ask_plain_get(const Submitter& asker, const protocol::Key& key, bool tokens_matter, const Record& record,
                          std::string_view words = {}) {
    Context& context = asker.context;
    const Request<Record> request{key.bytes, record, words};
    LocalPeer* peer = context.router.local();
    if (peer == nullptr) [[unlikely]]
        return asking::get_plain_from_links<Completion>(asker, key, tokens_matter, request);
    if (asking::must_wait(asker, key.bytes)) [[unlikely]]
        return asking::get_in_steps<Completion>(asker, key, tokens_matter, request);
    note_local(context, key.bytes);
    if (peer->memory().accesses_full()) [[unlikely]]
        peer->record_accesses(context.now);
    Completion completion(asker.target(), key.bytes, record, words);
    fabric::Found found;
    const asking::Read read = asking::read_memory(peer->memory(), key, context.now, tokens_matter, node::lent_bytes_min, completion,
                                                  found, std::identity());
    if (read != asking::Read::other) peer->memory().note_access(found, key.hash);
    if (read == asking::Read::other && asking::takes_steps(context)) [[unlikely]]
        return asking::get_in_steps<Completion>(asker, key, tokens_matter, request);
    if (read != asking::Read::hit) [[unlikely]] {
        return asking::get_after_read<Completion>(asker, *peer, key, tokens_matter, read == asking::Read::large, request);
    }
    completion.hit();
    measure_get(context);
    return true;
}

// True: `progress` says when to call again; nothing was executed. Statistics cover all earlier requests of the session, but
// unanswered ones are not counted.
inline bool stats_must_wait(const Submitter& asker, std::string_view args, Progress& progress) {
    if (asker.context.router.has_items()) return false;
    if (!asker.session.replies->empty())
        progress.next = Next::hold;
    else if (!asker.context.admin.stats_ready(args))
        progress.next = Next::yield;
    return progress.next != Next::more;
}

// Submits a request for nodes' statistics; `write` writes the reply from stats_told(). Only to links.
template <class Record>
void ask_stats(const Submitter& asker, const StatsNeed& need, std::string_view key, std::string_view words,
               const Record& record, ReplySlot::Complete write) {
    const protocol::StatsOp op{need.group};
    asking::submit_later(asker, Request<Record>{key, record, words}, Verb::other, /* gets_value= */ true, write,
                            [&](Ticket ticket) { return asker.context.router.links().ask(op, need.node, ticket); });
}

// `stats <args>` that change the process, or list keys: a forged sender must not.
constexpr bool are_refused_over_udp(std::string_view args) {
    const std::string_view group = args.substr(0, args.find(' '));
    return group == "reset" || group == "detail" || group == "cachedump" ||
           (group == "hotkeys" && args != group);
}

// Empty: no answer.
inline std::string_view stats_told(const ReplySlot& slot) {
    return slot.available() ? slot.value() : std::string_view();
}

// Continues a set whose value arrives in the node (PendingSet); take(Call&) executes its head. False: incomplete.
template <class Call, class Take>
bool go_on_with_pending(const Submitter& asker, std::string_view input, Progress& progress, Take take) {
    progress.consumed += feed_pending(*asker.session.pending, input);
    if (!is_whole(*asker.session.pending)) return false;
    const std::unique_ptr<PendingSet> set = std::move(asker.session.pending);
    Progress within_head;
    Call call{asker, set->head, within_head, set.get()};
    call.upload = set->upload.get();
    const size_t answered = asker.out.size();
    const bool done = take(call);
    CHECK(done);
    progress.requests++;
    if (asker.context.options.trace) {
        trace_request(asker.session.fd, set->head);
        trace_reply(asker.session.fd, asker.out.own().substr(answered));
    }
    return true;
}

// The completion for a set refused before its value arrived. Its reply is already sent; later requests wait for it.
class ForgetCompletion : Completing<NoRecord> {
  public:
    using Completing::Completing;
    void done(const protocol::DoneReply&) {}
    void unavailable() { to_.context.counters.mutations_unavailable.add(1); }
};

}  // namespace farcached::daemon
