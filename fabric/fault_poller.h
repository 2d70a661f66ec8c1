// SPDX-License-Identifier: BSD-3-Clause
// FaultPoller: the descriptor of a FaultChannel. It is readable while the inner channel's is, and when its timer has expired.
//
// Owner: a FaultChannel. Its thread. After add() it watches the inner channel's descriptor until forget() or the end.
#pragma once

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cstdint>

#include "base/check.h"
#include "fabric/channel.h"
#include "fabric/socket.h"

namespace farcached::fabric {

class FaultPoller {
  public:
    FaultPoller()
        : poller_(epoll_create1(EPOLL_CLOEXEC)), timer_(timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC)) {}

    // False: there was no descriptor for it.
    bool made() const { return bool(poller_) && bool(timer_); }
    int fd() const { return poller_.get(); }
    // Once. False: the system refuses.
    bool add(const Channel& inner) {
        for (int fd : {inner.fd(), timer_.get()}) {
            epoll_event event{};
            event.events = EPOLLIN;
            if (epoll_ctl(poller_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return false;
        }
        return true;
    }
    // Call it when the inner channel may want to write, or no longer.
    void follow(const Channel& inner) {
        if (inner_writes_ == inner.wants_write()) return;
        inner_writes_ = inner.wants_write();
        epoll_event event{};
        event.events = EPOLLIN | (inner_writes_ ? uint32_t(EPOLLOUT) : 0);
        CHECK(epoll_ctl(poller_.get(), EPOLL_CTL_MOD, inner.fd(), &event) == 0);
    }
    // Any number of times.
    void forget(const Channel& inner) { epoll_ctl(poller_.get(), EPOLL_CTL_DEL, inner.fd(), nullptr); }
    // UINT64_MAX: never.
    void set_timer(uint64_t due_ns, uint64_t now_ns) {
        itimerspec timer{};
        if (due_ns != UINT64_MAX) {
            const uint64_t left = due_ns > now_ns ? due_ns - now_ns : 1;
            timer.it_value.tv_sec = time_t(left / 1'000'000'000);
            timer.it_value.tv_nsec = long(left % 1'000'000'000);
        }
        CHECK(timerfd_settime(timer_.get(), 0, &timer, nullptr) == 0);
    }
    void clear_timer() {
        uint64_t expirations = 0;
        (void)!read(timer_.get(), &expirations, sizeof expirations);
    }

  private:
    Descriptor poller_, timer_;
    bool inner_writes_ = false;  // it watches the inner channel for writing
};

}  // namespace farcached::fabric
