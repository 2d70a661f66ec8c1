// SPDX-License-Identifier: BSD-3-Clause
// SteppedRequests: requests that take several steps, of which one may have to wait for another process. The base of WarmUp,
// Replicas and MovedItems, which say what the steps are.
//
// Owner: a Worker; its thread alone.
//
// T1  A worker's requests for one key take their steps one after the other, in the order of their submission. A flush waits for all
//     earlier requests of the worker, and later ones for it. A get that need not wait makes its first step at once.
// T2  Each submitted ticket is answered once, by this or by the links that it was passed to. What ends a request allocates nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>

#include "daemon/engine/engine.h"
#include "daemon/engine/owned_request.h"
#include "daemon/engine/reply_queue.h"

namespace farcached::daemon {

class SteppedRequests {
  public:
    virtual ~SteppedRequests();
    SteppedRequests(const SteppedRequests&) = delete;
    SteppedRequests& operator=(const SteppedRequests&) = delete;

    // Must a get of this session wait for requests here?
    virtual bool must_wait(std::string_view key, uint64_t session) const = 0;
    // Does a get of the key that need not wait take steps, too?
    virtual bool takes_gets(std::string_view key) const = 0;
    // Does a mutation of the key? Empty: a flush.
    virtual bool takes_changes(std::string_view) const { return true; }
    // Borrows the operation until it returns. Throws std::bad_alloc, with no effect.
    template <class Op>
    SubmitResult submit(const Op& op, Wanted wanted, Ticket ticket) {
        return take(std::make_unique<Request>(op, wanted, ticket));
    }

    virtual void end_tick() {}
    virtual uint64_t timer_at_ns() const { return UINT64_MAX; }
    virtual void timer_due() {}
    // Fails all requests that wait here. After the last submission, before the links stop.
    virtual void stop();

  protected:
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
    enum class Awaits : uint8_t { nothing, fetch, change };
    struct Request {
        template <class Op>
        Request(const Op& from, Wanted what, Ticket to) : asked(from, proxy::AskOptions()), wanted(what), ticket(to) {}

        OwnedRequest asked;
        Wanted wanted;
        Ticket ticket;
        uint64_t number = 0;
        uint64_t session = 0;
        Keys::value_type* key = nullptr;  // its queue; nullptr: of a flush, or behind one
        Request* next = nullptr;          // in a queue of its key or behind a flush
        Request* next_due = nullptr;
        // Of its steps:
        uint64_t mark = 0;     // of the key, or a hold; of a flush: the name of its close
        bool settled = false;  // an earlier request of the key has asked the source
        Awaits awaits = Awaits::nothing;
        std::string value;     // an item that was found, with the next ones
        uint32_t flags = 0;
        uint64_t cas = 0;      // of a node; 0: the source's is not shown
        bool key_binary = false;
        NodeSeconds fetched_at = 0, exptime = never_expires;
        protocol::ReplyOp reply;           // for the client
        std::string reply_value;
        std::shared_ptr<const void> list;  // names the list of nodes of its first step
        uint32_t tries = 0;
        bool is_ahead = false;             // as goes_ahead() says
        uint64_t held_ns = 0;              // before the hold left; boottime_ns()
        bool completes = false;            // it is no client's: it stores what is missing of the two items
    };
    using Step = void (SteppedRequests::*)(Request& request, ReplySlot& slot);
    // What a node has of a key.
    struct Item {
        std::string_view value;
        uint32_t flags = 0;
        NodeSeconds exptime = never_expires;
        uint64_t cas = 0;
        bool key_binary = false;
    };

    // All outlive this.
    SteppedRequests(ReplyPool& replies, Context& context) : replies_(replies), context_(context) {}

    // Of this process itself; as submit(). Throws std::bad_alloc.
    void submit_own(const protocol::GetOp& op, Ticket ticket);
    bool is_idle() const { return requests_.empty(); }
    bool busy(std::string_view key) const { return flush_ != nullptr || (!keys_.empty() && keys_.contains(key)); }
    // Does a request of that session for the key wait here, or a flush?
    bool waits(std::string_view key, uint64_t session) const;
    // A mutation of that session for the key, or a flush?
    bool waits_to_change(std::string_view key, uint64_t session) const;
    // May its first step be made at once? If it is not the last one, wait_for_key() follows.
    virtual bool goes_ahead(const Request&) const { return false; }
    // It begins again when it is the first request of its key. Throws std::bad_alloc.
    void wait_for_key(Request& request);
    // The first step.
    virtual void begin(Request& request) = 0;
    Request* find(uint64_t number) noexcept;
    // Without memory the request fails.
    template <class Body>
    void attempt(Request& request, Body body) noexcept {
        const uint64_t number = request.number;
        try {
            body();
        } catch (const std::bad_alloc&) {
            if (Request* failed = find(number)) fail(*failed, "no memory for a request that takes several steps");
        }
    }
    // `submit` submits a request with the ticket that it gets; `then` is called once, perhaps within the call.
    template <class Submit>
    void ask(Request& request, Step then, Submit&& submit) {
        const Ticket ticket = open(request, then);
        try {
            submit(ticket);
        } catch (const std::bad_alloc&) {
            replies_.unavailable(ticket);
        }
    }
    // Asks the key's node, as above.
    template <class Op>
    void ask_links(Request& request, const Op& op, Wanted wanted, Step then);
    // The same, as the client sent it: a request of one key.
    void ask_as_sent(Request& request, Step then);
    // The request as the client sent it, whose answer goes to the client.
    void pass_on(Request& request);
    void answer(Request& request, const protocol::ReplyOp& reply, std::string_view value = {});
    // With the item that was found, and is now stored here as `stored` says.
    void answer_found(Request& request, const protocol::StoreReply& stored);
    void fail(Request& request, std::string_view why) noexcept;
    void finish(Request& request) noexcept;
    void keep_value(Request& request, std::string_view value);
    // Of the key, as another node has it.
    void keep_found(Request& request, const protocol::ItemMeta& meta, std::string_view value);
    // Stores the item of another node, if the request's mark or hold still counts. Borrows from both.
    static protocol::StoreOp store_op(const Request& request, const Item& item);
    // The same, what was found.
    static protocol::StoreOp fill_op(const Request& request) {
        return store_op(request, {request.value, request.flags, request.exptime, request.cas, request.key_binary});
    }
    void keep_reply_value(Request& request, std::string_view value);

    static bool is_get(const protocol::RequestOp& op);
    static const protocol::Key& key_of(const protocol::RequestOp& op);
    // A compare in vain: exists, or not_found with the key's mark. A node of an earlier version replies without a mark.
    static protocol::StoreOp mark_op(const protocol::Key& key);

    ReplyPool& replies_;
    Context& context_;

  private:
    struct OwnRecord;

    template <class Is>
    bool any_waits(std::string_view key, Is&& is) const;
    Ticket open(const Request& request, Step then);
    SubmitResult take(std::unique_ptr<Request> request);
    void enqueue(Request& request);
    void make_due(Request& request) noexcept;
    void pump() noexcept;
    static void own_answered(ReplySlot& slot, const ReplyTarget& to);

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
