// SPDX-License-Identifier: BSD-3-Clause
#include "node/disk/read_ways.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/broken.h"
#include "base/check.h"
#include "base/recorder.h"

#ifdef FARCACHED_LIBURING
#include <liburing.h>
#endif

namespace farcached::node {

namespace {

// Counts the bytes of a completed call. True: the read has ended.
bool note_result(DiskRead& read, ssize_t result) {
    if (broken::happens(broken::faults.fail_disk_read)) result = -EIO;
    if (result == -EINTR || result == -EAGAIN) return false;
    if (result > 0) read.got += uint32_t(result);
    if (result < 0) read.error = int(-result);
    if (result == 0) read.error = ENODATA;  // the file has become shorter
    return read.error != 0 || read.got == read.place.bytes;
}

}  // namespace

// ---- threads --------------------------------------------------------------------------------------------

DiskReaders::DiskReaders(int file, uint32_t threads) : file_(file) {
    threads_.reserve(threads);
    try {
        for (uint32_t i = 0; i < threads; i++) threads_.emplace_back([this] { run(); });
    } catch (...) {
        stop();
        throw;
    }
}

DiskReaders::~DiskReaders() { stop(); }

void DiskReaders::stop() {
    {
        std::lock_guard held(lock_);
        stopping_ = true;
    }
    work_.notify_all();
    for (std::thread& one : threads_) one.join();
}

void DiskReaders::add(DiskRead& read) {
    read.next = nullptr;
    {
        std::lock_guard held(lock_);
        *end_ = &read;
        end_ = &read.next;
    }
    work_.notify_one();
}

void DiskReaders::run() {
    Recorder recorder("disk reader");
    const Recorder::Running running(recorder);
    std::unique_lock held(lock_);
    for (;;) {
        work_.wait(held, [this] { return stopping_ || first_ != nullptr; });
        if (first_ == nullptr) return;
        DiskRead& read = *first_;
        first_ = read.next;
        if (first_ == nullptr) end_ = &first_;
        held.unlock();
        broken::hold_up(broken::faults.slow_disk);
        ssize_t result = 0;
        do {
            result = pread(file_, read.bytes.get() + read.got, read.place.bytes - read.got, off_t(read.from + read.got));
            if (result < 0) result = -errno;
        } while (!note_result(read, result));
        read.way->done(read);
        held.lock();
    }
}

bool ThreadWay::start(DiskRead& read) {
    read.way = this;
    {
        std::lock_guard held(lock_);
        under_way_++;
    }
    readers_.add(read);
    return true;
}

// The event is signalled under the lock: after finish() it may be closed.
void ThreadWay::done(DiskRead& read) {
    std::lock_guard held(lock_);
    read.next = std::exchange(done_, &read);
    (void)eventfd_write(event_, 1);
    if (--under_way_ == 0) all_done_.notify_all();
}

void ThreadWay::collect(FunctionRef<void(DiskRead&)> complete) {
    DiskRead* all = nullptr;
    {
        std::lock_guard held(lock_);
        all = std::exchange(done_, nullptr);
    }
    while (all != nullptr) complete(*std::exchange(all, all->next));
}

void ThreadWay::finish() {
    std::unique_lock held(lock_);
    all_done_.wait(held, [this] { return under_way_ == 0; });
    done_ = nullptr;
}

// ---- io_uring -------------------------------------------------------------------------------------------

#ifdef FARCACHED_LIBURING

namespace {

class RingWay final : public ReadWay {
  public:
    RingWay(int file, uint32_t depth) : file_(file), depth_(depth) {}
    ~RingWay() override {
        if (open_) io_uring_queue_exit(&ring_);
    }
    RingWay(const RingWay&) = delete;
    RingWay& operator=(const RingWay&) = delete;

    std::string set_up(int event);
    bool start(DiskRead& read) override;
    void collect(FunctionRef<void(DiskRead&)> complete) override;
    void finish() override;

