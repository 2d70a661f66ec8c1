// SPDX-License-Identifier: BSD-3-Clause
// FollowedFence: the state of a node's rejoin fence, as one worker follows it from Fences::attend() to the next.
//
// Owner: LinkPeer. One thread, the worker's.
#pragma once

#include <cstdint>
#include <utility>

#include "daemon/remote/fence.h"

namespace farcached::daemon {

class FollowedFence {
  public:
    static constexpr uint64_t two_processes_ns = 100'000'000;  // until the log has it

    // True: the state has changed.
    bool follow(const Fences::Seen& seen) {
        takes_guests_ = seen.takes_guests;
        moves_ = (seen.deletes && !seen.lost) || seen.state == FenceState::moving;
        loses_moved_ = seen.deletes && seen.lost;
        is_elsewhere_ = seen.elsewhere;
        if (!seen.elsewhere) elsewhere_until_ns_ = 0;
        return std::exchange(state_, seen.state) != seen.state;
    }
    // The own link has come up, to a process that this worker has not shown to the others yet. Requests of keys wait until the next
    // follow(): at the end of this tick (Fences, F9). True: the state has changed.
    bool hold() {
        is_elsewhere_ = true;
        if (!is_used()) return false;
        state_ = FenceState::joining;
        return true;
    }
    FenceState state() const { return state_; }
    // Requests are sent there; while it is moving, some wait.
    bool is_used() const { return state_ == FenceState::in_use || state_ == FenceState::moving; }
    // Keys may be sent to it; while it is joining or moving, some requests wait there.
    bool takes_keys() const { return state_ != FenceState::leaving && state_ != FenceState::out; }
    bool is_out() const { return state_ == FenceState::out; }
    // Of diverted keys.
    bool takes_guests() const { return takes_guests_; }
    // It deletes items of keys that moved away, or waits for workers that have the set before (F7).
    bool moves() const { return moves_; }
    // It may have such items, and has no connection.
    bool loses_moved() const { return loses_moved_; }
    // The connection is to another process than home, or to one that is not shown yet (F9).
    bool is_elsewhere() const { return is_elsewhere_; }
    // True, once: it has been so for two_processes_ns.
    bool report_two_processes(uint64_t now_ns) {
        if (!is_elsewhere_ || now_ns < elsewhere_until_ns_) return false;
        return std::exchange(elsewhere_until_ns_, elsewhere_until_ns_ == 0 ? now_ns + two_processes_ns : UINT64_MAX) != 0;
    }

  private:
    FenceState state_ = FenceState::in_use;
    bool takes_guests_ = true;
    bool moves_ = false, loses_moved_ = false;
    bool is_elsewhere_ = false;
    uint64_t elsewhere_until_ns_ = 0;  // then it is reported; 0: it is not elsewhere; UINT64_MAX: it was reported
};

}  // namespace farcached::daemon
