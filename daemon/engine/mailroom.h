// SPDX-License-Identifier: BSD-3-Clause
// Mailroom: how the workers of a process hand each other requests to nodes, with links_per_node. The worker that owns a link is
// its owner, a worker that sends requests over it a borrower. A Letter carries a request to the owner, and its answer back.
//
//   borrower: BorrowedLink -> Courier -> owner's Desk -> owner: Courier -> Links::serve() -> OwnLink
//   borrower: client's sink <- Courier <- borrower's Desk <- owner: Courier <----------------+
//
// Owner: the Server, before its workers; it outlives them. Any thread.
//
// B1  Letters from one worker to another arrive in the order of their sending.
// B2  A worker locks another's desk once for all letters of a delivery, and wakes it only if the desk was empty.
// B3  After close() a desk takes no letter, and its letters are with its worker: none is lost.
// B4  Handing a letter over allocates nothing. Once it exists, its request is answered.
// B5  A worker closes its desk when no worker has sessions any more, or after a bounded time (Worker).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <variant>

#include "daemon/engine/owned_request.h"
#include "daemon/remote/nodes.h"
#include "process/supervisor.h"
#include "protocol/frame_reply.h"
#include "proxy/ask.h"

namespace farcached::daemon {

// The owner of the link that a worker uses to a node: `links` neighbouring workers own one each, from a place that the node's
// name determines. So owners of different nodes differ. It is the worker itself if links is 0 or at least `workers`.
uint32_t link_owner(std::string_view node, uint32_t links, uint32_t workers, uint32_t worker);

struct Letter {
    struct Reply {
        protocol::ReplyOp op;
        std::unique_ptr<char[]> value;
        size_t value_bytes = 0;
        bool one_sided = false, by_index = false;
    };

    // Throws std::bad_alloc.
    template <class Op>
    Letter(const Op& op, proxy::AskOptions&& options, std::shared_ptr<OneNode> to)
        : request(op, std::move(options)), node(std::move(to)) {}

    OwnedRequest request;
    const std::shared_ptr<OneNode> node;
    uint32_t place = 0;   // of the node in the borrower's set, as a hint
    uint32_t from = 0;    // the borrower
    uint64_t loan = 0;    // its number of this request
    std::variant<std::monostate, Reply, proxy::Failed> answer;
    Letter* next = nullptr;  // of a LetterQueue
};

// Letters in order.
class LetterQueue {
  public:
    LetterQueue() = default;
    LetterQueue(LetterQueue&& other) noexcept { append(other); }
    LetterQueue& operator=(LetterQueue&&) = delete;
    ~LetterQueue() {
        while (pop() != nullptr) {
        }
    }

    bool empty() const { return first_ == nullptr; }
    const Letter* first() const { return first_; }
    void push(std::unique_ptr<Letter> letter) {
        Letter* last = letter.release();
        (first_ == nullptr ? first_ : last_->next) = last;
        last_ = last;
    }
    // nullptr: none.
    std::unique_ptr<Letter> pop() {
        if (first_ == nullptr) return nullptr;
        std::unique_ptr<Letter> taken(first_);
        first_ = std::exchange(taken->next, nullptr);
        return taken;
    }
    // Takes all of `other`.
    void append(LetterQueue& other) {
        if (other.empty()) return;
        (first_ == nullptr ? first_ : last_->next) = std::exchange(other.first_, nullptr);
        last_ = other.last_;
    }

  private:
    Letter* first_ = nullptr;
    Letter* last_ = nullptr;  // only if there is a first
};

// The letters that other workers handed to one worker.
class Desk {
  public:
    // Takes all letters. False: closed; the letters stay with the caller.
    bool put(LetterQueue& letters);
    // Without a letter.
    void wake() { waker_.wake(); }
    // How often its worker took letters, perhaps none: after a wake() it does so once more if it runs. Wraps.
    uint32_t takes() const { return takes_.load(std::memory_order_relaxed); }

    // ---- the worker's thread
    int fd() const { return waker_.fd(); }
    LetterQueue take();
    // Returns the letters that were not taken.
    LetterQueue close();

  private:
    process::LoopWaker waker_;
    std::atomic<uint32_t> takes_{0};
    std::mutex lock_;
    LetterQueue letters_;  // both under lock_
    bool closed_ = false;
};

class Mailroom {
  public:
    explicit Mailroom(uint32_t workers) : desks_(workers), with_sessions_(workers) {}

    uint32_t workers() const { return uint32_t(desks_.size()); }
    Desk& desk(uint32_t worker) { return desks_[worker]; }
    void wake_all() {
        for (Desk& desk : desks_) desk.wake();
    }
    // Of one worker, once: the last one wakes all.
    void sessions_ended();
    bool all_ended() const { return with_sessions_.load(std::memory_order_acquire) == 0; }

  private:
    std::deque<Desk> desks_;
    std::atomic<uint32_t> with_sessions_;  // workers
};

}  // namespace farcached::daemon
