// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/farnode/loop_inbox.h"

namespace farcached::node {

void LoopInbox::give(Arrival arrival) {
    {
        std::lock_guard hold(lock_);
        orders_.arriving.push_back(std::move(arrival));
    }
    waker_.wake();
}

void LoopInbox::stop(protocol::Goodbye why, uint32_t patience_ms) {
    {
        std::lock_guard hold(lock_);
        orders_.stop = StopOrder{why, patience_ms};
    }
    waker_.wake();
}

void LoopInbox::pass() {
    std::unique_lock hold(lock_);
    const uint64_t wanted = ++passes_wanted_;
    waker_.wake();
    passed_.wait(hold, [&] { return passes_ >= wanted; });
}

void LoopInbox::keys_changed() {
    keys_changed_.store(true);
    waker_.wake();
}

void LoopInbox::wake_for_ousted() {
    if (!ousted_.exchange(true)) waker_.wake();
}

LoopInbox::Orders LoopInbox::take() {
    waker_.take();
    std::lock_guard hold(lock_);
    if (passes_ < passes_wanted_) {
        passes_ = passes_wanted_;
        passed_.notify_all();
    }
    return std::exchange(orders_, {});
}

void LoopInbox::shut() {
    std::lock_guard hold(lock_);
    passes_ = UINT64_MAX;
    passed_.notify_all();
}

}  // namespace farcached::node
