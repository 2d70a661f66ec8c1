// SPDX-License-Identifier: BSD-3-Clause
// Receives a large value directly into the embedded node's memory, not into a buffer of the session.
//
//   need more --begin_pending()--> SessionState::pending --feed_pending()--> whole: the engine parses `head` again, and stores
#pragma once

#include <string_view>

#include "daemon/engine/engine.h"

namespace farcached::daemon {

// `head`, and the received part of the value and its terminator; the value has `value_bytes` bytes, the terminator
// `tail_bytes`. False, with no change: the value is too small, the node has no room for it, or the node is not in this process.
bool begin_pending(Context& context, SessionState& session, const protocol::Key& key, std::string_view head,
                   std::string_view here, uint32_t value_bytes, size_t tail_bytes);

// Takes the set's bytes from the front of `input`; returns their number.
size_t feed_pending(PendingSet& set, std::string_view input);

// True: value and terminator are complete.
bool is_whole(const PendingSet& set);

}  // namespace farcached::daemon
