// SPDX-License-Identifier: BSD-3-Clause
// Readiness: a worker's wait for a descriptor besides its clients' sockets: its wake-up, a connection to a node.
// AwaitedDescriptor: the same, of a descriptor that comes, changes between reading and writing, and goes.
//
// Owner: the descriptor's owner; used by the worker's thread once the worker runs. Waits outlives it.
//
// A1  While the descriptor is awaited and ready, the callback runs once per tick. It runs in no other call.
// A2  The callback may await, stop, make and end any other Readiness, and await or stop its own.
// A3  Only make_readiness() allocates: awaiting cannot fail.
// A4  AwaitedDescriptor awaits one descriptor at a time, always for reading.
#pragma once

#include <functional>
#include <memory>
#include <utility>

namespace farcached::daemon {

class Readiness {
  public:
    virtual ~Readiness() = default;
    // Until it is readable, or, with `writable`, either; also until an error. Ends an earlier await().
    virtual void await(int fd, bool writable) = 0;
    // Before the descriptor is closed.
    virtual void stop() = 0;
};

class Waits {
  public:
    virtual ~Waits() = default;
    // Throws std::bad_alloc.
    virtual std::unique_ptr<Readiness> make_readiness(std::function<void()> ready) = 0;
};

class AwaitedDescriptor {
  public:
    // Throws std::bad_alloc.
    AwaitedDescriptor(Waits& waits, std::function<void()> ready) : readiness_(waits.make_readiness(std::move(ready))) {}

    // Awaits it for reading until unwatch(), which precedes its closing.
    void watch(int fd) {
        fd_ = fd;
        writes_ = false;
        readiness_->await(fd, /* writable= */ false);
    }
    void unwatch() {
        readiness_->stop();
        fd_ = -1;
    }
    // Also for writing, or no longer. Without a descriptor it does nothing.
    void want_write(bool wants) {
        if (fd_ < 0 || writes_ == wants) return;
        writes_ = wants;
        readiness_->await(fd_, wants);
    }

  private:
    const std::unique_ptr<Readiness> readiness_;
    int fd_ = -1;  // -1: none
    bool writes_ = false;
};

}  // namespace farcached::daemon
