// SPDX-License-Identifier: BSD-3-Clause
// ReplyQueue: one session's replies while some of them wait for a Backend. Each operation that was not answered at
// once has a slot; what is replied at once behind it is text behind that slot.
//
//   client  <-  [text] slot [text] slot [text] slot ... [text]  <-  engine
//                      head                    tail
//
// A slot keeps what the engine needs of the request (a record, the key, a meta command's words), and then the answer
// as it came. When it is the head and answered, the engine's answering half writes the client's bytes, counts, and
// tells watchers: exactly as it does for an answer that came at once, and in the order of the requests.
//
// Owners: a ReplyPool belongs to a worker, a ReplyQueue to a session of that worker. One thread.
//
// Q1  Slots belong to the pool. One that was asked stays until it is answered, even if its queue is gone: then the
//     answer is counted, and written nowhere.
// Q2  A ticket names one use of one slot. What is said of any other is ignored, and counted.
// Q3  full() says when no more may be asked: slots and bytes are bounded. It is never so of an empty queue.
// Q4  What is ready while more is asked for waits one tick for that, so that a client gets its answers in one piece where
//     they come close to one another, and never for longer.
// Q5  An empty queue holds no memory, the pool's slots little: what a long key or a large value took is given back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "base/out_buffer.h"
#include "daemon/backend.h"
#include "daemon/latency.h"
#include "protocol/frame_reply.h"

namespace farcached::daemon {

struct Context;
struct Session;
class ReplyPool;
class ReplyQueue;

// What one answer leaves for a later one of the same request.
struct Carry {
    std::optional<int64_t> ttl_s;  // of mg t T, ma t T: before the touch; -1: never expires
    bool line_failed = false;      // a key of this get line was unavailable
};

// Where an answering half writes, and on whose behalf.
struct Answering {
    Context& context;
    int fd;                  // the client's, for watch lines
    OutBuffer& out;
    Carry* carry = nullptr;  // set for what may need it
};

class ReplySlot {
  public:
    static constexpr size_t record_bytes_max = 176;
    using Turn = void (*)(ReplySlot& slot, const Answering& to);

    std::string_view key() const { return std::string_view(request_).substr(0, key_bytes_); }
    std::string_view words() const { return std::string_view(request_).substr(key_bytes_); }
    // As it was parked; views in it are not valid any more.
    template <class Record>
    Record& record() {
        return *std::launder(reinterpret_cast<Record*>(record_.data()));
    }
    bool available() const { return state_ == State::answered; }
    // Only if available().
    protocol::ReplyOp& reply() { return reply_; }
    std::string_view value() const;

  private:
    friend class ReplyPool;
    friend class ReplyQueue;
    enum class State : uint8_t { free, asked, answered, unavailable };

    State state_ = State::free;
    bool gets_value_ = false;
    bool crowded_ = false;
    Verb verb_ = Verb::other;
    Way way_ = Way::two_sided;     // on which it was answered
    uint16_t key_bytes_ = 0;
    uint32_t index_ = 0;
    uint64_t generation_ = 0;
    int fd_ = -1;
    uint64_t received_ns_ = 0;     // daemon/latency.h
    uint64_t asked_ns_ = 0;        // with the next two set only for the list of slow requests
    uint64_t answered_ns_ = 0;
    std::string node_;             // its name, a copy: the node may leave before the reply is written
    std::string_view why_;         // it is unavailable
    size_t text_before_ = 0;       // bytes of the queue's text that go out before it
    ReplyQueue* queue_ = nullptr;  // null: the session is gone
    ReplySlot* next_ = nullptr;    // in the queue, or free
    Turn turn_ = nullptr;
    std::string request_;          // key and words
    protocol::ReplyOp reply_;
    std::string value_;
    std::unique_ptr<char[]> owned_;  // else value_
    size_t owned_bytes_ = 0;
    alignas(std::max_align_t) std::array<std::byte, record_bytes_max> record_;
};

// Is told that a queue has become ready. Called from within answer() and unavailable(): remember it, do it later.
class ReplyEvents {
  public:
    virtual ~ReplyEvents() = default;
    virtual void replies_ready() = 0;
};

// All slots of a worker. It outlives its queues and the Backend.
class ReplyPool {
  public:
    // Both are borrowed. events may be null.
    ReplyPool(Context& context, ReplyEvents* events) : context_(context), events_(events) {}
    ReplyPool(const ReplyPool&) = delete;
    ReplyPool& operator=(const ReplyPool&) = delete;

    // ---- for the Backend -------------------------------------------------------------------------
    // `reply` is of the kind that was asked. `value`: of a hit that was to bring one, copied unless `owned` holds
    // these bytes.
    void answer(Ticket ticket, const protocol::ReplyOp& reply, std::string_view value = {},
                std::unique_ptr<char[]> owned = nullptr, Way way = Way::two_sided);
    // why: a literal, for those who watch.
    void unavailable(Ticket ticket, std::string_view why = {});
    // For the list of slow requests: is there one? For it, and for those who watch, of what was asked: which node, and
    // that it took the request at that moment.
    bool lists_slow() const;
    bool names_nodes() const;
    void asked_of(Ticket ticket, const std::string& node);
    void asked_at(Ticket ticket, uint64_t now_ns);
    // A reading of the clock, for answers that come from now on.
    void answers_at(uint64_t now_ns) { answers_ns_ = now_ns; }

    // ---- for the worker --------------------------------------------------------------------------
    // Queues with something to be given out now; those that are gone by now are not among them.
    std::vector<ReplyQueue*> take_ready();
    bool anything_ready() const { return !ready_.empty(); }
    // Another tick has begun. True: at its end some queue must be asked for, so nobody may sleep in it (Q4).
    bool begin_tick() {
        tick_++;
        return !ready_.empty();
    }

