// SPDX-License-Identifier: BSD-3-Clause
#include "proxy/unseen.h"

#include <bit>

namespace farcached::proxy {

uint32_t UnseenAccesses::add(Set& set, const protocol::ItemAccess& item) {
    if (set.filled < ways) {
        set.items[set.filled++] = item;
        return 0;
    }
    protocol::ItemAccess& oldest = set.items[set.oldest];
    set.oldest = (set.oldest + 1) % ways;
    const uint32_t dropped = oldest.count;
    oldest = item;
    return dropped;
}

// Visits every item and forgets it.
template <class Visit>
void UnseenAccesses::take(Visit&& visit) {
    for (; touched_ != 0; touched_ &= touched_ - 1) {
        Set& set = sets_[uint32_t(std::countr_zero(touched_))];
        for (uint32_t i = 0; i < set.filled; i++) visit(set.items[i]);
        set.filled = set.oldest = 0;
    }
}

uint64_t UnseenAccesses::send(OutBuffer& out, uint32_t frame_bytes_max) {
    if (!any()) return 0;
    AccessFrames frames(out, frame_bytes_max);
    take([&](const protocol::ItemAccess& item) { frames.add(item); });
    frames.end();
    return frames.accesses();
}

uint64_t UnseenAccesses::drop_all() {
    uint64_t accesses = 0;
    take([&](const protocol::ItemAccess& item) { accesses += item.count; });
    return accesses;
}

}  // namespace farcached::proxy
