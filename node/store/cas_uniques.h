// SPDX-License-Identifier: BSD-3-Clause
// CasUniques: the cas uniques that a partition issues. Each is larger than all before, and no other partition issues it.
//
// Owner: an Items, under its partition's lock.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/broken.h"
#include "base/node_clock.h"
#include "node/items/stored_item.h"
#include "node/store/node.h"

namespace farcached::node {

class CasUniques {
  public:
    void attach(const Config& config, uint16_t number, uint32_t partition_count) {
        number_ = number;
        partition_count_ = partition_count;
        on_ = config.cas;
        by_clock_ = config.cas_by_clock;
        issued_ = config.cas_above / partition_count;
    }
    // Uniques are to outlive the process: the ceiling is in its notes.
    void keep(uint64_t* ceiling) {
        constexpr uint64_t step = UINT64_C(1) << 20;
        ceiling_.keep_in(ceiling, step, last());
    }
    // False (-C): items have none.
    bool on() const { return on_; }
    // In a fleet it is above the time of day. Until then another node may have been the first of the key, and may have issued
    // uniques that no copy had. Clocks of nodes differ by less than it takes to change the list, and no partition has more than a
    // million mutations a second, divided by the number of partitions, for long.
    uint64_t next() {
        if (!on_) return 0;
        if (by_clock_ && !broken::s20_forget_clock) issued_ = std::max(issued_, realtime_us() / partition_count_);
        issued_++;
        ceiling_.cover(last());
        return last();
    }
    // The item of another node has this one: later ones here are larger.
    void seen(uint64_t cas) {
        // A client may have chosen it. No run of a node begins so much later than another one.
        constexpr uint64_t ahead_max = UINT64_C(1) << 46;
        if (!on_ || cas > last() + ahead_max) return;
        issued_ = std::max(issued_, cas / partition_count_);
        ceiling_.cover(last());
    }

  private:
    uint64_t last() const { return issued_ * partition_count_ + number_; }

    uint16_t number_ = 0;  // of the partition
    uint32_t partition_count_ = 1;
    bool on_ = true;
    bool by_clock_ = false;
    uint64_t issued_ = 0;
    Ceiling ceiling_;
};

}  // namespace farcached::node
