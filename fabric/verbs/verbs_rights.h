// SPDX-License-Identifier: BSD-3-Clause
// The memory of an end that the other end may use: a node's names it in its welcome, before the connection is made. An end that
// withholds (fabric/channel.h, S16) makes and names it in VerbsChannel::grant() only. Owner and thread: those of a VerbsQueue.
#pragma once

#include "base/result.h"
#include "fabric/verbs/verbs_channel.h"
#include "fabric/verbs/verbs_greeting.h"
#include "fabric/verbs/verbs_queue.h"

namespace farcached::fabric {

// Gives a node's connection its container, its slots, and its part of the offer. layout_fits: the proxy may READ the region.
// Rights are given by VerbsQueue::allow(). The landing memory is not among it.
Result<VerbsNames> name_offer(VerbsQueue& queue, const VerbsOffer& offer, bool layout_fits);

}  // namespace farcached::fabric
