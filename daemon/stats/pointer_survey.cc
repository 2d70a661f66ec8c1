// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/stats/pointer_survey.h"

#include <algorithm>

namespace farcached::daemon {

bool PointerSurvey::step(const proxy::PointerTable& table, uint64_t now_ns) {
    std::unique_lock held(lock_, std::try_to_lock);
    if (!held.owns_lock()) return false;  // another thread takes a step now
    if (complete_ns_ != 0 && now_ns < complete_ns_ + fresh_ns) return true;
    if (now_ns >= stepped_ns_ + fresh_ns || next_ == table.entries()) {
        counted_ = {};
        next_ = 0;
    }
    const uint64_t count = std::min(entries_per_step, table.entries() - next_);
    table.add_occupancy(next_, count, now_ns, counted_);
    next_ += count;
    stepped_ns_ = now_ns;
    if (next_ < table.entries()) return false;
    result_ = counted_;
    complete_ns_ = now_ns;
    return true;
}

proxy::PointerTable::Occupancy PointerSurvey::result() const {
    std::lock_guard held(lock_);
    return result_;
}

}  // namespace farcached::daemon
