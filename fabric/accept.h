// SPDX-License-Identifier: BSD-3-Clause
// Accepts connections. Out of descriptors, it accepts and closes them: a listening socket stays readable until its
// queue is empty.
#pragma once

#include <cstdint>

#include "fabric/descriptor.h"
#include "fabric/socket_address.h"

namespace farcached::fabric {

// A descriptor to hold in reserve; none if the process has no free descriptor.
Descriptor reserve_descriptor();

// The next connection, non-blocking and closed on exec; none: no connection waits, or accept4() failed. Reopens
// `reserve` as needed. Adds to turned_away the connections that it closed.
Descriptor accept_one(int listener, Descriptor& reserve, SocketAddress* from, uint64_t& turned_away);

// An epoll descriptor that watches `fd` for `events` (EPOLLIN, ...); none: errno says why.
Descriptor poller_of(int fd, unsigned events);

}  // namespace farcached::fabric
