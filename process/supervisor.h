// SPDX-License-Identifier: BSD-3-Clause
// Supervisor: the thread that reports to the service manager: readiness, status, and for the watchdog that every
// serving thread still runs its loop. When the daemon is ready, it logs one line with version and addresses.
//
// V1  Without a service manager the thread only logs the start line, and ends. If the log omits that line, no thread starts.
// V2  The watchdog is fed only if each thread has answered (Heartbeat) since the last feeding. Sleeping threads are woken
//     for that.
// V3  A thread that does not answer is logged by name, once until it answers again, and is in the status. The status is
//     sent first: the thread may be waiting for stderr.
// V4  A long reload by the main thread does not stop the feeding of the watchdog.
//
// Owner: main, from one thread: start() and stop() once each.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "process/service_manager.h"

namespace farcached::process {

// Heartbeat: a liveness check of a thread's event loop. The watching thread asks and wakes the loop; the loop answers where it
// handles wakeups, so that an answer proves that it runs. Serving clients costs nothing extra.
// Owner: the watched loop; ask() and answered() run in the watching thread, answer() in the loop's.
class Heartbeat {
  public:
    // For the watching thread.
    void ask() { asked_.store(asked_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
    bool answered() const { return shown_.load(std::memory_order_relaxed) == asked_.load(std::memory_order_relaxed); }

    // For the loop's thread.
    void answer() { shown_.store(asked_.load(std::memory_order_relaxed), std::memory_order_relaxed); }

  private:
    std::atomic<uint64_t> asked_{0}, shown_{0};
};

// A thread with an event loop.
struct Watched {
    std::string name;             // "worker 2"
    Heartbeat* heartbeat = nullptr;  // outlives the supervisor's run
    std::function<void()> wake;   // wakes its loop; from any thread
};

// LoopWaker: wakes an event loop from any thread, and answers its heartbeat there.
// Owner: the loop, which waits for fd(), and calls take() when it is readable.
class LoopWaker {
  public:
    LoopWaker();  // throws std::system_error
    ~LoopWaker();
    LoopWaker(const LoopWaker&) = delete;
    LoopWaker& operator=(const LoopWaker&) = delete;

    int fd() const { return fd_; }
    void wake();
    // What wake() announced is seen after this.
    void take();
    Watched watched(std::string name) {
        return {std::move(name), &heartbeat_, [this] { wake(); }};
    }

  private:
    const int fd_;
    Heartbeat heartbeat_;
};

class Supervisor {
  public:
    // The reported state. The supervisor's thread calls these.
    struct Service {
        std::function<bool()> is_ready;         // does it serve, and has it tried its nodes?
        std::function<std::string()> status;    // "3/4 nodes up, 120 clients"
        std::function<std::string()> started;   // the start line
    };
    // manager: outlives this.
    Supervisor(ServiceManager& manager, Service service);
    ~Supervisor();
    Supervisor(const Supervisor&) = delete;
    Supervisor& operator=(const Supervisor&) = delete;

    // Throws std::system_error if the thread cannot start.
    void start(std::vector<Watched> watched);
    // Sends that the process stops, and ends the supervision.
    void stop();

  private:
    using Time = std::chrono::steady_clock::time_point;
    struct Thread {
        Watched watched;
        Time asked{};
        bool stuck = false;  // and logged
    };

    void run();
    bool wait_until(Time time);
    void look();
    bool all_answered(Time now);
    void tell_status();
    template <class Tell>
    void with_memory(Tell&& tell) noexcept;

    ServiceManager& manager_;
    const Service service_;
    const std::chrono::microseconds period_;
    std::vector<Thread> threads_;
    std::string told_;
    std::thread thread_;

    std::mutex lock_;
    std::condition_variable stop_;
    bool stopping_ = false;  // under lock_
};

}  // namespace farcached::process
