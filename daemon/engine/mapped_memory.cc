// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/mapped_memory.h"

#include "base/broken.h"

namespace farcached::daemon {

// Judged by a clock reading from after the copy.
bool MappedMemory::has_right() const {
    if (!link_.clock().right_ends() || broken::s17_skip_later_look || link_.clock().may_read(boottime_ns())) return true;
    link_.count_right_over();
    return false;
}

bool MappedMemory::note_access(uint64_t hash, const fabric::Found& found) const {
    const uint64_t arena_offset = uint64_t(reinterpret_cast<const char*>(mapped_->arena) - mapped_->base);
    return link_.note_access(hash, found.guard.generation(), arena_offset + found.slot.offset(), 0);
}

}  // namespace farcached::daemon
