// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/index_probe.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "fabric/region.h"

namespace farcached::fabric {

namespace {

constexpr uint32_t entry_bytes = sizeof(layout::PartitionEntry);
constexpr uint32_t bucket_bytes = sizeof(layout::Bucket);

template <class T>
T copied(const uint64_t* words) {
    T value;
    std::memcpy(&value, words, sizeof value);
    return value;
}

}  // namespace

// ---- the known layout of the region -----------------------------------------------------------------

bool FarRegion::take(const layout::RegionHeader& header) {
    if (!header_wrong(header, bytes).empty()) return false;
    if (header.incarnation != incarnation || header.hash_seed != hash_seed) return false;
    for (uint32_t slot_bytes : header.class_bytes)
        if (slot_bytes % layout::stride_bytes != 0 || slot_bytes > layout::page_bytes) return false;
    std::copy(std::begin(header.class_bytes), std::end(header.class_bytes), class_bytes.begin());
    partition_count_log2 = header.partition_count_log2;
    partitions_offset = header.partitions_offset;
    arena_offset = header.arena_offset;
    arena_bytes = header.page_count * layout::page_bytes;
    partitions.assign(size_t(1) << partition_count_log2, {});
    header_known = true;
    return true;
}

bool FarRegion::take(uint32_t number, const layout::PartitionEntry& entry) {
    Partition& partition = partitions[number];
    if (!partition.known) {
        if (!index_shape(entry, bytes, partition.shape)) return false;
        partition.known = true;
    }
    const uint64_t count = std::clamp<uint64_t>(entry.bucket_count, 1, partition.shape.buckets_max);
    partition.bucket_count = uint32_t(count);
    return true;
}

// ---- a probe ----------------------------------------------------------------------------------------

uint32_t IndexProbe::want_bytes() const {
    uint32_t bytes = 0;
    for (const Want& want : wants()) bytes += want.bytes;
    return bytes;
}

IndexProbe::Step IndexProbe::want(Stage stage, Want first, Want second) {
    stage_ = stage;
    wants_ = {first, second};
    want_count_ = second.bytes == 0 ? 1 : 2;
    return Step::read_on;
}

IndexProbe::Step IndexProbe::invalid(Outcome why) {
    found_.outcome = why;
    return Step::invalid;
}

IndexProbe::Want IndexProbe::entry_want(const FarRegion& region) const {
    return {region.partitions_offset + uint64_t(partition_) * entry_bytes, entry_bytes};
}

// The first bucket of the key's chain, by the last known number of buckets.
IndexProbe::Want IndexProbe::bucket_want(const FarRegion& region) const {
    const FarRegion::Partition& partition = region.partitions[partition_];
    const uint64_t number = layout::bucket_of(hash_, partition.bucket_count);
    return {partition.shape.buckets_offset + number * bucket_bytes, bucket_bytes};
}

void IndexProbe::begin(const FarRegion& region, uint64_t key_hash) {
    *this = IndexProbe();
    hash_ = key_hash;
    static_assert(sizeof(layout::RegionHeader) % layout::stride_bytes == 0);
    if (!region.header_known)
        want(Stage::header, {0, sizeof(layout::RegionHeader)}, {});
    else
        begin_entry(region);
}

// READs the entry in any case (B5), together with the first bucket if its place is known.
IndexProbe::Step IndexProbe::begin_entry(const FarRegion& region) {
    partition_ = layout::partition_of(hash_, region.partition_count_log2);
    if (!region.partitions[partition_].known) return want(Stage::entry, entry_want(region), {});
    buckets_++;
    return want(Stage::entry_and_bucket, entry_want(region), bucket_want(region));
}

IndexProbe::Step IndexProbe::another_bucket(Want bucket) {
    if (buckets_ == buckets_max) return Step::out_of_reach;
    buckets_++;
    return want(Stage::bucket, bucket, {});
}

IndexProbe::Step IndexProbe::fed(FarRegion& region, const uint64_t* copies, const Question& question) {
    CHECK(region.header_known || stage_ == Stage::header);
    switch (stage_) {
        case Stage::header:
            if (!region.take(copied<layout::RegionHeader>(copies))) return invalid(Outcome::bounds);
            return begin_entry(region);
        case Stage::entry:
        case Stage::entry_and_bucket: {
            const auto entry = copied<layout::PartitionEntry>(copies);
            if (!region.take(partition_, entry)) return invalid(Outcome::bounds);
            flush_floor_ = entry.flush_floor;
            const Want bucket = bucket_want(region);
            const bool have_it = stage_ == Stage::entry_and_bucket && bucket.offset == wants_[1].offset;
            if (!have_it) return another_bucket(bucket);
            return take_bucket(region, copies + entry_bytes / 8);
        }
        case Stage::bucket: return take_bucket(region, copies);
        case Stage::item: return take_item(region, copies, question);
    }
    return invalid(Outcome::bounds);
}

IndexProbe::Step IndexProbe::take_bucket(const FarRegion& region, const uint64_t* copy) {
    const auto bucket = copied<layout::Bucket>(copy);
    const uint32_t tag = layout::tag_of(hash_);
    candidates_ = candidate_ = 0;
    link_ = bucket.overflow;
    for (uint64_t word : bucket.slots) {
        const layout::Slot slot{word};
        if (!slot.empty() && slot.tag() == tag) slots_[candidates_++] = slot;
    }
    return next(region);
}

// The next item of the key's tag; without one, the next bucket of the chain.
IndexProbe::Step IndexProbe::next(const FarRegion& region) {
    if (candidate_ < candidates_) {
        const layout::Slot slot = slots_[candidate_++];
        if (slot.size_class() == layout::large_class) return Step::out_of_reach;
        if (slot.size_class() > layout::large_class) return invalid(Outcome::bounds);
        const uint32_t capacity = region.class_bytes[slot.size_class()];
        if (capacity <= sizeof(layout::ItemHeader)) return invalid(Outcome::bounds);
        if (slot.offset() >= region.arena_bytes) return invalid(Outcome::bounds);
        if (capacity > region.arena_bytes - slot.offset()) return invalid(Outcome::bounds);
        if (capacity > item_bytes_most || items_ == items_max) return Step::out_of_reach;
        items_++;
        return want(Stage::item, {region.arena_offset + slot.offset(), capacity}, {});
    }
    if (link_ == 0) return Step::not_found;
    const IndexShape& shape = region.partitions[partition_].shape;
    if (link_ > shape.overflow_max) return invalid(Outcome::bounds);
    return another_bucket({shape.overflow_offset + (link_ - 1) * bucket_bytes, bucket_bytes});
}

IndexProbe::Step IndexProbe::take_item(const FarRegion& region, const uint64_t* copy,
                                       const Question& question) {
    const ProbeCopy probed{copy, wants_[0].bytes, wants_[0].offset, flush_floor_, question.latest};
    found_ = judge_probe(probed, question.key, question.tokens_matter, question.check_secret);
    if (found_.outcome == Outcome::hit) return Step::hit;
    return found_.outcome == Outcome::key ? next(region) : Step::invalid;
}

}  // namespace farcached::fabric
