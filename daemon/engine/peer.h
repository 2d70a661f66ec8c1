// SPDX-License-Identifier: BSD-3-Clause
// The words of the request path: what a request is called between a session and a peer, and how a submission ends.
#pragma once

#include <cstdint>

#include "proxy/ask.h"

namespace farcached::daemon {

// Of a request that waits for its answer: one use of one slot of a ReplyPool.
using proxy::Ticket;

enum class SubmitResult : uint8_t {
    now,      // the answer is there; the ticket is void
    later,    // the ticket will be answered
    crowded,  // as later; and this client submits nothing more until then: its node is behind
};

// The parts of an item that a get needs.
struct Wanted {
    bool value = true;
    bool plain = false;  // only value, client flags and cas, of an item without tokens: a one-sided read may answer
};

}  // namespace farcached::daemon
