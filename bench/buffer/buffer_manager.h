// SPDX-License-Identifier: BSD-3-Clause
// BufferManager: a buffer manager over two tiers, after "One Buffer Manager to Rule Them All". A page that is fixed has a frame in
// this process. The tiers keep all pages, and write those that do not fit into memory to their files.
//
// Owner: one thread. The tiers outlive it.
// B1  The first half of each segment's pages is at home, the second half is at the remote node.
// B2  Both tiers find a page by its segment and number. So the manager has nothing to keep over a restart.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "bench/buffer/tiers.h"

namespace farcached::bench {

struct PageId {
    static constexpr uint32_t segments = 5, numbers = 60;  // the paper's
    uint32_t segment, number;

    uint32_t place() const { return segment * numbers + number; }
    bool at_home() const { return number < numbers / 2; }
};

class BufferManager {
  public:
    BufferManager(Tier& home, Tier& remote) : home_(home), remote_(remote) {}

    struct Frame {
        From from = From::nowhere;  // nowhere: the page is new, and all zeros
        std::string bytes;
    };
    // The page's bytes, until unfix().
    Frame& fix(PageId page);
    // dirty: the bytes have changed.
    void unfix(PageId page, bool dirty);

  private:
    Tier& tier_of(PageId page) { return page.at_home() ? home_ : remote_; }

    Tier& home_;
    Tier& remote_;
    std::unordered_map<uint32_t, Frame> fixed_;  // by PageId::place()
};

}  // namespace farcached::bench
