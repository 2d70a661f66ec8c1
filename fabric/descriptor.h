// SPDX-License-Identifier: BSD-3-Clause
// Descriptor: an open file that is closed with its owner; and the descriptors that listeners and channels make. Any thread.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>

#include "base/result.h"

namespace farcached::fabric {

struct SocketAddress;

class Descriptor {
  public:
    Descriptor() = default;
    explicit Descriptor(int fd) : fd_(fd) {}
    Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        if (this != &other) reset(std::exchange(other.fd_, -1));
        return *this;
    }
    ~Descriptor() { reset(); }

    int get() const { return fd_; }  // -1: none
    explicit operator bool() const { return fd_ >= 0; }
    int release() { return std::exchange(fd_, -1); }  // the caller's from now on
    void reset(int fd = -1) {
        if (fd_ >= 0) ::close(fd_);
        fd_ = fd;
    }

  private:
    int fd_ = -1;
};

// A descriptor to hold in reserve; none if the process has no free descriptor.
Descriptor reserve_descriptor();

// The next connection, non-blocking and closed on exec; none: no connection waits, or accept4() failed. Out of descriptors,
// it accepts and closes connections: a listening socket stays readable until its queue is empty. It reopens `reserve` as
// needed, and adds to turned_away the connections that it closed.
Descriptor accept_one(int listener, Descriptor& reserve, SocketAddress* from, uint64_t& turned_away);

// An epoll descriptor that watches `fd` for `events` (EPOLLIN, ...); none: errno says why.
Descriptor poller_of(int fd, unsigned events);

// Of a channel without a descriptor, for the cause in errno.
Problem no_descriptor(const std::string& channel_name);

}  // namespace farcached::fabric