  private:
    bool submit(DiskRead& read);
    void note(const io_uring_cqe& cqe, FunctionRef<void(DiskRead&)> complete);

    const int file_;
    const uint32_t depth_;
    io_uring ring_{};
    bool open_ = false;
    uint32_t under_way_ = 0;
};

std::string with_call(const char* call, int error) { return std::string(call) + ": " + std::strerror(error); }

// A no-op proves that the ring can be used, too.
std::string RingWay::set_up(int event) {
    io_uring_params params{};
    int error = -io_uring_queue_init_params(depth_, &ring_, &params);
    if (error != 0) return with_call("io_uring_setup", error);
    open_ = true;
    constexpr unsigned needed = IORING_FEAT_NODROP | IORING_FEAT_FAST_POLL;
    if ((params.features & needed) != needed) return "Linux 5.7 or later is needed";
    io_uring_prep_nop(io_uring_get_sqe(&ring_));
    io_uring_cqe* cqe = nullptr;
    do {
        error = -io_uring_submit_and_wait(&ring_, 1);
    } while (error == EINTR);
    if (error > 0) return with_call("io_uring_enter", error);
    error = -io_uring_wait_cqe(&ring_, &cqe);
    if (error != 0) return with_call("io_uring_enter", error);
    io_uring_cqe_seen(&ring_, cqe);
    if (event >= 0) error = -io_uring_register_eventfd(&ring_, event);
    return error == 0 ? std::string() : with_call("io_uring_register", error);
}

bool RingWay::start(DiskRead& read) {
    if (!submit(read)) return false;
    under_way_++;
    return true;
}

// False: the kernel has no memory for the request. It stays in the queue as a no-op.
bool RingWay::submit(DiskRead& read) {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    if (sqe == nullptr) {
        (void)io_uring_submit(&ring_);
        sqe = io_uring_get_sqe(&ring_);
        if (sqe == nullptr) return false;
    }
    io_uring_prep_read(sqe, file_, read.bytes.get() + read.got, read.place.bytes - read.got, read.from + read.got);
    io_uring_sqe_set_data(sqe, &read);
    int result = 0;
    do {
        result = io_uring_submit(&ring_);
    } while (result == -EINTR);
    if (io_uring_sq_ready(&ring_) == 0) return true;
    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data(sqe, nullptr);
    return false;
}

void RingWay::note(const io_uring_cqe& cqe, FunctionRef<void(DiskRead&)> complete) {
    auto* const read = static_cast<DiskRead*>(io_uring_cqe_get_data(&cqe));
    const int result = cqe.res;
    io_uring_cqe_seen(&ring_, const_cast<io_uring_cqe*>(&cqe));
    if (read == nullptr) return;
    if (!note_result(*read, result)) {
        if (submit(*read)) return;
        read->error = ENOMEM;
    }
    under_way_--;
    complete(*read);
}

void RingWay::collect(FunctionRef<void(DiskRead&)> complete) {
    broken::hold_up(broken::faults.slow_disk);
    io_uring_cqe* cqe = nullptr;
    while (io_uring_peek_cqe(&ring_, &cqe) == 0) note(*cqe, complete);
}

void RingWay::finish() {
    while (under_way_ != 0) {
        io_uring_cqe* cqe = nullptr;
        const int result = io_uring_wait_cqe(&ring_, &cqe);
        if (result == 0) note(*cqe, [](DiskRead&) {});
        CHECK(result == 0 || result == -EINTR || result == -EAGAIN);
    }
}

}  // namespace

std::unique_ptr<ReadWay> make_ring_way(int file, int event, uint32_t depth, std::string& refusal) {
    auto way = std::make_unique<RingWay>(file, depth);
    refusal = way->set_up(event);
    if (!refusal.empty()) return nullptr;
    return way;
}

#else

std::unique_ptr<ReadWay> make_ring_way(int, int, uint32_t, std::string& refusal) {
    refusal = "built without liburing";
    return nullptr;
}

#endif

}  // namespace farcached::node
