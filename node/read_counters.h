// SPDX-License-Identifier: BSD-3-Clause
// ReadCounters: so often each item was read by proxies that had no need to ask (protocol/layout.h). They add, by remote
// atomics; the node looks, and remembers what it has seen.
//
// R1  The node never writes a counter: another device's atomics are not atomic with this one's stores (S6). A slot that
//     is used again keeps its counter, and what that showed then counts as seen. What comes late miscounts by one.
// R2  What was seen of an item is touched under the lock of its page's owner.
// R3  Each item has a counter that is no other's (layout::counter_of()). Nothing in them can be trusted (S10): they say
//     what is evicted, and nothing else.
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
    // Of an arena of so many pages. Throws std::system_error.
    ReadCounters(uint64_t pages, uint64_t* arena)
        : counters_(Mapping::Kind::private_memory, count(pages) * layout::counter_bytes, false),
          seen_(Mapping::Kind::private_memory, count(pages) * sizeof(uint32_t), false),
          words_(broken::s6_count_in_items ? arena : reinterpret_cast<uint64_t*>(counters_.data())),
          bytes_(broken::s6_count_in_items ? pages * layout::page_bytes : counters_.size()) {}

    // For others to add to.
    uint64_t* words() const { return words_; }
    size_t bytes() const { return bytes_; }

    // How often the item at an offset in the arena was read since this was asked, or forget() called, for it last.
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
        return layout::counter_of(pages * layout::page_bytes) + 1;  // none behind the last page
    }

    Mapping counters_;
    Mapping seen_;  // of each counter, the low half of what it showed
    uint64_t* words_;
    size_t bytes_;
};

}  // namespace farcached::node
