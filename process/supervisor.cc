// SPDX-License-Identifier: BSD-3-Clause
#include "process/supervisor.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <new>
#include <system_error>

#include "base/recorder.h"
#include "process/log.h"

namespace farcached::process {

namespace {

using std::chrono::microseconds;
using Clock = std::chrono::steady_clock;

constexpr microseconds status_period{5'000'000};
constexpr microseconds ready_period{10'000};       // between checks while not ready
constexpr microseconds ready_patience{10'000'000}; // for the nodes: ready without them is better than killed
constexpr int feedings_per_watchdog = 4;           // two would do; one may be late

// A journal shows starts of services. memcached prints none on stderr, where programs may read it.
Level start_level() { return stderr_is_journal() ? Level::notice : Level::info; }

microseconds period_of(const ServiceManager& manager) {
    if (manager.watchdog_us() == 0) return status_period;
    const microseconds hungry(manager.watchdog_us() / feedings_per_watchdog);
    return std::clamp(hungry, microseconds(1000), status_period);
}

}  // namespace

LoopWaker::LoopWaker() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}

LoopWaker::~LoopWaker() { close(fd_); }

void LoopWaker::wake() {
    const uint64_t one = 1;
    (void)!write(fd_, &one, sizeof one);
}

void LoopWaker::take() {
    uint64_t count = 0;
    (void)!read(fd_, &count, sizeof count);
    heartbeat_.answer();
}

Supervisor::Supervisor(ServiceManager& manager, Service service)
    : manager_(manager), service_(std::move(service)), period_(period_of(manager)) {}

Supervisor::~Supervisor() { stop(); }

void Supervisor::start(std::vector<Watched> watched) {
    if (!manager_.listens() && !is_said(start_level())) return;  // V1
    for (Watched& one : watched) threads_.push_back({std::move(one)});
    thread_ = std::thread([this] { run(); });
}

void Supervisor::stop() {
    if (!thread_.joinable()) return;
    {
        std::lock_guard hold(lock_);
        stopping_ = true;
    }
    stop_.notify_one();
    thread_.join();
    std::string status;
    with_memory([&] { status = "stopping: " + service_.status(); });
    manager_.tell_stopping(status);
}

// Status lines are optional: without memory the next tick sends them.
template <class Tell>
void Supervisor::with_memory(Tell&& tell) noexcept {
    try {
        tell();
    } catch (const std::bad_alloc&) {
        (void)0;
    }
}

// False: stop() was called.
bool Supervisor::wait_until(Time time) {
    std::unique_lock hold(lock_);
    return !stop_.wait_until(hold, time, [this] { return stopping_; });
}

void Supervisor::run() {
    Recorder recorder("supervisor");
    const Recorder::Running running(recorder);
    const Time begun = Clock::now();
    while (!service_.is_ready() && Clock::now() - begun < ready_patience) {
        tell_status();
        if (!wait_until(Clock::now() + ready_period)) return;
    }
    with_memory([&] { told_ = service_.status(); });
    manager_.tell_ready(told_);
    say_made(start_level(), service_.started);
    if (!manager_.listens()) return;
    for (Thread& one : threads_) {
        one.asked = Clock::now();
        one.watched.heartbeat->ask();
        one.watched.wake();
    }
    for (Time next = Clock::now() + period_; wait_until(next); next = Clock::now() + period_) look();
}

void Supervisor::look() {
    const Time now = Clock::now();
    const bool alive = all_answered(now);
    if (alive) manager_.tell_alive();
    tell_status();
    for (Thread& one : threads_) {
        if (!alive || !one.watched.heartbeat->answered()) continue;  // V2: answered since the last feeding
        one.asked = now;
        one.watched.heartbeat->ask();
        one.watched.wake();
    }
}

bool Supervisor::all_answered(Time now) {
    bool all = true;
    for (Thread& one : threads_) {
        if (one.watched.heartbeat->answered()) {
            if (std::exchange(one.stuck, false)) say_made(Level::notice, [&] { return one.watched.name + " is running again"; });
            continue;
        }
        all = false;
        if (one.stuck) continue;
        one.stuck = true;
        tell_status();
        const double seconds = std::chrono::duration<double>(now - one.asked).count();
        char words[128];
        std::snprintf(words, sizeof words,
                      " is stuck: its loop has not run for %.1f s; the watchdog is not notified until it runs", seconds);
        say_made(Level::error, [&] { return one.watched.name + words; });
    }
    return all;
}

void Supervisor::tell_status() {
    with_memory([&] {
        std::string status;
        for (const Thread& one : threads_)
            if (one.stuck) status += one.watched.name + " is stuck, ";
        status += service_.status();
        if (status == told_) return;
        manager_.tell_status(status);
        told_ = std::move(status);
    });
}

}  // namespace farcached::process
