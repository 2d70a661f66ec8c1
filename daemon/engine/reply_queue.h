// SPDX-License-Identifier: BSD-3-Clause
// ReplyQueue: one session's replies while some operations wait for a node. Each operation that was not answered at once has
// a slot. Replies written at once behind it are text behind that slot.
//
//   client  <-  [text] slot [text] slot [text] slot ... [text]  <-  engine
//                      head                    tail
//
// A slot keeps the parts of the request that the engine needs (a record, the key, a meta command's words), and then the answer.
// When it is the head and answered, the engine's completion writes the reply, counts, and writes watch lines. Immediate
// answers run the same code. Replies leave in the order of the requests.
//
// Owners: a ReplyPool belongs to a worker, a ReplyQueue to a session or a datagram of that worker. One thread.
//
// Q1  The pool owns the slots. A submitted slot stays until its answer arrives, even if its queue is gone: the answer is then
//     counted, and written nowhere.
// Q2  A ticket names one use of one slot. Answers to any other ticket are ignored, and counted.
// Q3  Slots and bytes are bounded: while full() the engine submits nothing more. An empty queue is never full.
// Q4  Ready replies wait at most one tick for unanswered ones behind them: replies that arrive close together leave in one
//     send.
// Q5  An empty queue holds no memory and a free slot little: the memory of long keys and large values is freed.
// Q6  Bytes above uncharged_bytes are charged to SessionMemory. Answers that find no room there are dropped, and their requests
//     fail as unavailable. No session ends for a datagram's answers.
// Q7  After discard() each answer is counted as any other on its arrival, and its reply written nowhere.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/out_buffer.h"
#include "daemon/stats/latency.h"
#include "protocol/frame_reply.h"
#include "proxy/ask.h"

namespace farcached::daemon {

// Of a request that waits for its answer: one use of one slot of a ReplyPool.
using proxy::Ticket;

enum class SubmitResult : uint8_t {
    later,    // the ticket will be answered
    crowded,  // as later; and this client submits nothing more until then: its node is behind
};

struct Wanted {
    bool value = true;
    bool plain = false;  // only value, client flags and cas, of an item without tokens: a one-sided read may answer
    bool near = false;   // from the copy, if its node replies (PeerSet::near_copy())
};

struct Context;
struct Datagram;
struct Session;
class ReplyPool;
class ReplyQueue;
class SessionMemory;

// State that one answer leaves for a later one of the same request.
struct ReplyContext {
    std::optional<int64_t> ttl_s;  // mg t T, ma t T: before the touch; -1: never expires
    bool line_failed = false;      // a key of this get line was unavailable
    bool refused = false;          // no memory for the value
};

struct ReplyTarget {
    Context& context;
    int fd;                  // of the client, for watch lines
    OutBuffer& out;
    ReplyContext* carry = nullptr;  // null: no later answer needs it
};

// The value of an answer: bytes that it owns, or else a copy of them.
class ReplyValue {
  public:
    std::string_view view() const { return owned_ != nullptr ? std::string_view(owned_.get(), owned_bytes_) : copied_; }
    // `owned` holds these bytes, or is nullptr: they are copied. Throws std::bad_alloc.
    void set(std::string_view bytes, std::unique_ptr<char[]> owned) {
        owned_ = std::move(owned);
        owned_bytes_ = bytes.size();
        if (owned_ == nullptr) copied_.assign(bytes);
    }
    // Frees its memory, but for a small buffer (Q5).
    void drop();

  private:
    std::string copied_;
    std::unique_ptr<char[]> owned_;  // else copied_
    size_t owned_bytes_ = 0;
};

class ReplySlot {
  public:
    static constexpr size_t record_bytes_max = 176;
    using Complete = void (*)(ReplySlot& slot, const ReplyTarget& to);

