// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/region.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>

#include "base/mapping.h"

namespace farcached::fabric {

namespace {

struct Offsets {
    uint64_t partitions, pages, buckets, overflow, arena, end;
};

constexpr uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

// The index is sparse: huge pages of it would be mostly empty. Registered memory takes all of its pages anyway. A device may
// have one page size for all of a registered region (the kernel's ib_umem_find_best_pgsz()), so one small page makes all small.
bool huge_index(const RegionShape& shape) { return shape.huge_pages && shape.registered; }

Offsets plan(const RegionShape& shape) {
    const uint64_t partition_count = UINT64_C(1) << shape.partition_count_log2;
    Offsets at{};
    at.partitions = round_up(sizeof(layout::RegionHeader), 64);
    at.pages = at.partitions + partition_count * sizeof(layout::PartitionEntry);
    at.buckets = round_up(at.pages + shape.page_count * sizeof(layout::PageEntry), 4096);
    at.overflow = at.buckets + partition_count * shape.buckets_max * sizeof(layout::Bucket);
    uint64_t index_end = at.overflow + partition_count * shape.overflow_max * sizeof(layout::Bucket);
    at.arena = round_up(index_end, Mapping::huge_page_bytes);
    at.end = at.arena + shape.page_count * layout::page_bytes;
    if (huge_index(shape)) at.end = round_up(at.end, Mapping::huge_page_bytes);
    return at;
}

Mapping memory_for(const RegionShape& shape, const Offsets& at) {
    const uint64_t huge_from = huge_index(shape) ? 0 : at.arena;
    if (shape.file >= 0) return Mapping({.fd = shape.file}, at.end, shape.huge_pages, huge_from);
    const auto kind = shape.offered ? Mapping::Kind::shared_memory : Mapping::Kind::private_memory;
    return Mapping(kind, at.end, shape.huge_pages, huge_from);
}

}  // namespace

Region::Region(const RegionShape& shape) : mapping_(memory_for(shape, plan(shape))) {
    const Offsets at = plan(shape);
    char* base = mapping_.data();
    const uint64_t partitions_bytes = sizeof(layout::PartitionEntry) << shape.partition_count_log2;
    pages_ = reinterpret_cast<layout::PageEntry*>(base + at.pages);
    if (!populate(base, sizeof(layout::RegionHeader)) || !populate(base + at.partitions, partitions_bytes) ||
        !have_pages(std::min(shape.pages_at_first, shape.page_count)))
        throw std::system_error(ENOMEM, std::generic_category(), "a node's memory");
    header_ = new (base) layout::RegionHeader{};
    partitions_ = reinterpret_cast<layout::PartitionEntry*>(base + at.partitions);
    arena_ = reinterpret_cast<uint64_t*>(base + at.arena);

    header_->magic = layout::region_magic;
    header_->version = layout::layout_version;
    header_->partition_count_log2 = shape.partition_count_log2;
    header_->incarnation = shape.incarnation;
    header_->region_bytes = at.end;
    header_->partitions_offset = at.partitions;
    header_->pages_offset = at.pages;
    header_->page_count = shape.page_count;
    header_->arena_offset = at.arena;
    header_->hash_seed = shape.hash_seed;
    for (uint32_t i = 0; i < UINT32_C(1) << shape.partition_count_log2; i++) {
        layout::PartitionEntry& entry = partitions_[i];
        entry.bucket_count = 1;
        entry.buckets_offset = at.buckets + i * shape.buckets_max * sizeof(layout::Bucket);
        entry.overflow_offset = at.overflow + i * shape.overflow_max * sizeof(layout::Bucket);
        entry.buckets_max = shape.buckets_max;
        entry.overflow_max = shape.overflow_max;
        shapes_[i] = {entry.buckets_offset, entry.overflow_offset, entry.buckets_max,
                      entry.overflow_max};
    }

    view_ = view_at(base, *header_, shapes_.data());
}

RegionView view_at(const char* base, const layout::RegionHeader& header, const IndexShape* shapes) {
    RegionView view;
    view.header = reinterpret_cast<const layout::RegionHeader*>(base);
    view.partitions = reinterpret_cast<const layout::PartitionEntry*>(base + header.partitions_offset);
    view.shapes = shapes;
    view.pages = reinterpret_cast<const layout::PageEntry*>(base + header.pages_offset);
    view.arena = reinterpret_cast<const uint64_t*>(base + header.arena_offset);
    view.base = base;
    view.region_bytes = header.region_bytes;
    view.arena_bytes = header.page_count * layout::page_bytes;
    view.hash_seed = header.hash_seed;
    view.partition_count_log2 = header.partition_count_log2;
    return view;
}

bool Region::have_pages(uint64_t count) { return populate(pages_, count * sizeof(layout::PageEntry)); }

layout::Bucket* Region::buckets(uint32_t partition) {
    return reinterpret_cast<layout::Bucket*>(mapping_.data() + partitions_[partition].buckets_offset);
}

layout::Bucket* Region::overflow(uint32_t partition) {
    return reinterpret_cast<layout::Bucket*>(mapping_.data() + partitions_[partition].overflow_offset);
}

// ---- checks ----------------------------------------------------------------------------------------

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
