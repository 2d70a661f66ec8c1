// SPDX-License-Identifier: BSD-3-Clause
// Accepting connections, and what to do when there are no descriptors for them: a listening socket
// stays readable until its connections are taken, so they are taken and closed.
#pragma once

#include <cstdint>

#include "fabric/descriptor.h"
#include "fabric/socket_address.h"

namespace farcached::fabric {

// A descriptor to hold in reserve; none if there is none to be had.
Descriptor reserve_descriptor();

// The next connection, non-blocking and closed on exec; none: nobody waits. `reserve` is renewed as
// needed. turned_away: how many were, is added to.
Descriptor accept_one(int listener, Descriptor& reserve, SocketAddress* from, uint64_t& turned_away);

// An epoll descriptor that watches `fd` for `events` (EPOLLIN, ...); none: errno says why.
Descriptor poller_of(int fd, unsigned events);

}  // namespace farcached::fabric
