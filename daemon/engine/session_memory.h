// SPDX-License-Identifier: BSD-3-Clause
// SessionMemory: the limit for all clients' buffers together (read_buf_mem_limit): incomplete requests, and replies that
// sockets have not taken.
//
// Owner: the Server; any thread. Values sent from or received into the cache's memory do not count here: they lie within -m
// (node/store/node.h, Upload and lent values).
// M1  used() never exceeds limit().
// M2  Nothing waits for memory: a session without room ends, or replies SERVER_ERROR.
// M3  A part of it (a worker's datagrams) takes from its first half alone: the second is for sessions.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "base/counters.h"

namespace farcached::daemon {

// Hoards: the bytes that the largest session of each worker holds. A worker without room compares them with its own sessions,
// and may ask the worker with the largest session to end it.
//
// Owner: SessionMemory. Workers join before any of them runs. A Hoard's worker notes and takes; any worker may call ask(). No
// worker touches another one's sessions, and none waits: this request is refused, and later ones find room.

// The kinds of shortage: of room for a client's buffer, and for a large value in a reply, lent or copied.
enum class Lack : uint8_t { buffer, value };
constexpr std::array lacks = {Lack::buffer, Lack::value};

// Room for `bytes` is wanted, at the expense of sessions that hold at least `from`.
struct RoomWanted {
    uint64_t bytes = 0, from = 0;
};

class Hoard {
  public:
    explicit Hoard(std::function<void()> wake) : wake_(std::move(wake)) {}

    // A session holds `held` bytes now. Between two scans of all sessions the maximum only rises.
    void note(Lack lack, uint64_t held) {
        if (held > of(lack).most.load(std::memory_order_relaxed)) looked(lack, held);
    }
    // After a scan of all sessions.
    void looked(Lack lack, uint64_t most) { of(lack).most.store(most, std::memory_order_relaxed); }
    // True: another worker wants room. At most once per ask().
    bool take(Lack lack, RoomWanted& wanted) {
        if (of(lack).bytes.load(std::memory_order_relaxed) == 0) [[likely]] return false;
        wanted.bytes = of(lack).bytes.exchange(0, std::memory_order_acquire);
        wanted.from = of(lack).from.load(std::memory_order_relaxed);
        return wanted.bytes != 0;
    }

  private:
    friend class Hoards;
    struct One {
        std::atomic<uint64_t> most{0}, bytes{0}, from{0};
    };
    One& of(Lack lack) { return ones_[size_t(lack)]; }

    alignas(64) std::array<One, lacks.size()> ones_;
    const std::function<void()> wake_;
};

class Hoards {
  public:
    // wake: any thread may call it while workers run.
    Hoard& join(std::function<void()> wake) { return all_.emplace_back(std::move(wake)); }

    // The sum of the largest session of each other worker.
    uint64_t of_others(const Hoard& own, Lack lack) {
        uint64_t sum = 0;
        for (Hoard& one : all_)
            if (&one != &own) sum += one.of(lack).most.load(std::memory_order_relaxed);
        return sum;
    }
    // Asks the worker with the largest session, if it is another one and the session holds at least wanted.from. False: no such
    // worker.
    bool ask(const Hoard& own, Lack lack, RoomWanted wanted) {
        Hoard* largest = nullptr;
        uint64_t most = std::max<uint64_t>(wanted.from, 1);
        for (Hoard& one : all_) {
            const uint64_t held = one.of(lack).most.load(std::memory_order_relaxed);
            if (&one == &own || held < most) continue;
            largest = &one;
            most = held;
        }
        if (largest == nullptr) return false;
        largest->of(lack).from.store(wanted.from, std::memory_order_relaxed);
        if (largest->of(lack).bytes.exchange(wanted.bytes, std::memory_order_release) == 0) largest->wake_();
        return true;
    }

  private:
    std::deque<Hoard> all_;
};

class SessionMemory {
  public:
    // A limit that suits -m. Without an embedded node the memory of -m is for buffers, too.
    static uint64_t limit_for(uint64_t memory_bytes, bool embedded) {
        return (UINT64_C(16) << 20) + memory_bytes / 8 + (embedded ? 0 : memory_bytes);
    }

    // whole: this is a part of it (M3); it outlives this.
    explicit SessionMemory(uint64_t limit, SessionMemory* whole = nullptr) : limit_(limit), whole_(whole) {}

    bool take(size_t bytes) {
        if (!add_below(used_, bytes, limit_)) return false;
        if (whole_ == nullptr || add_below(whole_->used_, bytes, whole_->limit_ / 2)) return true;
        used_.fetch_sub(bytes, std::memory_order_relaxed);
        return false;
    }
    void give_back(size_t bytes) {
        used_.fetch_sub(bytes, std::memory_order_relaxed);
        if (whole_ != nullptr) whole_->give_back(bytes);
    }
    bool has_room(size_t bytes) const { return used() + bytes <= limit_; }
    uint64_t used() const { return used_.load(std::memory_order_relaxed); }
    uint64_t limit() const { return limit_; }
    // More than half is used: engines stop appending replies early.
    bool short_of_room() const { return used() > limit_ / 2 || (whole_ != nullptr && whole_->short_of_room()); }
    Hoards& hoards() { return hoards_; }

  private:
    const uint64_t limit_;
    SessionMemory* const whole_;  // nullptr: none
    std::atomic<uint64_t> used_{0};
    Hoards hoards_;
};

// Makes room by ending the connection that holds most. The caller holds no partition lock: a connection that ends unpins values
// under these locks.
class RoomMaker {
  public:
    virtual ~RoomMaker() = default;
    // False: no such connection. True: there is room for `bytes` now, unless others take it.
    virtual bool make_room(size_t bytes, Lack lack) = 0;
};

// The limit is reached; the heap may still have memory.
class SessionMemorySpent : public std::bad_alloc {
  public:
    const char* what() const noexcept override { return "SessionMemorySpent"; }
};

// Allocates within a SessionMemory, which outlives it; without one, from the heap without limit.
template <class T>
class SessionAllocator {
  public:
    using value_type = T;
    using propagate_on_container_swap = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;

    explicit SessionAllocator(SessionMemory* memory) : memory_(memory) {}
    template <class U>
    SessionAllocator(const SessionAllocator<U>& other) : memory_(other.memory()) {}

    T* allocate(size_t n) {
        if (memory_ != nullptr && !memory_->take(n * sizeof(T))) throw SessionMemorySpent();
        try {
            return std::allocator<T>().allocate(n);
        } catch (const std::bad_alloc&) {
            if (memory_ != nullptr) memory_->give_back(n * sizeof(T));
            throw;
        }
    }
    void deallocate(T* at, size_t n) {
        std::allocator<T>().deallocate(at, n);
        if (memory_ != nullptr) memory_->give_back(n * sizeof(T));
    }
    SessionMemory* memory() const { return memory_; }
    friend bool operator==(const SessionAllocator& a, const SessionAllocator& b) { return a.memory_ == b.memory_; }

  private:
    SessionMemory* memory_;
};

using SessionBytes = std::basic_string<char, std::char_traits<char>, SessionAllocator<char>>;

inline void release(SessionBytes& bytes) { SessionBytes(bytes.get_allocator()).swap(bytes); }

}  // namespace farcached::daemon
