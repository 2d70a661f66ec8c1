// SPDX-License-Identifier: BSD-3-Clause
// Ring: an io_uring with a group of receive buffers, as RingIo needs it (daemon/ring_io.cc); there only in builds with liburing.
//
// Owner: who made it; used by one thread, that which called enable().
// U1  Completions arrive in enter() alone (DEFER_TASKRUN): between two calls nothing changes.
// U2  A send is made with MSG_DONTWAIT and MSG_WAITALL, and is over when enter() has handed it over: with a completion if the
//     socket did not take all of it, and else without one. check() sees that the kernel keeps to it.
// U3  A buffer is the kernel's until a completion names it, then the caller's until give_back().
// U4  The kernel is lent as many buffers as it has needed so far, twice as many when fewer than half of them are left: it uses
//     all that it has in turns, and each takes memory from then on.
#pragma once

#ifdef FARCACHED_LIBURING

#include <liburing.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/counters.h"
#include "base/function_ref.h"

namespace farcached::daemon {

class Ring {
  public:
    static constexpr unsigned requests_max = 256;  // that are not handed over yet
    static constexpr unsigned completions_max = 2048;  // all that are used in turns take memory; what is more waits with the kernel
    // Memory that is touched only as far as something was received into it. The stride is no power of two, so that the
    // buffers' beginnings do not share a set of the cache.
    static constexpr unsigned buffers = 128, buffers_at_first = 8;
    static constexpr size_t buffer_bytes = 32 << 10;
    static constexpr size_t buffer_stride = buffer_bytes + 192;

    struct Counters {
        Cell& enters;
        Cell& full;
        Cell& refused;
        Cell& overflows;
    };

    // Disabled until enable(), which another thread may call, or check(). nullptr: `refusal` says why.
    static std::unique_ptr<Ring> make(Counters counters, std::string& refusal);
    ~Ring();
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;

    void enable();
    // Instead: empty, or what this kernel refuses or does not do as it should (U2, and receives into buffers).
    std::string check();

    // ---- requests: handed over by the next enter() -------------------------------------------------
    // data: what their completions name. All but the first have one only if something is to be told.
    void receive(int fd, uint64_t data);  // until it is cancelled, or ends with a completion without IORING_CQE_F_MORE
    void send(int fd, std::string_view bytes, uint64_t data);
    void cancel(uint64_t of, uint64_t data);
    void poll_in(int fd, uint64_t data);  // once
    bool has_requests() const { return io_uring_sq_ready(&ring_) != 0; }

    // Hands over all requests and visits all completions. sleep: until there is one, at most for so long (INT64_MAX: ever).
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
    std::string check_receive(int ours, int theirs);
    std::string check_send(int ours);

    Counters counters_;
    io_uring ring_{};
    bool open_ = false;
    bool buffers_registered_ = false;
    io_uring_buf_ring* buffer_ring_ = nullptr;
    std::unique_ptr<char[]> memory_;
    unsigned lent_ = 0;      // buffers that the kernel has had
    size_t free_ = 0;        // those that are its own now
    bool checking_ = false;
    int failed_ = 0;         // an error that ended a call in check()
    unsigned refusals_ = 0;  // one after the other
};

}  // namespace farcached::daemon

#endif
