// SPDX-License-Identifier: BSD-3-Clause
// SessionMemory: the limit for all clients' buffers together (read_buf_mem_limit): incomplete requests, and replies that
// sockets have not taken.
//
// Owner: the Server; any thread. Values sent from or received into the cache's memory do not count here: they lie within -m
// (node/store/node.h, Upload and lent values).
// M1  used() never exceeds limit().
// M2  Nothing waits for memory: a session without room ends, or replies SERVER_ERROR.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>

#include "base/add_below.h"
#include "daemon/engine/hoards.h"

namespace farcached::daemon {

class SessionMemory {
  public:
    // A limit that suits -m. Without an embedded node the memory of -m is for buffers, too.
    static uint64_t limit_for(uint64_t memory_bytes, bool embedded) {
        return (UINT64_C(16) << 20) + memory_bytes / 8 + (embedded ? 0 : memory_bytes);
    }

    explicit SessionMemory(uint64_t limit) : limit_(limit) {}

    bool take(size_t bytes) { return add_below(used_, bytes, limit_); }
    void give_back(size_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
    bool has_room(size_t bytes) const { return used() + bytes <= limit_; }
    uint64_t used() const { return used_.load(std::memory_order_relaxed); }
    uint64_t limit() const { return limit_; }
    // More than half is used: engines stop appending replies early.
    bool short_of_room() const { return used() > limit_ / 2; }
    Hoards& hoards() { return hoards_; }

  private:
    const uint64_t limit_;
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

// Empties it and frees its memory.
inline void release(SessionBytes& bytes) { SessionBytes(bytes.get_allocator()).swap(bytes); }

}  // namespace farcached::daemon
