// SPDX-License-Identifier: BSD-3-Clause
// RingIo: sockets by io_uring (daemon/socket_io.h), as far as these functions show it. A build without liburing has
// daemon/ring_absent.cc in the place of daemon/ring_io.cc, and refuses.
#pragma once

#include <event2/event.h>

#include <memory>
#include <string>
#include <string_view>

#include "daemon/socket_io.h"
#include "daemon/worker_counters.h"

namespace farcached::daemon {

// Tries all that is needed on sockets of its own, once for the process: empty, or why there is no io_uring here, in words that
// name the call and the system's reason.
std::string try_ring();

// All are borrowed. loop_fd: a descriptor that `base` waits for. nullptr: `refusal` says why.
std::unique_ptr<SocketIo> make_ring_io(event_base* base, int loop_fd, SocketEvents& events, WorkerCounters& counters,
                                       std::string& refusal);

// liburing's, as it was built with; empty: without.
std::string_view ring_library();

}  // namespace farcached::daemon
