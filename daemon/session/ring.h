// SPDX-License-Identifier: BSD-3-Clause
// Ring: an io_uring with a group of receive buffers. RingWaits: its polls. For RingIo (daemon/session/ring_io.cc), and only in
// builds with liburing.
//
// Owner: their creator; used by one thread, that of enable().
// U1  Completions arrive in enter() alone (DEFER_TASKRUN): between two calls nothing changes.
// U2  A send uses MSG_DONTWAIT and MSG_WAITALL, and ends within enter(). It has a completion only if the socket did not take
//     all of it. check() tests that the kernel does so.
// U3  A buffer is the kernel's until a completion names it, then the caller's until give_back().
// U4  The kernel has as many buffers as it has needed so far, twice as many when fewer than half of them are left. It cycles
//     through all of them, so each takes memory.
#pragma once

#ifdef FARCACHED_LIBURING

#include <liburing.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/counters.h"
#include "base/function_ref.h"
#include "daemon/engine/readiness.h"

namespace farcached::daemon {

class Ring {
  public:
    static constexpr unsigned requests_max = 256;  // not handed over yet
    static constexpr unsigned completions_max = 2048;  // all of them take memory, as the ring cycles; the kernel keeps more
    // Only pages that were received into take memory. The stride is no power of two, so that the buffers' beginnings fall into
    // different cache sets.
    static constexpr unsigned buffers = 128, buffers_at_first = 8;
    static constexpr size_t buffer_bytes = 32 << 10;
    static constexpr size_t buffer_stride = buffer_bytes + 192;

    struct Counters {
        Counter& enters;
        Counter& full;
        Counter& refused;
        Counter& overflows;
    };

    // Disabled until enable(), which another thread may call, or check(). nullptr: `refusal` has the reason.
    static std::unique_ptr<Ring> make(Counters counters, std::string& refusal);
    ~Ring();
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;

    void enable();
    // Instead of enable(): tests U2 and receives into buffers. Returns an empty string, or the kernel's refusal or fault.
    std::string check();

    // ---- requests: handed over by the next enter() -------------------------------------------------
    // data: names the completions. send() and cancel() have one only if they fail (U2).
    void receive(int fd, uint64_t data);  // until cancelled, or a completion without IORING_CQE_F_MORE
    void send(int fd, std::string_view bytes, uint64_t data);
    void send(int fd, const msghdr& parts, uint64_t data);  // valid as long as the bytes that it describes
    void cancel(uint64_t of, uint64_t data);
    void poll(int fd, unsigned events, uint64_t data);  // for POLLIN, POLLOUT and errors; one completion
    bool has_requests() const { return io_uring_sq_ready(&ring_) != 0; }

    // Submits all requests and visits all completions. sleep: until there is one, at most for sleep_ns (INT64_MAX: no limit).
    using Visit = FunctionRef<void(const io_uring_cqe&)>;
    void enter(bool sleep, int64_t sleep_ns, Visit visit);

    // ---- buffers -------------------------------------------------------------------------------------
    static unsigned buffer_of(unsigned flags) { return flags >> IORING_CQE_BUFFER_SHIFT; }
    const char* buffer(unsigned id) const { return memory_.get() + id * buffer_stride; }
    void give_back(unsigned id);
    size_t free_buffers() const { return free_; }

  private:
    explicit Ring(Counters counters) : counters_(counters) {}
    std::string set_up();
    int switch_on();
    bool goes_on(int result);
    io_uring_sqe* request();
    void visit_all(Visit visit);
    void lend(unsigned all);
    std::string check_poll(int ours, int theirs);
    std::string check_receive(int ours, int theirs);
    std::string check_send(int ours);

    Counters counters_;
    io_uring ring_{};
    bool open_ = false;
    bool buffers_registered_ = false;
    io_uring_buf_ring* buffer_ring_ = nullptr;
    std::unique_ptr<char[]> memory_;
    unsigned lent_ = 0;      // buffers lent to the kernel so far
    size_t free_ = 0;        // those that the kernel holds now
    bool checking_ = false;
    int failed_ = 0;         // an error that ended a call in check()
    unsigned refusals_ = 0;  // in a row
};

// Waits for single descriptors (daemon/engine/readiness.h) by polls of a ring. A poll is armed at the beginning of a turn, and
// has one completion. Its name contains how many polls of its place were stopped, so that their late completions are recognized.
class RingWaits {
  public:
    static constexpr unsigned kind_bits = 3;  // the low bits of a completion's name

    // ring: borrowed. The names of polls have `kind` in these bits; a cancellation's whole name is `cancelling`.
    RingWaits(Ring& ring, uint64_t kind, uint64_t cancelling) : ring_(ring), kind_(kind), cancelling_(cancelling) {}

    // Throws std::bad_alloc.
    std::unique_ptr<Readiness> make(std::function<void()> ready);
    void arm() {
        if (some_unarmed_) arm_all();
    }
    void note(uint64_t name);
    bool any_ready() const { return some_ready_; }
    void tell();

  private:
    class Poll;
    struct Place {
        Poll* holder = nullptr;  // null: free
        uint32_t stops = 0;      // of armed polls
    };

    void arm_all();
    uint64_t name_of(size_t place) const;

    Ring& ring_;
    const uint64_t kind_, cancelling_;
    std::vector<Place> places_;
    bool some_unarmed_ = false, some_ready_ = false;
};

}  // namespace farcached::daemon

#endif
