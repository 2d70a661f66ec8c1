// SPDX-License-Identifier: BSD-3-Clause
// Access: reads of a live slot that its node did not execute. A reader notes them, and the node counts them (Node::record()).
// A plain value; any thread.
#pragma once

#include <cstdint>

namespace farcached::fabric {

// They count for the slot's key in any generation; `mg h l` shows only reads of the current one.
struct Access {
    uint64_t slot_word;           // layout::Slot: location
    uint64_t guard_word;          // layout::Guard as read; 0: only its generation_tag is known
    uint64_t hash;                // of the key
    uint32_t times;
    uint16_t generation_tag = 0;  // layout::generation_tag() of the guard; only used if guard_word is 0
};

}  // namespace farcached::fabric
