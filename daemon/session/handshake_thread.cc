// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/session/handshake_thread.h"

#include <utility>

#include "base/broken.h"
#include "base/recorder.h"
#include "daemon/session/tls.h"
#include "process/process.h"

namespace farcached::daemon {

void HandshakeThread::start() {
    thread_ = std::thread([this] { run(); });
    std::unique_lock hold(lock_);
    changed_.wait(hold, [this] { return started_; });
}

void HandshakeThread::stop() noexcept {
    {
        std::lock_guard hold(lock_);
        stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void HandshakeThread::begin(Steps&& one) noexcept {
    std::lock_guard hold(lock_);
    one.front()->in_queue = true;
    one.front()->place = one.begin();
    waiting_.splice(waiting_.end(), one);
    changed_.notify_one();
}

HandshakeThread::Steps HandshakeThread::take() noexcept {
    std::lock_guard hold(lock_);
    return std::exchange(done_, {});
}

HandshakeThread::Steps HandshakeThread::cancel(TlsSession& session) noexcept {
    Steps one;
    std::lock_guard hold(lock_);
    if (!session.in_queue) return one;
    session.in_queue = false;
    one.splice(one.begin(), waiting_, session.place);
    return one;
}

void HandshakeThread::run() {
    Recorder recorder(name_);  // which throws nothing, as the rest: start() waits for this thread
    const Recorder::Running running(recorder);
    process::let_other_threads_first();
    std::unique_lock hold(lock_);
    started_ = true;
    changed_.notify_all();
    for (;;) {
        changed_.wait(hold, [this] { return stopping_ || !waiting_.empty(); });
        if (stopping_) return;
        Steps now;
        now.splice(now.begin(), waiting_, waiting_.begin());
        now.front()->in_queue = false;
        hold.unlock();
        broken::hold(broken::faults.held_handshake);
        now.front()->compute_step();
        hold.lock();
        done_.splice(done_.end(), now);
        if (done_.size() == 1) wake_();
    }
}

}  // namespace farcached::daemon
