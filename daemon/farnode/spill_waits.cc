// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/farnode/spill_waits.h"

#include <algorithm>
#include <new>
#include <utility>

namespace farcached::node {

void SpillWaits::take(std::deque<PeerStore::Wait>& from) {
    for (; !from.empty(); from.pop_front()) {
        const auto wait = std::make_shared<Wait>(Wait{from.front()});
        unasked_.push_back(wait);
        try {
            waits_.push_back(wait);
        } catch (const std::bad_alloc&) {
            unasked_.pop_back();
            throw;
        }
    }
}

void SpillWaits::end(Wait& wait) {
    if (!std::exchange(wait.over, true)) PeerStore::ended(wait);
}

void SpillWaits::end_due(uint64_t now_ns) {
    std::erase_if(waits_, [&](const auto& wait) {
        if (wait->until_ns <= now_ns) end(*wait);
        return wait->over;
    });
}

uint64_t SpillWaits::next_due_ns() const {
    uint64_t due_ns = UINT64_MAX;
    for (const auto& wait : waits_)
        if (!wait->over) due_ns = std::min(due_ns, wait->until_ns);
    return due_ns;
}

}  // namespace farcached::node
