// SPDX-License-Identifier: BSD-3-Clause
// VerbsCompletions: the completion queue of one queue pair, for both of its directions, and the descriptor that a completion makes
// readable. A VerbsQueue interprets the completions.
//
// Owner and thread: those of a VerbsQueue, which destroys it after the queue pair.
// N1  One arming causes one event, at the next completion: fd() is readable from then until take_event(). After arming, the owner
//     polls once more before it sleeps, since a completion that came before causes no event.
// N2  armed() holds from arm() until the owner takes the event, or disarms.
#pragma once

#include <array>
#include <cstdint>

#include "base/result.h"
#include "fabric/verbs/verbs_device.h"

namespace farcached::fabric {

class VerbsCompletions {
  public:
    // For so many work requests in all.
    Refusal make(const VerbsDevice& device, uint32_t entries);

    ibv_cq* get() const { return queue_.get(); }
    int fd() const { return channel_->fd; }
    // Takes each completion. False: polling failed, and errno may have the cause.
    template <class Take>
    bool poll(Take&& take) {
        std::array<ibv_wc, at_once> completions;
        for (;;) {
            const int count = ibv_poll_cq(queue_.get(), at_once, completions.data());
            if (count < 0) return false;
            for (int i = 0; i < count; i++) take(completions[size_t(i)]);
            if (count < at_once) return true;
        }
    }

    bool armed() const { return armed_; }
    // No-op while armed. Returns an errno.
    int arm();
    // False: there is no event.
    bool take_event();
    // Takes the event, if there is one: a removed device has none.
    void disarm();

  private:
    static constexpr int at_once = 32;

    // In this order: the last is destroyed first.
    CompletionChannel channel_;
    CompletionQueue queue_;
    bool armed_ = false;
};

}  // namespace farcached::fabric
