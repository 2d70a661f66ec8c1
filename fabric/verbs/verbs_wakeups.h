// SPDX-License-Identifier: BSD-3-Clause
// VerbsWakeups: the descriptors that wake the owner of a connection over RDMA, in the poller of a VerbsChannel. They are
// events of the connection manager, completions, the heartbeat's timer, a timer for slots, and an eventfd.
//
// Owner and thread: those of a VerbsChannel. A poll of the descriptors costs more than the usual wake-up does, which a completion
// causes. So most wake-ups take the completion's event alone.
// W1  kick() makes the poller readable once: each write is an edge.
// W2  The timer for slots may expire too early, never too late.
#pragma once

#include <cstdint>

#include "fabric/socket.h"
#include "fabric/verbs/rpc_timing.h"
#include "fabric/verbs/verbs_completions.h"

namespace farcached::fabric {

class VerbsWakeups {
  public:
    // The poller outlives this. sleeps: false if the owner never waits for the poller (VerbsConfig).
    VerbsWakeups(int poller, bool sleeps);

    // The start of a connection: watches the connection manager's events. False: errno.
    bool begin(int events);
    // Once the connection is made: watches the completions, and starts the heartbeat. False: errno.
    bool begin_beats(int completions, uint32_t beat_ms);
    bool beats() const { return bool(beat_timer_); }

    void kick();
    // Wakes the owner at this time of boottime_ns(), too. Returns the call that failed, with errno; nullptr: none.
    const char* wake_at(uint64_t ns);

    // Once in each call of the owner: are the descriptors to be looked at?
    bool look_due() { return sleeps_ || ++sleepless_turns_ % sleepless_looks == 0; }
    // The work that other descriptors announce.
    struct Seen {
        bool events = false, beat = false;
    };
    // Takes the wake-up; completions are disarmed, if they caused it.
    Seen look(VerbsCompletions& completions) {
        // Other events keep the poller readable. Every unlooked_max-th call polls them all.
        if (completions.armed() && ++unlooked_ % unlooked_max != 0 && completions.take_event()) return {};
        return look_at_all(completions);
    }

  private:
    static constexpr uint32_t unlooked_max = 8;  // wake-ups by completions until the other descriptors are polled, too
    static constexpr uint32_t sleepless_looks = 1024;  // calls until descriptors are polled, if the owner never sleeps
    bool watch(int fd, uint32_t tag, uint32_t events);
    Seen look_at_all(VerbsCompletions& completions);

    const int poller_;
    const bool sleeps_;
    Descriptor kick_, beat_timer_, rpc_timer_;
    uint64_t rpc_timer_ns_ = never_ns;  // when rpc_timer_ expires
    uint32_t unlooked_ = 0, sleepless_turns_ = 0;
};

}  // namespace farcached::fabric
