// SPDX-License-Identifier: BSD-3-Clause
#include "node/leased_pages.h"

#include <algorithm>
#include <new>

#include "base/check.h"

namespace farcached::node {

bool LeasedPages::can_add() noexcept {
    if (pages_.size() < pages_.capacity()) return true;
    try {
        pages_.reserve(std::max<size_t>(compact_at_min, 2 * pages_.size()));
        return true;
    } catch (const std::bad_alloc&) {
        return false;
    }
}

void LeasedPages::add(uint64_t number_of_page, uint32_t lease_end, NodeSeconds now) {
    Page& page = arena_->page(number_of_page);
    page.lease_end = std::max(page.lease_end, lease_end);
    if (page.listed != 0) return;
    if (pages_.size() >= compact_at_) compact(now);
    page.listed = 1;
    listed_[page.size_class]++;
    CHECK(pages_.size() < pages_.capacity());
    pages_.push_back(uint32_t(number_of_page));
}

void LeasedPages::compact(NodeSeconds now) {
    // A page that left and returned is listed twice.
    std::sort(pages_.begin(), pages_.end());
    pages_.erase(std::unique(pages_.begin(), pages_.end()), pages_.end());
    std::erase_if(pages_, [&](uint32_t other) {
        if (arena_->owner_hint(other) != partition_) return true;
        if (leases_run_in(other, now)) return false;
        remove(other);
        return true;
    });
    compact_at_ = std::max<size_t>(compact_at_min, 2 * pages_.size());
}

void LeasedPages::remove(uint64_t number_of_page) {
    Page& page = arena_->page(number_of_page);
    if (page.listed == 0) return;
    page.listed = 0;
    uint64_t& listed = listed_[page.size_class];
    CHECK(listed > 0);
    listed--;
}

void LeasedBytes::add(uint32_t lease_end, uint64_t capacity, uint64_t filled) {
    Ending& in = ending_[lease_end % lease_seconds_max];
    if (in.second != lease_end) in = {lease_end, 0, 0};
    in.bytes += capacity;
    in.filled += filled;
}

void LeasedBytes::remove(uint32_t lease_end, uint64_t capacity, uint64_t filled) {
    Ending& in = ending_[lease_end % lease_seconds_max];
    if (in.second != lease_end) return;
    CHECK(in.bytes >= capacity);
    CHECK(in.filled >= filled);
    in.bytes -= capacity;
    in.filled -= filled;
}

uint64_t LeasedBytes::sum(NodeSeconds now) const {
    uint64_t bytes = 0;
    for (const Ending& in : ending_)
        if (in.second >= now) bytes += in.bytes;
    return bytes;
}

void LeasedBytes::add_stats(LeaseStats& stats, NodeSeconds now) const {
    for (const Ending& in : ending_) {
        if (in.second < now) continue;
        stats.bytes += in.bytes;
        stats.slack_bytes += in.bytes - in.filled;
    }
}

}  // namespace farcached::node
