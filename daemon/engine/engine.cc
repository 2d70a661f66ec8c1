// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/engine.h"

#include "daemon/engine/session_memory.h"

namespace farcached::daemon {

bool Context::has_room(size_t bytes) const {
    if (memory == nullptr || memory->has_room(bytes)) return true;
    return room != nullptr && room->make_room(bytes, Lack::buffer);
}

}  // namespace farcached::daemon
