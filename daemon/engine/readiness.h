// SPDX-License-Identifier: BSD-3-Clause
// Readiness: a worker's wait for a descriptor besides its clients' sockets: its wake-up, a connection to a node.
//
// Owner: the descriptor's owner; used by the worker's thread once the worker runs. Waits outlives it.
//
// A1  While the descriptor is awaited and ready, the callback runs once per turn. It runs in no other call.
// A2  The callback may await, stop, make and end any other Readiness, and await or stop its own.
// A3  Only make_readiness() allocates: awaiting cannot fail.
#pragma once

#include <functional>
#include <memory>

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

}  // namespace farcached::daemon
