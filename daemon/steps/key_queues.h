// SPDX-License-Identifier: BSD-3-Clause
// KeyQueues: the order of a worker's requests that take several steps. It has a queue for each key, a flush between them, and the
// requests whose first step is due.
//
// Owner: a SteppedRequests; its thread alone. It owns the requests, and takes no step.
//
// Q1  Of the requests in a key's queue the first is due, or under way; the others wait.
// Q2  A flush is due once no key has a queue. Requests behind it join their queues when it is removed.
// Q3  A request that is due is in no other list of due ones, and is not removed before take_due() returned it.
// Q4  Removal allocates nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "daemon/steps/stepped_request.h"

namespace farcached::daemon {

class KeyQueues {
  public:
    using Requests = std::unordered_map<uint64_t, std::unique_ptr<SteppedRequest>>;

    bool empty() const { return requests_.empty(); }
    bool busy(std::string_view key) const { return flush_ != nullptr || (!keys_.empty() && keys_.contains(key)); }
    // Does a request of that session for the key wait here, or a flush?
    bool waits(std::string_view key, uint64_t session) const;
    // A mutation of that session for the key, or a flush?
    bool waits_to_change(std::string_view key, uint64_t session) const;
    // nullptr: removed.
    SteppedRequest* find(uint64_t number) noexcept;

    // Numbers it. It is in no queue yet. Throws std::bad_alloc, with no effect.
    SteppedRequest& add(std::unique_ptr<SteppedRequest> request);
    // Puts it behind the earlier requests of its key. Throws std::bad_alloc, with no effect.
    void enqueue(SteppedRequest& request);
    void make_due(SteppedRequest& request) noexcept;
    // nullptr: none.
    SteppedRequest* take_due() noexcept;
    // One that is not queued, or the first of its queue. The next one is due then. Returns those behind a flush: the caller
    // enqueues them.
    [[nodiscard]] SteppedRequest::Queue remove(SteppedRequest& request) noexcept;
    // All of them, in no queue any more.
    Requests take_all() noexcept;

  private:
    struct KeyHash {
        using is_transparent = void;
        size_t operator()(std::string_view key) const { return std::hash<std::string_view>()(key); }
    };

    template <class Is>
    bool any_waits(std::string_view key, Is&& is) const;

    Requests requests_;
    std::unordered_map<std::string, SteppedRequest::Queue, KeyHash, std::equal_to<>> keys_;
    uint64_t numbers_ = 0;
    SteppedRequest* flush_ = nullptr;
    SteppedRequest::Queue behind_flush_;
    SteppedRequest* first_due_ = nullptr;
    SteppedRequest* last_due_ = nullptr;
};

}  // namespace farcached::daemon
