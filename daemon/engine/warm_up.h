// SPDX-License-Identifier: BSD-3-Clause
// WarmUp: moves items from the memcached that warm_from names to the nodes, as clients ask for them. While it runs, requests for
// keys take these steps, each only if the one before it has not answered:
//
//     get       read here -> take the key's mark -> get from the source -> store here, if the mark is the same -> reply
//     set                                                  delete at the source -> set here -> reply
//     other mutations   mark -> get -> store, as a get;    delete at the source -> execute here -> reply
//     flush_all, delete_prefix                             flush_all at the source -> execute here -> reply
//
// Owner: a Worker; its thread alone.
//
// U1  Before a mutation is executed here, its key is absent at the source, so no later get of any farcached finds the old value
//     there (S7). A get that found it earlier stores it only if no mutation of the key was executed since (node/store/marks.h).
// U2  If the source does not confirm that in time, the mutation is not executed, and its answer is unavailable.
// U3  A worker's requests for one key take these steps one after the other, in the order of their submission. A flush waits for
//     all earlier requests of the worker, and later ones for it.
// U4  Each submitted ticket is answered once, by this or by the links that it was passed to. What ends a request allocates nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "daemon/engine/engine.h"
#include "daemon/engine/owned_request.h"
#include "daemon/engine/reply_queue.h"
#include "daemon/engine/source_link.h"

namespace farcached::daemon {

class WarmUp final : private SourceLink::Sink {
  public:
    // All outlive this.
    WarmUp(WarmSource& source, Waits& waits, ReplyPool& replies, Context& context);
    ~WarmUp();
    WarmUp(const WarmUp&) = delete;
    WarmUp& operator=(const WarmUp&) = delete;

    // A request for the key waits here: a get must not overtake it.
    bool busy(std::string_view key) const;
    // Borrows the operation until it returns. Throws std::bad_alloc, with no effect.
    template <class Op>
    SubmitResult submit(const Op& op, Wanted wanted, Ticket ticket) {
        return take(std::make_unique<Request>(op, wanted, ticket));
    }

    // Sends the commands for the source.
    void end_tick() {
        gets_.end_tick();
        changes_.end_tick();
    }
    uint64_t timer_at_ns() const { return std::min(gets_.timer_at_ns(), changes_.timer_at_ns()); }
    void timer_due() {
        gets_.timer_due();
        changes_.timer_due();
    }
    // Fails all requests that wait here. After the last submission, before the links stop.
    void stop();

  private:
    struct Request;
    // Linked by Request::next.
    struct Queue {
        bool empty() const { return first == nullptr; }
        void push(Request& request) noexcept;
        Request& pop() noexcept;
        Request* first = nullptr;
        Request* last = nullptr;
    };
    struct KeyHash {
        using is_transparent = void;
        size_t operator()(std::string_view key) const { return std::hash<std::string_view>()(key); }
    };
    using Keys = std::unordered_map<std::string, Queue, KeyHash, std::equal_to<>>;
    enum class Awaits : uint8_t { nothing, fetch, change };  // of the source
    struct Request {
        template <class Op>
        Request(const Op& from, Wanted what, Ticket to) : asked(from, proxy::AskOptions()), wanted(what), ticket(to) {}

        OwnedRequest asked;
        Wanted wanted;
        Ticket ticket;
        uint64_t number = 0;
        uint64_t session = 0;
        uint64_t mark = 0;
        Keys::value_type* key = nullptr;  // its queue; nullptr: of a flush, or behind one
        Request* next = nullptr;          // in a queue of its key or behind a flush
        bool settled = false;  // an earlier request of the key has asked the source
        Awaits awaits = Awaits::nothing;
        std::string value;     // found at the source, with the next two
        uint32_t flags = 0;
        NodeSeconds fetched_at = 0, exptime = never_expires;
        Request* next_due = nullptr;
    };
    using Step = void (WarmUp::*)(Request& request, ReplySlot& slot);
    struct OwnRecord;

    SubmitResult take(std::unique_ptr<Request> request);
    void enqueue(Request& request);
    Request* find(uint64_t number) noexcept;
    void make_due(Request& request) noexcept;
    void pump() noexcept;
    template <class Body>
    void attempt(Request& request, Body body) noexcept;
    void begin(Request& request);

    template <class Op>
    void ask_links(Request& request, const Op& op, Wanted wanted, Step then);
    static void own_answered(ReplySlot& slot, const ReplyTarget& to);

    void get_first(Request& request);
    void first_answered(Request& request, ReplySlot& slot);
    void take_mark(Request& request);
    void mark_answered(Request& request, ReplySlot& slot);
    void marked(Request& request, const protocol::StoreReply& reply);
    void go_on(Request& request);
    void fetch(Request& request);
    void source_answered(uint64_t number, bool ok, const protocol::SourceReply& reply) noexcept override;
    void fetched(Request& request, bool ok, const protocol::SourceReply& reply);
    void fill_answered(Request& request, ReplySlot& slot);
    void filled(Request& request, const protocol::StoreReply& reply);
    void change_source(Request& request);
    void execute(Request& request);
    void answer_found(Request& request, const protocol::StoreReply& stored);
    void answer(Request& request, const protocol::ReplyOp& reply, std::string_view value = {});
    void fail(Request& request, std::string_view why) noexcept;
    void finish(Request& request) noexcept;

    bool get_here(Request& request, const protocol::GetOp& op, bool misses_answer);
    void execute_here(Request& request);

    ReplyPool& replies_;
    Context& context_;
    SourceLink gets_, changes_;
    std::unordered_map<uint64_t, std::unique_ptr<Request>> requests_;
    Keys keys_;  // of each key, the first is under way
    uint64_t numbers_ = 0;
    uint64_t bytes_ = 0;       // of values of requests, sent or found
    Request* flush_ = nullptr;
    Queue behind_flush_;
    Request* first_due_ = nullptr;  // requests to begin
    Request* last_due_ = nullptr;
    bool pumping_ = false;
};

}  // namespace farcached::daemon
