// SPDX-License-Identifier: BSD-3-Clause
// Oustable: a connection that can be ended so that others get its seat or its bytes (node/seats.h, node/peer_budget.h).
#pragma once

#include "node/service_counters.h"

namespace farcached::node {

class Oustable {
  public:
    // Any thread, under the caller's lock: notes the reason and wakes the thread that owns the connection. That thread ends the
    // connection. The first reason counts.
    virtual void oust(ServiceEnd why) = 0;

  protected:
    ~Oustable() = default;
};

}  // namespace farcached::node
