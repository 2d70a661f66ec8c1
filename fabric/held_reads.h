// SPDX-License-Identifier: BSD-3-Clause
// HeldReads: the one-sided reads of a FaultChannel. They complete late, in any order, torn, or not at all.
//
// Owner: a FaultChannel. Its thread.
//
// H1  A posted read is held until take_due() returns it, once. That is after its delay, and after the inner channel has completed
//     it. A read of a mapped region is not posted to the inner channel: it is copied here (FaultChannel, F3).
// H2  Of two that are due together, the one with the earlier time comes first, then the one with the lower rank (F4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "fabric/channel.h"
#include "fabric/fault_plan.h"

namespace farcached::fabric {

struct HeldRead {
    ReadRequest request;
    uint64_t due_ns = 0;
    bool arrived = false;  // only its delay remains
    ReadStatus status = ReadStatus::done;
    uint64_t rank = 0;
    uint32_t unit_bytes = 0;      // of a line, or of a word
    std::vector<uint32_t> units;  // copied when it is due

    // Copies what is not left until it is due; a torn one leaves some. False: the region is of another incarnation.
    bool begin(const RegionView& view, bool torn, std::mt19937_64& numbers);
    // Copies the rest. Fills the landing buffer of a failed read with garbage. inner: as at HeldReads::post().
    ReadStatus complete(const Channel& inner) const;

  private:
    void copy(const RegionView& view, const std::vector<uint32_t>& which) const;
};

class HeldReads {
  public:
    // plan: outlives this.
    explicit HeldReads(const FaultPlan& plan) : plan_(plan), dice_(plan, plan.seed * 4 + 0) {}

    bool full() const;
    // Unless full(). False: the inner channel takes no read now.
    bool post(const ReadRequest& request, Channel& inner);
    // The inner channel has completed a read. False: none is held for it.
    bool arrive(uint64_t token, ReadStatus status);
    // The next one that is due at this time.
    std::optional<HeldRead> take_due(uint64_t now_ns);
    // When the next one is; UINT64_MAX: none has arrived.
    uint64_t due_ns() const;

  private:
    const FaultPlan& plan_;
    FaultDice dice_;
    uint64_t posted_ = 0;
    std::vector<HeldRead> reads_;
};

}  // namespace farcached::fabric
