// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/region_view.h"

namespace farcached::fabric {

namespace {

// Do `count` elements of `each` bytes lie within `bytes`, aligned?
bool fits(uint64_t bytes, uint64_t offset, uint64_t count, uint64_t each, uint64_t align) {
    if (offset % align != 0 || offset > bytes) return false;
    return count <= (bytes - offset) / each;
}

}  // namespace

std::string_view header_wrong(const layout::RegionHeader& header, uint64_t region_bytes) {
    constexpr std::string_view not_one = "the region's header is invalid";
    constexpr std::string_view out_of_it = "the region's header points outside the region";
    if (header.magic != layout::region_magic) return not_one;
    if (header.version != layout::layout_version) return not_one;
    if (header.region_bytes != region_bytes) return not_one;
    if (header.partition_count_log2 > 6) return not_one;
    static_assert(layout::partitions_max == 1 << 6);
    const uint32_t partitions = UINT32_C(1) << header.partition_count_log2;
    if (!fits(region_bytes, header.partitions_offset, partitions, sizeof(layout::PartitionEntry), 64))
        return out_of_it;
    if (!fits(region_bytes, header.pages_offset, header.page_count, sizeof(layout::PageEntry), 16))
        return out_of_it;
    if (!fits(region_bytes, header.arena_offset, header.page_count, layout::page_bytes, 64))
        return out_of_it;
    return {};
}

bool index_shape(const layout::PartitionEntry& entry, uint64_t region_bytes, IndexShape& shape) {
    shape = {entry.buckets_offset, entry.overflow_offset, entry.buckets_max, entry.overflow_max};
    if (shape.buckets_max == 0 || shape.buckets_max > UINT32_MAX) return false;
    if (!fits(region_bytes, shape.buckets_offset, shape.buckets_max, sizeof(layout::Bucket), 64))
        return false;
    return fits(region_bytes, shape.overflow_offset, shape.overflow_max, sizeof(layout::Bucket), 64);
}

}  // namespace farcached::fabric
