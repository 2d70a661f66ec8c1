// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/verbs/verbs_wakeups.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>

namespace farcached::fabric {

namespace {

// The readable descriptor of the poller.
enum Tag : uint32_t { tag_events, tag_completions, tag_beat, tag_kick, tag_rpc, tag_count };

void take_expiry(const Descriptor& timer) {
    uint64_t times = 0;
    (void)!read(timer.get(), &times, sizeof times);
}

}  // namespace

VerbsWakeups::VerbsWakeups(int poller, bool sleeps)
    : poller_(poller), sleeps_(sleeps), kick_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

bool VerbsWakeups::watch(int fd, uint32_t tag, uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u32 = tag;
    return fd >= 0 && epoll_ctl(poller_, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool VerbsWakeups::begin(int events) {
    return watch(events, tag_events, EPOLLIN) && watch(kick_.get(), tag_kick, EPOLLIN | EPOLLET);  // W1
}

bool VerbsWakeups::begin_beats(int completions, uint32_t beat_ms) {
    beat_timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    itimerspec every{};
    every.it_interval.tv_sec = every.it_value.tv_sec = beat_ms / 1000;
    every.it_interval.tv_nsec = every.it_value.tv_nsec = long(beat_ms % 1000) * 1'000'000;
    return beat_timer_ && timerfd_settime(beat_timer_.get(), 0, &every, nullptr) == 0 &&
           watch(beat_timer_.get(), tag_beat, EPOLLIN) && watch(completions, tag_completions, EPOLLIN);
}

void VerbsWakeups::kick() { (void)eventfd_write(kick_.get(), 1); }

const char* VerbsWakeups::wake_at(uint64_t ns) {
    if (ns >= rpc_timer_ns_) return nullptr;
    if (!rpc_timer_) {
        rpc_timer_.reset(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
        if (!rpc_timer_ || !watch(rpc_timer_.get(), tag_rpc, EPOLLIN)) return "timerfd_create";
    }
    itimerspec at{};
    at.it_value.tv_sec = time_t(ns / 1'000'000'000);
    at.it_value.tv_nsec = long(std::max<uint64_t>(ns % 1'000'000'000, 1));
    if (timerfd_settime(rpc_timer_.get(), TFD_TIMER_ABSTIME, &at, nullptr) != 0) return "timerfd_settime";
    rpc_timer_ns_ = ns;
    return nullptr;
}

VerbsWakeups::Seen VerbsWakeups::look_at_all(VerbsCompletions& completions) {
    Seen seen;
    epoll_event readable[tag_count];
    const int count = epoll_wait(poller_, readable, tag_count, 0);
    for (int i = 0; i < count; i++) {
        switch (readable[i].data.u32) {
            case tag_events: seen.events = true; break;
            case tag_completions: completions.disarm(); break;  // a removed device has no event; arm() then reports the removal
            case tag_beat:
                take_expiry(beat_timer_);
                seen.beat = true;
                break;
            case tag_rpc:
                take_expiry(rpc_timer_);
                rpc_timer_ns_ = never_ns;
                break;
            default: break;
        }
    }
    return seen;
}

}  // namespace farcached::fabric
