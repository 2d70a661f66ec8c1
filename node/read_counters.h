// SPDX-License-Identifier: BSD-3-Clause
// ReadCounters: counts of one-sided reads of each item (protocol/layout.h). Proxies add by remote atomics; the node reads the
// counters and remembers the last value. Owner: an Arena.
//
// R1  The node never writes a counter: another device's atomics are not atomic with its stores (S6). A reused slot keeps its
//     counter, and the old value counts as seen. An increment that arrives late miscounts by one.
// R2  The last value of an item is accessed under the lock of its page's owner.
// R3  Each item has its own counter (layout::counter_of()). The values are untrusted (S10): they influence eviction only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/broken.h"
#include "base/mapping.h"
#include "protocol/layout.h"
#include "protocol/words.h"

namespace farcached::node {

class ReadCounters {
  public:
    static constexpr uint64_t seen_bytes = sizeof(uint32_t);  // beside each counter
    // For an arena of that many pages. Throws std::system_error.
    ReadCounters(uint64_t pages, uint64_t* arena)
        : counters_(Mapping::Kind::private_memory, count(pages) * layout::counter_bytes, false),
          seen_(Mapping::Kind::private_memory, count(pages) * seen_bytes, false),
          words_(broken::s6_count_in_items ? arena : reinterpret_cast<uint64_t*>(counters_.data())),
          bytes_(broken::s6_count_in_items ? pages * layout::page_bytes : counters_.size()) {}

    // The registered counters.
    uint64_t* words() const { return words_; }
    size_t bytes() const { return bytes_; }

    // Reads of the item at that arena offset since the last take() or forget() for it.
    uint32_t take(uint64_t arena_offset) {
        const uint64_t number = layout::counter_of(arena_offset);
        const uint32_t now = uint32_t(words::load_relaxed(words() + number));
        uint32_t& seen = reinterpret_cast<uint32_t*>(seen_.data())[number];
        const uint32_t reads = now - seen;
        seen = now;
        return reads;
    }
    void forget(uint64_t arena_offset) { (void)take(arena_offset); }

  private:
    static uint64_t count(uint64_t pages) {
        return layout::counter_of(pages * layout::page_bytes) + 1;  // none beyond the last page
    }

    Mapping counters_;
    Mapping seen_;  // for each counter, the low 32 bits of its last value
    uint64_t* words_;
    size_t bytes_;
};

}  // namespace farcached::node
