// SPDX-License-Identifier: BSD-3-Clause
// Replaces daemon/session/ring_io.cc in builds without liburing.
#include "daemon/session/ring_io.h"

namespace farcached::daemon {

std::string try_ring() { return "this farcached was built without liburing"; }

std::unique_ptr<SocketIo> make_ring_io(SocketEvents&, TurnTimer&, WorkerCounters&, std::string& refusal) {
    refusal = try_ring();
    return nullptr;
}

std::string_view ring_library() { return {}; }

}  // namespace farcached::daemon
