// SPDX-License-Identifier: BSD-3-Clause
// RingIo: sockets by io_uring (daemon/session/socket_io.h), hidden behind these functions. A build without liburing has
// daemon/session/ring_absent.cc instead of daemon/session/ring_io.cc, and refuses.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "daemon/session/socket_io.h"
#include "daemon/stats/worker_counters.h"

namespace farcached::daemon {

// Tests io_uring on sockets of its own, once per process. Returns an empty string, or why there is no io_uring here, with the
// call and the system's reason.
std::string try_ring();

// All are borrowed. nullptr: `refusal` has the reason.
std::unique_ptr<SocketIo> make_ring_io(SocketEvents& events, TurnTimer& timer, WorkerCounters& counters, std::string& refusal);

// The version of liburing at build time; empty: built without.
std::string_view ring_library();

}  // namespace farcached::daemon
