// SPDX-License-Identifier: BSD-3-Clause
// Which connections a node ends so that others get their seat (Seats) or their bytes (PeerBudget).
//
// Seats: decides which connections a node keeps when more arrive than it may have.
//
// A new connection stands at the door until the node answers its greeting. The door holds at most door_max connections. A
// welcomed connection has a seat; --conn-limit is the number of seats. A seat is unused until its proxy sends something after
// the greeting.
//
// No number of seats per address exists. A host with 64 workers, or many hosts behind one address, may have all seats. One
// connection displaces another only when no place is free. The first rule that finds a connection applies:
//
//   Door  D1. The oldest connection of the address that has most connections at the door.
//   Seat  S1. The oldest unused seat of the address that has most unused seats.
//         S2. The seat that was silent longest, if it was silent for idle_s. Proxies ping more often.
//         S3. The seat that was silent longest of the address with most seats. That address has more than half of all seats,
//             it has at least two more than the newcomer's address, and the newcomer has another address.
//         Else the node refuses the newcomer (Refusal::full).
//
// Properties of these rules:
//   - An attacker at one address that connects, or connects and greets, has most connections of that kind. It displaces its own.
//   - A proxy that uses its connection loses it only by S3. So any number of other addresses cannot displace a proxy whose
//     address has at most half of the seats. A larger address keeps half.
//   - A newcomer finds a seat while any seat is unused or silent, or while one other address has more than half. To lock
//     newcomers out, an attacker must use all seats all the time, and from many addresses or from the newcomer's own. Proxies
//     that were there before keep their seats even then.
//   - At the attacker's own address the oldest unused seat goes first. A newcomer there is safe after its first request. It has
//     time for that until the attacker has greeted as often as there are seats.
//
// Owner: the ServiceShared of all connections. Any thread. One lock, taken when a connection arrives, greets, is first used, and
// ends.
// T1  A seat is in the list of its address and stage; a seat that is away or ousted is in no list.
// T2  at_door() <= door_max. seated() does not grow beyond the number passed to sit().
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <string>

#include "base/node_clock.h"
#include "node/service/service_counters.h"

namespace farcached::node {

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
// Owner: the ServiceShared of all connections. Any thread. One lock, taken for large values, their pieces, and frames that a
// receive split.
// B1  bytes() <= bytes_max * 5/4: bytes of ousted accounts do not count against others, up to a quarter.
// B2  An ousted account gets no more bytes.
// B3  Accounts are ousted only for bytes that then fit, and only if they weigh no less than the requesting account.

// Oustable: a connection that can be ended so that others get its seat or its bytes.
class Oustable {
  public:
    // Any thread, under the caller's lock: notes the reason and wakes the thread that owns the connection. That thread ends the
    // connection. The first reason counts.
    virtual void oust(ServiceEnd why) = 0;

  protected:
    ~Oustable() = default;
};

// Wakes the thread of an ousted connection. Any thread; only notes the request.
class OustedWaker {
  public:
    virtual void wake_for_ousted() = 0;

  protected:
    ~OustedWaker() = default;
};

// OustNote: the note that a connection was ousted, and why. Owner: the connection, whose thread reads it. Seats and accounts that
// use it are destroyed first.
class OustNote final : public Oustable {
  public:
    // waker: outlives this; nullptr: none.
    explicit OustNote(OustedWaker* waker) : waker_(waker) {}

    void oust(ServiceEnd why) override;
    bool is_set() const { return why() != ServiceEnd::count; }
    // count: not ousted.
    ServiceEnd why() const { return why_.load(std::memory_order_relaxed); }

  private:
    OustedWaker* waker_;
    std::atomic<ServiceEnd> why_{ServiceEnd::count};
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

class Seats {
  public:
    static constexpr uint32_t door_max_default = 1024;
    static constexpr uint32_t idle_s = 60;  // a seat silent for so long may be reassigned
    class Seat;

    explicit Seats(uint32_t door_max = door_max_default) : door_max_(door_max) {}
    Seats(const Seats&) = delete;
    Seats& operator=(const Seats&) = delete;

    uint32_t seated() const;
    uint32_t at_door() const;
    // All connections, ousted ones that have not ended yet included.
    uint32_t present() const;

  private:
    enum Stage : uint8_t { door, unused, used, away, ousted };
    static constexpr size_t stages_listed = 3;
    using SeatList = std::list<Seat*>;
    struct Source {
        std::array<SeatList, stages_listed> lists;  // oldest first
        size_t seats() const { return lists[unused].size() + lists[used].size(); }
        bool empty() const { return lists[door].empty() && seats() == 0; }
    };
    using Sources = std::map<std::string, Source>;

    void enter(Seat& seat, const std::string& source);
    bool sit(Seat& seat, NodeSeconds now, uint32_t seats_max);
    void first_use(Seat& seat);
    void leave(Seat& seat);
    void list(Seat& seat, Stage stage);
    void unlist(Seat& seat);
    void oust(Seat& seat, ServiceEnd why);
    Seat* oldest_of_most(Stage stage);
    static Seat* silent_longest(const Source& source);
    Seat* who_goes(Sources::const_iterator newcomer, NodeSeconds now, uint32_t seats_max);
    uint32_t taken() const { return counts_[unused] + counts_[used]; }

    const uint32_t door_max_;
    mutable std::mutex lock_;
    Sources sources_;  // under lock_, as all below
    std::array<uint32_t, stages_listed> counts_{};
    uint32_t present_ = 0;
};

// The seat of a connection. Owner: the connection.
class Seats::Seat {
  public:
    // Both outlive this.
    Seat(Seats& seats, Oustable& owner) : seats_(seats), owner_(owner) {}
    ~Seat() { seats_.leave(*this); }
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;

    // The connection arrived from that address (fabric::Channel::source()). Once, before the other calls.
    void enter(const std::string& source) { seats_.enter(*this, source); }
    // The connection greeted. False: no seat is available. From here on called in the connection's thread.
    bool sit(NodeSeconds now, uint32_t seats_max) { return seats_.sit(*this, now, seats_max); }
    // The proxy sent something.
    void used(NodeSeconds now) {
        last_used_.store(now, std::memory_order_relaxed);
        if (in_use_) return;
        in_use_ = true;
        seats_.first_use(*this);
    }
    NodeSeconds last_used() const { return last_used_.load(std::memory_order_relaxed); }

  private:
    friend class Seats;

    Seats& seats_;
    Oustable& owner_;
    std::atomic<NodeSeconds> last_used_{0};
    bool in_use_ = false;
    Stage stage_ = away;  // under the lock of seats_, as all below
    Sources::iterator source_{};
    SeatList node_{this};  // holds the list element while it is in no list: listing allocates nothing
    SeatList::iterator place_ = node_.begin();
};

}  // namespace farcached::node