  private:
    friend class ReplyQueue;

    ReplySlot& open(Verb verb);
    Ticket ticket_of(const ReplySlot& slot) const;
    ReplySlot* find(Ticket ticket);
    void close(ReplySlot& slot);
    void arrived(ReplySlot& slot, ReplySlot::State how);
    void count_only(ReplySlot& slot);
    void tell_failed(const ReplySlot& slot) const;
    void list(ReplyQueue& queue);

    Context& context_;
    ReplyEvents* events_;
    std::deque<ReplySlot> slots_;
    ReplySlot* free_ = nullptr;
    uint32_t in_use_ = 0;
    uint64_t generation_ = 0;
    std::vector<ReplyQueue*> ready_;
    uint64_t tick_ = 0;
    uint64_t answers_ns_ = 0;
    OutBuffer nowhere_;
};

class ReplyQueue {
  public:
    static constexpr uint32_t slots_max = 512;
    static constexpr size_t bytes_max = 4 << 20;
    static constexpr uint32_t values_at_first = 64;  // asked for of an empty queue, before it is known how large they are
    static constexpr size_t patience_bytes_max = 64 << 10;  // with more it does not wait (Q4)

    // The pool is borrowed; session is who listens in the worker, and may be null.
    ReplyQueue(ReplyPool& pool, int fd, Session* session = nullptr)
        : pool_(pool), fd_(fd), session_(session) {}
    ~ReplyQueue();
    ReplyQueue(const ReplyQueue&) = delete;
    ReplyQueue& operator=(const ReplyQueue&) = delete;

    Session* session() const { return session_; }
    bool empty() const { return head_ == nullptr; }
    bool ready() const { return head_ != nullptr && head_->state_ != ReplySlot::State::asked; }
    // Ready, and nothing is gained by waiting for more (Q4).
    bool due() const { return ready() && !patient(); }
    // Q3. Bytes of values on their way are guessed by the largest that came lately; that there are many on their way
    // is earned by small ones, each time anew: what is asked for next may be large.
    bool full() const {
        if (slots_ >= slots_max || values_asked_ >= values_max_) return true;
        return crowded_ != 0 || bytes() + values_asked_ * value_largest_ >= bytes_max;
    }
    // Worth parsing again after it was full.
    bool has_room() const { return slots_ <= slots_max / 2 && !full(); }
    uint32_t slots() const { return slots_; }
    size_t bytes() const { return bytes_ + text_.size() - text_start_; }

    // ---- for engines -----------------------------------------------------------------------------
    // A slot for what is about to be asked. Then, of its ticket: park() or, answered at once, drop().
    ReplySlot& open(Verb verb = Verb::other) { return pool_.open(verb); }
    Ticket ticket_of(const ReplySlot& slot) const { return pool_.ticket_of(slot); }
    void drop(ReplySlot& slot) { pool_.close(slot); }
    // `out`: what this engine call has appended so far. turn() is called when all before it is written.
    template <class Record>
    void park(ReplySlot& slot, const OutBuffer& out, bool crowded, bool gets_value, std::string_view key,
              std::string_view words, const Record& record, ReplySlot::Turn turn) {
        static_assert(std::is_trivially_copyable_v<Record>);
        static_assert(sizeof(Record) <= ReplySlot::record_bytes_max);
        new (slot.record_.data()) Record(record);
        slot.turn_ = turn;
        slot.gets_value_ = gets_value;
        slot.crowded_ = crowded;
        append(slot, out, key, words);
    }
    // A slot that needs no answer: its turn comes with its place.
    void park_answered(const OutBuffer& out, ReplySlot::Turn turn);

    // ---- for sessions ----------------------------------------------------------------------------
    // After each engine call: takes its replies in, and gives them out if nothing is awaited (see emit()). Else the pool
    // tells when it is time.
    void settle(OutBuffer& out);
    // Appends what is ready until `out` has out_bytes_soft_max.
    void emit(OutBuffer& out);
    // If there is anything to emit, the pool is to tell so again.
    void remind();

  private:
    friend class ReplyPool;

    void append(ReplySlot& slot, const OutBuffer& out, std::string_view key, std::string_view words);
    bool patient() const { return unanswered_ != 0 && bytes() < patience_bytes_max; }
    void move_text(OutBuffer& out, size_t bytes);
    void take_turn(OutBuffer& out);
    void measure(const ReplySlot& slot) const;
    void arrived(ReplySlot& slot);

    ReplyPool& pool_;
    const int fd_;
    Session* const session_;
    ReplySlot* head_ = nullptr;
    ReplySlot* tail_ = nullptr;
    uint32_t slots_ = 0;
    uint32_t crowded_ = 0;         // of them
    uint32_t unanswered_ = 0;
    uint32_t values_asked_ = 0;    // gets of them that are not answered
    uint32_t values_max_ = values_at_first;  // that may be asked and not answered
    size_t value_largest_ = 0;     // since it was empty
    size_t bytes_ = 0;             // of requests and values in slots
    size_t out_seen_ = 0;          // of this engine call's replies, up to the last slot
    std::string text_;             // from text_start_ on: what slots' text_before_ count, then what follows the tail
    size_t text_start_ = 0;
    size_t text_behind_ = 0;       // bytes of it that follow the tail
    bool listed_ = false;          // among the pool's ready ones
    uint64_t listed_in_ = 0;       // in that tick
    Carry carry_;
};

}  // namespace farcached::daemon