    std::string_view key() const { return std::string_view(request_).substr(0, key_bytes_); }
    std::string_view words() const { return std::string_view(request_).substr(key_bytes_); }
    // As it was parked; its views are no longer valid.
    template <class Record>
    Record& record() {
        return *std::launder(reinterpret_cast<Record*>(record_.data()));
    }
    // If it is not available: why; perhaps empty.
    std::string_view failure() const { return why_; }
    bool available() const { return state_ == State::answered; }
    // Before it is submitted: a get as in Wanted.
    void is_plain(bool plain) { plain_ = plain; }
    // Only if available().
    protocol::ReplyOp& reply() { return reply_; }
    std::string_view value() const { return value_.view(); }

  private:
    friend class ReplyPool;
    friend class ReplyQueue;
    enum class State : uint8_t { free, asked, answered, unavailable };

    State state_ = State::free;
    bool gets_value_ = false;
    bool plain_ = false;           // as in Wanted
    bool asked_again_ = false;
    bool crowded_ = false;
    Verb verb_ = Verb::other;
    Way way_ = Way::two_sided;     // of the answer
    uint16_t key_bytes_ = 0;
    uint32_t index_ = 0;
    uint64_t generation_ = 0;
    int fd_ = -1;
    uint64_t received_ns_ = 0;     // daemon/stats/latency.h
    uint64_t asked_ns_ = 0;        // this and the next two: only for the list of slow requests
    uint64_t answered_ns_ = 0;
    std::string node_;             // the node's name, copied: the node may leave before the reply is written
    std::string_view why_;         // the reason, if unavailable
    size_t text_before_ = 0;       // bytes of the queue's text that leave before it
    uint64_t session_ = 0;         // the queue's number
    ReplyQueue* queue_ = nullptr;  // null: the session is gone
    ReplySlot* next_ = nullptr;    // in the queue or the free list
    Complete complete_ = nullptr;
    std::string request_;          // key and words
    protocol::ReplyOp reply_;
    ReplyValue value_;
    alignas(std::max_align_t) std::array<std::byte, record_bytes_max> record_;
};

// A worker may have thousands of them.
static_assert(sizeof(ReplySlot) <= 528);

// All slots of a worker. Outlives its queues and the links.
class ReplyPool {
  public:
    // Borrowed.
    explicit ReplyPool(Context& context) : context_(context) {}
    ReplyPool(const ReplyPool&) = delete;
    ReplyPool& operator=(const ReplyPool&) = delete;

    // ---- for the links ---------------------------------------------------------------------------
    // `reply` has the type of the request. `value`: of a hit if the request wants one; copied unless `owned` holds these bytes.
    void answer(Ticket ticket, const protocol::ReplyOp& reply, std::string_view value = {},
                std::unique_ptr<char[]> owned = nullptr, Way way = Way::two_sided);
    // why: a literal, for watch lines.
    void unavailable(Ticket ticket, std::string_view why = {});
    // Of a client's unanswered get, so that the links can ask another node. Once, and only if nothing but plain gets of other
    // keys follows in its session: so it does not see the effect of a later request. Valid until the answer.
    struct PlainGet {
        std::string_view key;
        bool wants_value;
    };
    std::optional<PlainGet> ask_again(Ticket ticket);
    // Whether a session waits for the answer of that unanswered ticket.
    bool is_awaited(Ticket ticket);
    // The session of an unanswered ticket: a number per queue, never 0.
    uint64_t session_of(Ticket ticket);
    // lists_slow(): the list of slow requests is on. asked_of() and asked_at() record a request's node and send time, for that
    // list and for watchers.
    bool lists_slow() const;
    bool names_nodes() const;
    void asked_of(Ticket ticket, const std::string& node);
    void asked_at(Ticket ticket, uint64_t now_ns);
    // The clock reading for answers that arrive from now on.
    void answers_at(uint64_t now_ns) { answers_ns_ = now_ns; }

