// SPDX-License-Identifier: BSD-3-Clause
// RingWaits: waits for single descriptors (daemon/engine/readiness.h) by polls of a ring. Only in builds with liburing.
//
// Owner: RingIo, of a worker's thread. A poll is armed at the beginning of a turn, and has one completion. Its name contains
// how many polls of its place were stopped, so that their late completions are recognized.
#pragma once

#ifdef FARCACHED_LIBURING

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "daemon/engine/readiness.h"
#include "daemon/session/ring.h"

namespace farcached::daemon {

class RingWaits {
  public:
    static constexpr unsigned kind_bits = 3;  // the low bits of a completion's name

    // ring: borrowed. The names of polls have `kind` in these bits; a cancellation's whole name is `cancelling`.
    RingWaits(Ring& ring, uint64_t kind, uint64_t cancelling) : ring_(ring), kind_(kind), cancelling_(cancelling) {}

    // Throws std::bad_alloc.
    std::unique_ptr<Readiness> make(std::function<void()> ready);
    void arm() {
        if (some_unarmed_) arm_all();
    }
    // A completion of a poll.
    void note(uint64_t name);
    bool any_ready() const { return some_ready_; }
    void tell();

  private:
    class Poll;
    struct Place {
        Poll* holder = nullptr;  // null: free
        uint32_t stops = 0;      // of armed polls
    };

    void arm_all();
    uint64_t name_of(size_t place) const;

    Ring& ring_;
    const uint64_t kind_, cancelling_;
    std::vector<Place> places_;
    bool some_unarmed_ = false, some_ready_ = false;
};

}  // namespace farcached::daemon

#endif
