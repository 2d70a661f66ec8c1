// SPDX-License-Identifier: BSD-3-Clause
// HeldInput: the bytes that a FaultChannel has received, and its owner has not consumed. The owner sees them late and cut anywhere.
//
// Owner: a FaultChannel. Its thread.
//
// N1  The owner sees the bytes in their order, and a later show only extends the rest (ChannelEvents::received()).
// N2  It holds input_bytes_default at most. The inner channel keeps the others, and offers them again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "fabric/channel.h"
#include "fabric/fault_plan.h"

namespace farcached::fabric {

class HeldInput {
  public:
    // plan: outlives this.
    explicit HeldInput(const FaultPlan& plan) : plan_(plan), dice_(plan, plan.seed * 4 + 2) {}

    bool empty() const { return bytes_.empty(); }
    // Returns how many of the bytes it had room for.
    size_t take(std::string_view bytes) {
        const size_t taken = std::min(bytes.size(), input_bytes_default - bytes_.size());
        bytes_.append(bytes.substr(0, taken));
        refused_ = taken < bytes.size() || taken == 0;
        return taken;
    }
    // Perhaps bytes that arrive now are late.
    void delay() {
        if (show_at_ns_ == 0) show_at_ns_ = dice_.delay(plan_.delay_receive);
    }
    // The inner channel offers its bytes again.
    void offered_again() { refused_ = false; }
    // An owner that stopped consuming may want to go on.
    void show_again() { show_again_ = !bytes_.empty(); }
    // Shows what is there, or, unless `all`, perhaps a part. False: there is nothing, or it is late.
    bool show(ChannelEvents& events, bool all) {
        if (bytes_.empty() || show_at_ns_ > plan_.now()) return false;
        show_at_ns_ = 0;
        show_again_ = false;
        size_t size = bytes_.size();
        if (size > shown_ && !all && dice_.chance(plan_.split_receive)) size = shown_ + 1 + dice_.numbers()() % (size - shown_);
        const size_t consumed = events.received(std::string_view(bytes_).substr(0, size));
        CHECK(consumed <= size);
        bytes_.erase(0, consumed);
        shown_ = size - consumed;
        return true;
    }
    // Shows some of the bytes, for the last time: the connection drops.
    void show_some(ChannelEvents& events, FaultDice& drop_dice) {
        const size_t some = shown_ + drop_dice.numbers()() % (bytes_.size() - shown_ + 1);
        (void)events.received(std::string_view(bytes_).substr(0, some));
    }
    void clear() { bytes_.clear(); }
    // When show() or the inner channel's offer is due; UINT64_MAX: neither.
    uint64_t due_ns() const {
        if (refused_ && bytes_.size() < input_bytes_default) return 0;
        return show_again_ || bytes_.size() > shown_ ? show_at_ns_ : UINT64_MAX;
    }
    // When the bytes there may be shown.
    uint64_t show_at_ns() const { return show_at_ns_; }

  private:
    const FaultPlan& plan_;
    FaultDice dice_;
    std::string bytes_;
    size_t shown_ = 0;  // of bytes_
    uint64_t show_at_ns_ = 0;
    bool show_again_ = false;
    bool refused_ = false;  // the inner channel has more than there was room for
};

}  // namespace farcached::fabric
