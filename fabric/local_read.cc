// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/local_read.h"

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

// Every item whose tag matches, and what its owner touches when it was read; call it when the bucket is likely in cache.
void prefetch_item(const RegionView& view, uint64_t hash) {
    const uint32_t tag = layout::tag_of(hash);
    for (const uint64_t& word : first_bucket(view, hash)->slots) {
        const layout::Slot slot{words::load_relaxed(&word)};
        uint64_t page = 0, capacity = 0;
        if (slot.empty() || slot.tag() != tag || !detail::locate(view, slot, page, capacity)) continue;
        prefetch(view.arena + slot.offset() / 8);
        detail::prefetch_more(view, page, slot.offset(), capacity);
    }
}

}  // namespace farcached::fabric