    // For a request of the worker itself, within a session's order. `complete` runs once, when the answer arrives, perhaps within
    // the submission. It must not throw; its output is dropped.
    template <class Record>
    Ticket open_own(uint64_t session, const Record& record, ReplySlot::Complete complete) {
        static_assert(std::is_trivially_copyable_v<Record>);
        static_assert(sizeof(Record) <= ReplySlot::record_bytes_max);
        ReplySlot& slot = open(Verb::other, session);
        slot.fd_ = -1;
        new (slot.record_.data()) Record(record);
        slot.complete_ = complete;
        return ticket_of(slot);
    }

    // ---- for the worker --------------------------------------------------------------------------
    // Live queues with replies to emit now. Valid until the next call. Neither this nor list() allocates: there is room for
    // every queue.
    std::span<ReplyQueue* const> take_ready();
    bool anything_ready() const { return !ready_.empty(); }
    // Begins a tick. True: a queue must be emitted at its end, so the worker must not sleep (Q4).
    bool begin_tick() {
        tick_++;
        return !ready_.empty();
    }

  private:
    friend class ReplyQueue;

    ReplySlot& open(Verb verb, uint64_t session);
    Ticket ticket_of(const ReplySlot& slot) const;
    ReplySlot* find(Ticket ticket);
    void close(ReplySlot& slot);
    void arrived(ReplySlot& slot, ReplySlot::State how);
    void drop_value(ReplySlot& slot);
    void complete_nowhere(ReplySlot& slot);
    void count_only(ReplySlot& slot);
    void tell_failed(const ReplySlot& slot) const;
    void list(ReplyQueue& queue);

    Context& context_;
    std::deque<ReplySlot> slots_;
    ReplySlot* free_ = nullptr;
    uint32_t in_use_ = 0;
    uint64_t generation_ = 0;
    uint64_t sessions_ = 0;
    std::vector<ReplyQueue*> ready_, taken_;
    size_t queues_ = 0;
    uint64_t tick_ = 0;
    uint64_t answers_ns_ = 0;
    OutBuffer nowhere_;
};

class ReplyQueue {
  public:
    static constexpr uint32_t slots_max = 512;
    static constexpr size_t bytes_max = 4 << 20;
    static constexpr size_t short_bytes_max = 64 << 10;  // while SessionMemory is short of room
    static constexpr uint32_t short_values_max = 8;      // unanswered gets, while it is short of room
    static constexpr uint32_t values_at_first = 64;  // gets submitted from an empty queue, while the values' sizes are unknown
    static constexpr size_t uncharged_bytes = 16 << 10;
    static constexpr size_t charged_step = 64 << 10;
    static constexpr size_t patience_bytes_max = 64 << 10;  // with more it does not wait (Q4)

    // The pool is borrowed. session and datagram are the worker's; at most one of them is not null. memory: the datagram's part
    // (Q6); nullptr: the context's. Throws std::bad_alloc.
    ReplyQueue(ReplyPool& pool, int fd, Session* session = nullptr, Datagram* datagram = nullptr, SessionMemory* memory = nullptr);
    ~ReplyQueue();
    ReplyQueue(const ReplyQueue&) = delete;
    ReplyQueue& operator=(const ReplyQueue&) = delete;

    Session* session() const { return session_; }
    Datagram* datagram() const { return datagram_; }
    // Of the session, unique within the pool; never 0.
    uint64_t number() const { return number_; }
    bool empty() const { return head_ == nullptr; }
    bool ready() const { return head_ != nullptr && head_->state_ != ReplySlot::State::asked; }
    // Ready, and waiting gains nothing (Q4).
    bool due() const { return ready() && !patient(); }
    // Q3. The largest recent value stands for each value under way. Small values raise the number of gets that may be under
    // way, from values_at_first again for each empty queue: the next values may be large.
    bool full() const {
        if (slots_ >= slots_max || values_asked_ >= values_max_) return true;
        if (short_of_room() && (values_asked_ >= short_values_max || bytes() >= short_bytes_max)) return true;
        return crowded_ != 0 || bytes() + values_asked_ * value_largest_ >= bytes_max;
    }
    // After full(): worth parsing again.
    bool has_room() const { return slots_ <= slots_max / 2 && !full(); }
    uint32_t slots() const { return slots_; }
    size_t bytes() const { return bytes_ + text_.size() - text_start_; }

