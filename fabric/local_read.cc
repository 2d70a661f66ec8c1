// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/local_read.h"

#include <bit>
#include <iterator>

namespace farcached::fabric {

namespace {

const layout::Bucket* first_bucket(const RegionView& view, uint64_t hash) {
    const uint32_t number = layout::partition_of(hash, view.partition_count_log2);
    const IndexShape& shape = view.shapes[number];
    const uint32_t count = detail::bucket_count(view.partitions[number], shape);
    return detail::bucket_at(view, shape.buckets_offset, layout::bucket_of(hash, count));
}

}  // namespace

void prefetch_bucket(const RegionView& view, uint64_t hash) {
    prefetch(first_bucket(view, hash));
}

// Prefetches every item whose tag matches, and its owner's record; call it when the bucket is likely in cache.
void prefetch_item(const RegionView& view, uint64_t hash) {
    const uint32_t tag = layout::tag_of(hash);
    const layout::Bucket& bucket = *first_bucket(view, hash);
    // One branch for the bucket instead of one per slot: the matching slot is unpredictable.
    uint32_t matching = 0;
    for (uint32_t i = 0; i < std::size(bucket.slots); i++) {
        const layout::Slot slot{words::load_relaxed(&bucket.slots[i])};
        matching |= (uint32_t(!slot.empty()) & uint32_t(slot.tag() == tag)) << i;
    }
    for (; matching != 0; matching &= matching - 1) {
        const layout::Slot slot{words::load_relaxed(&bucket.slots[std::countr_zero(matching)])};
        uint64_t page = 0, capacity = 0;
        if (slot.empty() || !detail::locate(view, slot, page, capacity)) continue;
        prefetch(view.arena + slot.offset() / 8);
        detail::prefetch_more(view, page, slot.offset(), capacity);
    }
}

}  // namespace farcached::fabric
