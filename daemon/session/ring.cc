// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/session/ring.h"

#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"

namespace farcached::daemon {

namespace {

constexpr uint16_t group = 0;
constexpr size_t buffer_ring_bytes = Ring::buffers * sizeof(io_uring_buf);
constexpr int send_flags = MSG_NOSIGNAL | MSG_DONTWAIT | MSG_WAITALL;  // U2
constexpr unsigned refusals_max = 1 << 16;  // in a row, for lack of memory; then it gives up

std::string failed(const char* call, int error) { return std::string(call) + ": " + std::strerror(error); }

}  // namespace

std::unique_ptr<Ring> Ring::make(Counters counters, std::string& refusal) {
    std::unique_ptr<Ring> ring(new Ring(counters));
    refusal = ring->set_up();
    return refusal.empty() ? std::move(ring) : nullptr;
}

std::string Ring::set_up() {
    io_uring_params params{};
    params.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE |
                   IORING_SETUP_R_DISABLED;
    params.cq_entries = completions_max;
    int error = -io_uring_queue_init_params(requests_max, &ring_, &params);
    if (error == EINVAL) return failed("io_uring_setup", error) + " (Linux 6.1 or later is needed)";
    if (error != 0) return failed("io_uring_setup", error);
    open_ = true;
    constexpr unsigned needed = IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG | IORING_FEAT_CQE_SKIP;
    if ((params.features & needed) != needed) return "this kernel's io_uring is too old";

    void* ring = mmap(nullptr, buffer_ring_bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_PRIVATE, -1, 0);
    if (ring == MAP_FAILED) return failed("mmap", errno);
    buffer_ring_ = static_cast<io_uring_buf_ring*>(ring);
    io_uring_buf_reg registration{};
    registration.ring_addr = reinterpret_cast<uintptr_t>(ring);
    registration.ring_entries = buffers;
    registration.bgid = group;
    error = -io_uring_register_buf_ring(&ring_, &registration, 0);
    if (error != 0) return failed("io_uring_register (buffers)", error);
    buffers_registered_ = true;
    memory_.reset(new (std::nothrow) char[buffers * buffer_stride]);
    if (memory_ == nullptr) return "there is no memory for receive buffers";
    io_uring_buf_ring_init(buffer_ring_);
    lend(buffers_at_first);
    return {};
}

Ring::~Ring() {
    if (buffers_registered_) io_uring_unregister_buf_ring(&ring_, group);
    if (open_) io_uring_queue_exit(&ring_);
    if (buffer_ring_ != nullptr) munmap(buffer_ring_, buffer_ring_bytes);
}

int Ring::switch_on() {
    // liburing 2.3 declares io_uring_enable_rings() and does not export it.
    const long result = syscall(SYS_io_uring_register, ring_.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
    if (result != 0) return errno;
    (void)io_uring_register_ring_fd(&ring_);  // optional: saves a lookup per call
    return 0;
}

void Ring::enable() { CHECK(switch_on() == 0); }

void Ring::lend(unsigned all) {
    while (lent_ < all) give_back(lent_++);
}

void Ring::give_back(unsigned id) {
    io_uring_buf_ring_add(buffer_ring_, const_cast<char*>(buffer(id)), buffer_bytes, uint16_t(id),
                          io_uring_buf_ring_mask(buffers), 0);
    io_uring_buf_ring_advance(buffer_ring_, 1);
    free_++;
}

// Evaluates a submission's result. False: check() refuses. After a successful check() an unknown error is a bug of ours.
bool Ring::goes_on(int result) {
    const bool refused = result == -EAGAIN || result == -EBUSY || result == -ENOMEM;
    refusals_ = refused ? refusals_ + 1 : 0;
    if (refused) sched_yield();
    if (result >= 0 || result == -EINTR || result == -ETIME || (refused && refusals_ < refusals_max)) return true;
    if (!checking_) panic(failed("io_uring_enter", -result).c_str(), __FILE__, __LINE__);
    failed_ = -result;
    return false;
}

io_uring_sqe* Ring::request() {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    while (sqe == nullptr) {
        counters_.full.add(1);
        counters_.enters.add(1);
        const int result = io_uring_submit(&ring_);
        if (result < 0) counters_.refused.add(1);
        CHECK(goes_on(result));  // check() never has so many
        sqe = io_uring_get_sqe(&ring_);
    }
    return sqe;
}

void Ring::receive(int fd, uint64_t data) {
    io_uring_sqe* sqe = request();
    io_uring_prep_recv_multishot(sqe, fd, nullptr, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = group;
    sqe->user_data = data;
}

void Ring::send(int fd, std::string_view bytes, uint64_t data) {
    io_uring_sqe* sqe = request();
    io_uring_prep_send(sqe, fd, bytes.data(), bytes.size(), send_flags);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    sqe->user_data = data;
}

void Ring::send(int fd, const msghdr& parts, uint64_t data) {
    io_uring_sqe* sqe = request();
    io_uring_prep_sendmsg(sqe, fd, &parts, send_flags);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    sqe->user_data = data;
}

void Ring::cancel(uint64_t of, uint64_t data) {
    io_uring_sqe* sqe = request();
    io_uring_prep_cancel64(sqe, of, 0);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    sqe->user_data = data;
}

void Ring::poll(int fd, unsigned events, uint64_t data) {
    io_uring_sqe* sqe = request();
    io_uring_prep_poll_add(sqe, fd, events);
    sqe->user_data = data;
}

void Ring::visit_all(Visit visit) {
    io_uring_cqe* cqe = nullptr;
    unsigned head = 0, count = 0;
    io_uring_for_each_cqe(&ring_, head, cqe) {
        if ((cqe->flags & IORING_CQE_F_BUFFER) != 0) free_--;
        visit(*cqe);
        count++;
    }
    io_uring_cq_advance(&ring_, count);
    if (free_ < lent_ / 2) lend(std::min(2 * lent_, buffers));
}

// Requests refused for lack of memory are submitted again until they succeed: replies are among them (U2).
void Ring::enter(bool sleep, int64_t sleep_ns, Visit visit) {
    counters_.enters.add(1);
    int result = 0;
    if (sleep) {
        io_uring_cqe* first = nullptr;
        __kernel_timespec limit{sleep_ns / 1'000'000'000, sleep_ns % 1'000'000'000};
        result = io_uring_submit_and_wait_timeout(&ring_, &first, 1, sleep_ns == INT64_MAX ? nullptr : &limit, nullptr);
    } else {
        result = io_uring_submit_and_get_events(&ring_);
    }
    for (;;) {
        if (!goes_on(result)) return;
        const bool refused = has_requests();  // those of the visit leave with the next call
        visit_all(visit);
        const bool overflown = io_uring_cq_has_overflow(&ring_);
        if (!overflown && !refused) return;
        (overflown ? counters_.overflows : counters_.refused).add(1);
        counters_.enters.add(1);
        result = io_uring_submit_and_get_events(&ring_);
    }
}

// ---- check(): the required kernel behaviour ------------------------------------------------------------

std::string Ring::check() {
    checking_ = true;
    if (const int error = switch_on(); error != 0) return failed("io_uring_register (enable)", error);
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) return failed("socketpair", errno);
    std::string refusal = check_poll(pair[0], pair[1]);
    if (refusal.empty()) refusal = check_receive(pair[0], pair[1]);
    if (refusal.empty()) refusal = check_send(pair[0]);
    ::close(pair[0]);
    ::close(pair[1]);
    if (failed_ != 0) return failed("io_uring_enter", failed_);
    return refusal;
}

std::string Ring::check_poll(int ours, int theirs) {
    constexpr uint64_t polling = 4, cancelling = 5;
    unsigned ended = 0;
    int result = 0;
    const auto visit = [&](const io_uring_cqe& cqe) {
        if (cqe.user_data != polling) return;
        ended++;
        result = cqe.res;
    };
    char byte = 0;
    poll(ours, POLLIN, polling);
    enter(false, 0, visit);
    if (::send(theirs, &byte, sizeof byte, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return failed("send", errno);
    if (ended == 0) enter(false, 0, visit);
    if (ended != 1 || result < 0 || (result & POLLIN) == 0) return failed("polls of descriptors", result < 0 ? -result : EINVAL);
    if (recv(ours, &byte, sizeof byte, MSG_DONTWAIT) < 0) return failed("recv", errno);
    poll(ours, POLLIN, polling);
    enter(false, 0, visit);
    cancel(polling, cancelling);
    for (int i = 0; i < 3 && ended == 1; i++) enter(false, 0, visit);
    return ended == 2 && result == -ECANCELED ? "" : "a poll could not be cancelled";
}

std::string Ring::check_receive(int ours, int theirs) {
    constexpr uint64_t receiving = 1, cancelling = 2;
    constexpr std::string_view word = "hello";
    unsigned right = 0, wrong = 0, ended = 0;
    int result = 0;
    const auto visit = [&](const io_uring_cqe& cqe) {
        if (cqe.user_data != receiving) return;
        result = cqe.res;
        const bool more = (cqe.flags & IORING_CQE_F_MORE) != 0;
        if ((cqe.flags & IORING_CQE_F_BUFFER) != 0) {
            const unsigned id = buffer_of(cqe.flags);
            const bool whole = cqe.res == int(word.size()) && std::memcmp(buffer(id), word.data(), word.size()) == 0;
            (whole && more ? right : wrong)++;
            give_back(id);
        } else {
            (more ? wrong : ended)++;
        }
    };
    receive(ours, receiving);
    enter(false, 0, visit);
    for (int i = 0; i < 2; i++) {
        if (::send(theirs, word.data(), word.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return failed("send", errno);
        enter(false, 0, visit);
    }
    if (right != 2 || wrong != 0 || ended != 0) return failed("receives into provided buffers", result < 0 ? -result : EINVAL);
    cancel(receiving, cancelling);
    for (int i = 0; i < 3 && ended == 0; i++) enter(false, 0, visit);
    return ended == 1 && result == -ECANCELED ? "" : "a receive could not be cancelled";
}

// U2: a complete send has no completion, an incomplete one has it at once.
std::string Ring::check_send(int ours) {
    constexpr uint64_t sending = 3;
    std::array<char, 4096> bytes{};
    unsigned told = 0;
    int result = 0;
    const auto visit = [&](const io_uring_cqe& cqe) {
        if (cqe.user_data != sending) return;
        told++;
        result = cqe.res;
    };
    send(ours, std::string_view(bytes.data(), 1), sending);
    enter(false, 0, visit);
    if (told != 0) return failed("sends without completion", result < 0 ? -result : EINVAL);
    while (::send(ours, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) > 0) {}
    if (errno != EAGAIN) return failed("send", errno);
    send(ours, std::string_view(bytes.data(), bytes.size()), sending);
    enter(false, 0, visit);
    return told == 1 && result == -EAGAIN ? "" : "a send that does not fit is not refused at once";
}

// ---- RingWaits ------------------------------------------------------------------------------------------

class RingWaits::Poll final : public Readiness {
  public:
    Poll(RingWaits& waits, size_t place, std::function<void()> ready)
        : waits_(waits), place_(place), ready_(std::move(ready)) {}
    ~Poll() override {
        stop();
        waits_.places_[place_].holder = nullptr;
    }

    void await(int fd, bool writable) override {
        stop();
        fd_ = fd;
        writable_ = writable;
        waits_.some_unarmed_ = true;
    }
    void stop() override {
        fd_ = -1;
        is_ready_ = false;
        if (!std::exchange(armed_, false)) return;
        waits_.ring_.cancel(waits_.name_of(place_), waits_.cancelling_);
        waits_.places_[place_].stops++;
    }

  private:
    friend class RingWaits;

    RingWaits& waits_;
    const size_t place_;
    const std::function<void()> ready_;
    int fd_ = -1;  // -1: not awaited
    bool writable_ = false;
    bool armed_ = false;
    bool is_ready_ = false;
};

std::unique_ptr<Readiness> RingWaits::make(std::function<void()> ready) {
    const auto place = size_t(std::ranges::find(places_, nullptr, &Place::holder) - places_.begin());
    if (place == places_.size()) places_.emplace_back();
    auto made = std::make_unique<Poll>(*this, place, std::move(ready));
    places_[place].holder = made.get();
    return made;
}

uint64_t RingWaits::name_of(size_t place) const {
    constexpr uint32_t stops_mask = (1u << (32 - kind_bits)) - 1;
    return uint64_t(place) << 32 | (places_[place].stops & stops_mask) << kind_bits | kind_;
}

void RingWaits::arm_all() {
    some_unarmed_ = false;
    for (size_t place = 0; place < places_.size(); place++) {
        Poll* const one = places_[place].holder;
        if (one == nullptr || one->fd_ < 0 || one->armed_) continue;
        one->armed_ = true;
        ring_.poll(one->fd_, one->writable_ ? POLLIN | POLLOUT : POLLIN, name_of(place));
    }
}

void RingWaits::note(uint64_t name) {
    const size_t place = name >> 32;
    Poll* const one = places_[place].holder;
    if (one == nullptr || !one->armed_ || name != name_of(place)) return;  // a stopped one
    one->armed_ = false;
    one->is_ready_ = true;
    some_unarmed_ = some_ready_ = true;
}

// By place, as a callback may make and end others (A2).
void RingWaits::tell() {
    some_ready_ = false;
    for (size_t place = 0; place < places_.size(); place++) {
        Poll* const one = places_[place].holder;
        if (one != nullptr && std::exchange(one->is_ready_, false)) one->ready_();
    }
}

}  // namespace farcached::daemon
