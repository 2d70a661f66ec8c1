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
    __builtin_prefetch(first_bucket(view, hash));
}

// The first cache line of every item whose tag matches; call it when the bucket is likely in cache.
void prefetch_item(const RegionView& view, uint64_t hash) {
    const uint32_t tag = layout::tag_of(hash);
    for (const uint64_t& word : first_bucket(view, hash)->slots) {
        layout::Slot slot{words::load_relaxed(&word)};
        if (slot.empty() || slot.tag() != tag) continue;
        if (slot.offset() >= view.arena_bytes) continue;
        const uint64_t* item = view.arena + slot.offset() / 8;
        __builtin_prefetch(item);
        __builtin_prefetch(item + 8);
    }
}

}  // namespace farcached::fabric
