// SPDX-License-Identifier: BSD-3-Clause
// SizeClasses: the slot sizes of pages, from -n and -f as in memcached. Each class is the growth factor larger than the one
// before; the last is a whole page. Larger items take runs of pages. Immutable; any thread.
#pragma once

#include <array>
#include <cstdint>

#include "protocol/layout.h"

namespace farcached::node {

class SizeClasses {
  public:
    // chunk_bytes_min: key and value of the smallest class; growth_factor > 1.
    SizeClasses(uint32_t chunk_bytes_min, double growth_factor);

    uint8_t count() const { return count_; }  // classes are 1 .. count()
    uint32_t slot_bytes(uint8_t size_class) const { return bytes_[size_class]; }
    uint32_t slots(uint8_t size_class) const { return slots_[size_class]; }  // per page
    // The smallest class that holds `bytes`; layout::large_class above a page.
    uint8_t of(uint64_t bytes) const {
        if (bytes > layout::page_bytes) return layout::large_class;
        return lookup_[(bytes + layout::stride_bytes - 1) / layout::stride_bytes];
    }

  private:
    uint8_t count_ = 0;
    std::array<uint32_t, 64> bytes_{};
    std::array<uint32_t, 64> slots_{};
    std::array<uint8_t, layout::page_bytes / layout::stride_bytes + 1> lookup_{};
};

}  // namespace farcached::node
