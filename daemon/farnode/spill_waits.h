// SPDX-License-Identifier: BSD-3-Clause
// SpillWaits: the waits for the death of values on the peer: each ends by the reply to a delete, or at its time.
//
// Owner: a SpillLink (spill_link.h), in its thread.
//
// L1  Each wait ends once, and is reported to the store then.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "node/peer/peer_store.h"

namespace farcached::node {

class SpillWaits {
  public:
    struct Wait : PeerStore::Wait {
        bool over = false;
    };

    // Takes all waits of `from`. Throws std::bad_alloc; the rest stays in `from`.
    void take(std::deque<PeerStore::Wait>& from);
    // The delete that ends the wait was answered.
    static void end(Wait& wait);
    // Ends each wait at its time.
    void end_due(uint64_t now_ns);
    // When the next one ends; UINT64_MAX: none.
    uint64_t next_due_ns() const;
    // The waits without a request for their delete. The link removes each one that it requests.
    std::deque<std::shared_ptr<Wait>>& unasked() { return unasked_; }

  private:
    std::vector<std::shared_ptr<Wait>> waits_;   // all that are not over
    std::deque<std::shared_ptr<Wait>> unasked_;  // of these
};

}  // namespace farcached::node
