// SPDX-License-Identifier: BSD-3-Clause
// HandshakeThread: computes steps of TLS handshakes that take long (TlsSession::begin_step()), so that a worker serves its other
// clients meanwhile. The system prefers every other thread of the process to it.
//
// Owner: a worker's TlsLayer, whose thread calls all but start(). Its own thread computes.
// H1  From begin() to take() or cancel() a step belongs to this thread; the worker uses the rest of the TlsSession (T5). The end of
//     a session does not wait for its step: of one that is being computed the thread keeps the TlsSession, and take() returns it.
// H2  The worker cancels the step of a session that ends, or whose buffers it frees. That has no effect on a step that has begun.
// H3  Steps are computed in the order of begin(). Each open session has one at most. So the limit of connections bounds the queue,
//     beside one step that is being computed.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace farcached::daemon {

class TlsSession;

class HandshakeThread {
  public:
    using Steps = std::list<std::shared_ptr<TlsSession>>;

    // wake: the worker is to call take(). Any thread may call it, until stop().
    HandshakeThread(std::string name, std::function<void()> wake) : name_(std::move(name)), wake_(std::move(wake)) {}
    ~HandshakeThread() { stop(); }
    HandshakeThread(const HandshakeThread&) = delete;
    HandshakeThread& operator=(const HandshakeThread&) = delete;

    // Returns once the thread has made its start-up system calls. Throws std::system_error if the thread cannot start.
    void start();
    // Steps that were not computed never will be.
    void stop() noexcept;

    void begin(Steps&& one) noexcept;
    // Those that were computed.
    Steps take() noexcept;
    // Takes back a step that waits. Empty: there is none, or this thread has begun it.
    Steps cancel(TlsSession& session) noexcept;

  private:
    void run();

    const std::string name_;
    const std::function<void()> wake_;
    std::mutex lock_;
    std::condition_variable changed_;
    Steps waiting_, done_;  // this and the next under lock_
    bool started_ = false, stopping_ = false;
    std::thread thread_;
};

}  // namespace farcached::daemon
