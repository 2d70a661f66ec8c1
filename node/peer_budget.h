// SPDX-License-Identifier: BSD-3-Clause
// PeerBudget: the bytes that a node holds for its proxies, over all connections: half frames, values in pieces, and unsent
// values and replies. ServiceLimits::free_bytes of each connection are not counted.
//
// A connection requests bytes for one of two uses. A *value* may be refused. Values get at most three quarters of the budget. A
// value ends another connection only if that one has held its bytes for patience_ms on average. A *frame* has arrived and
// cannot be refused: connections end until there is room.
//
// The connection with the most byte-milliseconds ends first: bytes times holding time. The time runs from the beginning of the
// frame, or from the announcement of the value. For a stream it restarts when as many bytes have moved as are held. Trickling
// does not shorten it. A proxy whose frames complete holds few bytes for a short time. A value of 1 MB in 10 ms weighs as much
// as half a frame of 10 KB in a second.
//
// Any thread. One lock, taken for large values, their pieces, and frames that a receive split.
// B1  bytes() <= bytes_max * 5/4: bytes of ousted accounts do not count against others, up to a quarter.
// B2  An ousted account gets no more bytes.
// B3  Accounts are ousted only for bytes that then fit, and only if they weigh no less than the requesting account.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <mutex>

#include "node/service_counters.h"

namespace farcached::node {

// Oustable: a connection that can be ended so that others get its seat or its bytes.
class Oustable {
  public:
    // Any thread, under the caller's lock: notes the reason and wakes the thread that owns the connection. That thread ends the
    // connection. The first reason counts.
    virtual void oust(ServiceEnd why) = 0;

  protected:
    ~Oustable() = default;
};

// For a node with that much memory. Values of the largest size always fit, at least one at a time.
uint64_t peer_budget_bytes(uint64_t memory_bytes, uint64_t item_bytes_max);

class PeerBudget {
  public:
    static constexpr uint64_t patience_ms = 1000;
    enum class For : uint8_t { value, frame };
    class Account;

    explicit PeerBudget(uint64_t bytes_max) : bytes_max_(bytes_max) {}
    PeerBudget(const PeerBudget&) = delete;
    PeerBudget& operator=(const PeerBudget&) = delete;

    void change(uint64_t bytes_max);
    uint64_t bytes() const;
    // More than half is in use: connections buffer less. Takes no lock.
    bool tight() const { return tight_.load(std::memory_order_relaxed); }

  private:
    bool take(Account& account, uint64_t bytes, uint64_t since_ms, uint64_t now_ms, For what);
    void give_back(Account& account, uint64_t bytes, uint64_t since_ms);
    void open(Account& account);
    void close(Account& account);
    static bool may_end(const Account& account, uint64_t now_ms, For what);
    bool make_room(const Account& asker, uint64_t bytes, uint64_t now_ms, For what);
    void oust(Account& account);
    void count(uint64_t bytes) {
        bytes_ = bytes;
        tight_.store(bytes_ > bytes_max_ / 2, std::memory_order_relaxed);
    }

    mutable std::mutex lock_;
    uint64_t bytes_max_;  // under lock_, as all below
    uint64_t bytes_ = 0;
    uint64_t leaving_ = 0;  // of these, held by ousted accounts
    std::list<Account*> accounts_;
    std::atomic<bool> tight_{false};
};

// The bytes of one connection. Owner: the connection, in its thread.
class PeerBudget::Account {
  public:
    // Both outlive this.
    Account(PeerBudget& budget, Oustable& owner) : budget_(budget), owner_(owner) { budget_.open(*this); }
    ~Account() { budget_.close(*this); }
    Account(const Account&) = delete;
    Account& operator=(const Account&) = delete;

    // since: start of the holding time. False: no room; for a frame, the connection is ousted.
    bool take(uint64_t bytes, uint64_t since_ms, uint64_t now_ms, For what) {
        return budget_.take(*this, bytes, since_ms, now_ms, what);
    }
    // All bytes of a take(), or a part.
    void give_back(uint64_t bytes, uint64_t since_ms) {
        if (bytes != 0) budget_.give_back(*this, bytes, since_ms);
    }

  private:
    friend class PeerBudget;
    // Sum of bytes times their holding time in ms. Computed modulo 2^64, as began_; exact, since the result is smaller.
    uint64_t weight(uint64_t now_ms) const { return bytes_ * now_ms - began_; }

    PeerBudget& budget_;
    Oustable& owner_;
    std::list<Account*>::iterator place_;
    uint64_t bytes_ = 0;  // under the lock of budget_, as all below
    uint64_t began_ = 0;  // sum of bytes times start time
    bool ousted_ = false;
};

}  // namespace farcached::node
