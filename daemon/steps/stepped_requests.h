// SPDX-License-Identifier: BSD-3-Clause
// SteppedRequests: requests that take several steps, of which one may have to wait for another process. The base of WarmUp,
// Replicas and MovedItems, which have the steps.
//
// Owner: a Worker; its thread alone.
//
// T1  A worker's requests for one key take their steps one after the other, in the order of their submission. A flush waits for all
//     earlier requests of the worker, and later ones for it (KeyQueues). A get that need not wait makes its first step at once.
// T2  Each submitted ticket is answered once, by this or by the links that it was passed to. What ends a request allocates nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <string_view>

#include "daemon/engine/engine.h"
#include "daemon/engine/reply_queue.h"
#include "daemon/steps/key_queues.h"
#include "daemon/steps/stepped_request.h"

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
        return take(std::make_unique<SteppedRequest>(op, wanted, ticket));
    }

    virtual void end_tick() {}
    virtual uint64_t timer_at_ns() const { return UINT64_MAX; }
    virtual void timer_due() {}
    // Fails all requests that wait here. After the last submission, before the links stop.
    virtual void stop();

  protected:
    using Request = SteppedRequest;
    using Step = void (SteppedRequests::*)(Request& request, ReplySlot& slot);

    // All outlive this.
    SteppedRequests(ReplyPool& replies, Context& context) : replies_(replies), context_(context) {}

    // Of this process itself; as submit(). Throws std::bad_alloc.
    void submit_own(const protocol::GetOp& op, Ticket ticket);
    const KeyQueues& queues() const { return queues_; }
    // nullptr: it has ended.
    Request* find(uint64_t number) noexcept { return queues_.find(number); }
    // May its first step be made at once? If it is not the last one, wait_for_key() follows.
    virtual bool goes_ahead(const Request&) const { return false; }
    // It begins again when it is the first request of its key. Throws std::bad_alloc.
    void wait_for_key(Request& request);
    // The first step.
    virtual void begin(Request& request) = 0;
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
    // With the item that was found, and is now stored here, with the result `stored`.
    void answer_found(Request& request, const protocol::StoreReply& stored);
    void fail(Request& request, std::string_view why) noexcept;
    void finish(Request& request) noexcept;
    void keep_value(Request& request, std::string_view value);
    // Of the key, as another node has it.
    void keep_found(Request& request, const protocol::ItemMeta& meta, std::string_view value);
    void keep_reply_value(Request& request, std::string_view value);

    ReplyPool& replies_;
    Context& context_;

  private:
    struct OwnRecord;

    Ticket open(const Request& request, Step then);
    SubmitResult take(std::unique_ptr<Request> request);
    void pump() noexcept;
    static void own_answered(ReplySlot& slot, const ReplyTarget& to);

    KeyQueues queues_;
    uint64_t bytes_ = 0;  // of values of requests, sent or found
    bool pumping_ = false;
};

}  // namespace farcached::daemon