    // ---- for engines -----------------------------------------------------------------------------
    // A slot for an operation about to be submitted. Then either park() or, if answered at once, drop().
    ReplySlot& open(Verb verb = Verb::other) { return pool_.open(verb, number_); }
    Ticket ticket_of(const ReplySlot& slot) const { return pool_.ticket_of(slot); }
    void drop(ReplySlot& slot) { pool_.close(slot); }
    // `out`: the output of this engine call so far. complete() runs once all earlier replies are written.
    template <class Record>
    void park(ReplySlot& slot, const OutBuffer& out, bool crowded, bool gets_value, std::string_view key,
              std::string_view words, const Record& record, ReplySlot::Complete complete) {
        static_assert(std::is_trivially_copyable_v<Record>);
        static_assert(sizeof(Record) <= ReplySlot::record_bytes_max);
        new (slot.record_.data()) Record(record);
        slot.complete_ = complete;
        slot.gets_value_ = gets_value;
        slot.crowded_ = crowded;
        append(slot, out, key, words);
    }
    // A slot that needs no answer: its complete() runs when it is the head.
    void park_answered(const OutBuffer& out, ReplySlot::Complete complete);

    // ---- for sessions ----------------------------------------------------------------------------
    // After each engine call: takes its replies in, and emits ready ones unless it waits for more (Q4). In that case the pool
    // lists the queue when it is ready.
    void settle(OutBuffer& out);
    // Appends ready replies until `out` has out_bytes_max.
    void emit(OutBuffer& out);
    size_t charged() const { return charged_; }
    // The client gets nothing more: frees its replies. Answers under way are still awaited.
    void abandon();
    // The same for a refused datagram (Q7).
    void discard();
    // Lists the queue with the pool again if it has anything to emit.
    void remind();

  private:
    friend class ReplyPool;

    SessionMemory* memory() const;
    bool short_of_room() const;
    void append(ReplySlot& slot, const OutBuffer& out, std::string_view key, std::string_view words);
    bool patient() const { return unanswered_ != 0 && bytes() < patience_bytes_max; }
    void move_text(OutBuffer& out, size_t bytes);
    void take_turn(OutBuffer& out);
    void measure(const ReplySlot& slot) const;
    void arrived(ReplySlot& slot);
    void count_discarded(ReplySlot& slot);
    bool charge(size_t bytes);
    void discharge(size_t kept);

    ReplyPool& pool_;
    const int fd_;
    Session* const session_;
    Datagram* const datagram_;
    SessionMemory* const part_;  // nullptr: it charges the context's
    const uint64_t number_;  // unique within the pool
    ReplySlot* head_ = nullptr;
    ReplySlot* tail_ = nullptr;
    uint32_t slots_ = 0;
    uint32_t crowded_ = 0;         // slots of a crowded node
    uint32_t unanswered_ = 0;
    uint32_t values_asked_ = 0;    // unanswered gets
    uint32_t values_max_ = values_at_first;  // bound of values_asked_
    size_t value_largest_ = 0;     // since the queue was empty
    size_t bytes_ = 0;             // of requests and values in slots
    size_t out_seen_ = 0;          // of this engine call's replies, those up to the last slot
    std::string text_;             // from text_start_ on: the bytes that text_before_ counts, then those behind the tail
    size_t text_start_ = 0;
    size_t text_behind_ = 0;       // bytes of text_ behind the tail
    size_t charged_ = 0;           // Q6
    bool abandoned_ = false;       // drops each answer on arrival
    bool discarded_ = false;       // Q7
    bool listed_ = false;          // in the pool's ready_
    uint64_t listed_in_ = 0;       // the tick of that
    ReplyContext carry_;
};

}  // namespace farcached::daemon
