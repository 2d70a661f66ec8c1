// SPDX-License-Identifier: BSD-3-Clause
// Supervisor: the thread that tells the service manager how the process does: when it is ready, what it does, and, for the
// watchdog, that every thread that serves still goes round its loop.
//
// V1  Where the service manager does not listen there is no thread.
// V2  The watchdog is fed only if each thread has answered (Pulse) since it was fed last. Who sleeps is woken for that.
// V3  A thread that does not answer is told of on stderr, by its name, once until it answers again, and is in the status.
//     The status is told first: stderr may be what the thread waits for.
// V4  A long reload by the main thread does not keep the watchdog hungry.
//
// Owner: main, from one thread: start() and stop() once each.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "process/pulse.h"
#include "process/service_manager.h"

namespace farcached::process {

// A thread with a loop.
struct Watched {
    std::string name;             // "worker 2"
    Pulse* pulse = nullptr;       // outlives the supervisor's run
    std::function<void()> wake;   // makes its loop go round; from any thread
};

class Supervisor {
  public:
    // What is told. Both are called by the supervisor's thread.
    struct Service {
        std::function<bool()> is_ready;         // does it serve, and has it tried what is behind it?
        std::function<std::string()> status;    // "3/4 nodes up, 120 clients"
    };
    // manager: outlives this.
    Supervisor(ServiceManager& manager, Service service);
    ~Supervisor();
    Supervisor(const Supervisor&) = delete;
    Supervisor& operator=(const Supervisor&) = delete;

    // Throws std::system_error when there can be no thread.
    void start(std::vector<Watched> watched);
    // Tells that the process stops, and looks at nothing any more.
    void stop();

  private:
    using Time = std::chrono::steady_clock::time_point;
    struct Thread {
        Watched watched;
        Time asked{};
        bool stuck = false;  // and told of
    };

    void run();
    bool wait_until(Time time);
    void look();
    bool all_answered(Time now);
    void tell_status();

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
