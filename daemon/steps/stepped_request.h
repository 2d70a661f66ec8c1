// SPDX-License-Identifier: BSD-3-Clause
// SteppedRequest: a request that takes several steps (daemon/steps/stepped_requests.h): the operation as its client sent it, and
// what its steps have found so far.
//
// Owner: KeyQueues; the worker's thread alone. Its address stays. Functions that take memory throw std::bad_alloc.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "daemon/engine/owned_request.h"
#include "daemon/engine/reply_queue.h"

namespace farcached::daemon {

// Operations that clients ask for, except for statistics.
template <class Op>
constexpr bool is_clients = !std::is_same_v<Op, protocol::StatsOp> && !std::is_same_v<Op, protocol::HoldOp> &&
                            !std::is_same_v<Op, protocol::CopiesOp>;

struct SteppedRequest {
    // Linked by `next`.
    struct Queue {
        bool empty() const { return first == nullptr; }
        void push(SteppedRequest& request) noexcept {
            request.next = nullptr;
            (first == nullptr ? first : last->next) = &request;
            last = &request;
        }
        SteppedRequest& pop() noexcept {
            SteppedRequest& popped = *first;
            first = popped.next;
            return popped;
        }
        SteppedRequest* first = nullptr;
        SteppedRequest* last = nullptr;
    };
    // An item as another node has it.
    struct Item {
        std::string_view value;
        uint32_t flags = 0;
        NodeSeconds exptime = never_expires;
        uint64_t cas = 0;
        bool key_binary = false;
    };
    enum class Awaits : uint8_t { nothing, fetch, change };

    template <class Op>
    SteppedRequest(const Op& from, Wanted what, Ticket to) : asked(from, proxy::AskOptions()), wanted(what), ticket(to) {}

    // A get that changes nothing: neither a touch nor a token.
    bool is_get() const;
    // Empty: of a flush.
    const protocol::Key& key() const;
    // Stores the item of another node, if the mark or hold still counts. Borrows from both.
    protocol::StoreOp store_op(const Item& item) const;
    // The same, what was found.
    protocol::StoreOp fill_op() const { return store_op({value, flags, exptime, cas, key_binary}); }
    // A compare in vain: exists, or not_found with the key's mark. A node of an earlier version replies without a mark.
    protocol::StoreOp mark_op() const;

    OwnedRequest asked;
    Wanted wanted;
    Ticket ticket;
    uint64_t number = 0;
    uint64_t session = 0;
    std::pair<const std::string, Queue>* queue = nullptr;  // of its key; nullptr: of a flush, or behind one
    SteppedRequest* next = nullptr;  // in a queue of its key or behind a flush
    SteppedRequest* next_due = nullptr;
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
    bool is_ahead = false;             // as SteppedRequests::goes_ahead()
    uint64_t held_ns = 0;              // before the hold left; boottime_ns()
    bool completes = false;            // it is no client's: it stores what is missing of the two items
};

}  // namespace farcached::daemon
