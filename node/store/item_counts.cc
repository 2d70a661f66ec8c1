// SPDX-License-Identifier: BSD-3-Clause
#include "node/store/item_counts.h"

#include <algorithm>

namespace farcached::node {

// An item of that format is in the slot, or leaves it.
void ItemCounts::count_kind(Ref ref, uint16_t format, bool gone) {
    const uint64_t bytes = gone ? -arena_->capacity(ref) : arena_->capacity(ref);
    if ((format & layout::format_stub) != 0) stub_bytes_[size_class_of(*arena_, ref)] += bytes;
    if ((format & layout::format_spilled) != 0) foreign_bytes_ += bytes;
}

void ItemCounts::overwritten(Ref ref, const NewItem& item) {
    const uint64_t more = item.bytes() - bytes_of(*arena_, ref);  // modulo 2^64
    count_kind(ref, arena_->header(ref).format, /* gone= */ true);
    count_kind(ref, item.format, /* gone= */ false);
    tally(ref).requested += more;
    bytes_ += more;
    if (item.counts_as_new) items_total_++;
}

void ItemCounts::gone(Ref ref, Gone why, bool stays, NodeSeconds now) {
    const uint64_t bytes = bytes_of(*arena_, ref);
    count_kind(ref, arena_->header(ref).format, /* gone= */ true);
    items_--;
    bytes_ -= bytes;
    Tally& mine = tally(ref);
    mine.requested -= bytes;
    const Descriptor& item = arena_->descriptor(ref);
    ReadCounters* counters = arena_->read_counters();
    const bool unseen = counters != nullptr && counters->take(arena_->offset(ref)) != 0;
    const bool fetched = unseen || (item.flags & item_fetched) != 0;
    if (why == Gone::crawled) mine.crawler_reclaimed++;
    if (why == Gone::reclaimed || why == Gone::crawled)
        if (!fetched) mine.expired_unfetched++;
    if (why != Gone::evicted) return;
    mine.evicted++;
    evictions_++;
    mine.evicted_age_s = seconds_since(item.last_access, now);
    if (item.exptime != never_expires) mine.evicted_nonzero++;
    if (!fetched) mine.evicted_unfetched++;
    if (stays) mine.evicted_active++;
}

void ItemCounts::add_stats(Stats& sum) const {
    sum.items += items_;
    sum.items_total += items_total_;
    sum.bytes += bytes_;
    sum.overflow_evictions += overflow_evictions_;
    sum.tiers.foreign_bytes += foreign_bytes_;
    for (uint8_t i = 1; i < class_numbers; i++) {
        ClassStats& of_class = sum.classes[i];
        const Tally& mine = tally_[i];
        of_class.bytes_requested += mine.requested;
        of_class.evicted += mine.evicted;
        of_class.evicted_nonzero += mine.evicted_nonzero;
        of_class.evicted_unfetched += mine.evicted_unfetched;
        of_class.evicted_active += mine.evicted_active;
        of_class.evicted_age_s = std::max(of_class.evicted_age_s, mine.evicted_age_s);
        of_class.out_of_memory += mine.out_of_memory;
        of_class.reclaimed += mine.reclaimed;
        of_class.expired_unfetched += mine.expired_unfetched;
        of_class.crawler_reclaimed += mine.crawler_reclaimed;
        of_class.crawler_checked += mine.crawler_checked;
    }
}

}  // namespace farcached::node
