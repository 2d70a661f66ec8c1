// SPDX-License-Identifier: BSD-3-Clause
// RegionView: where the parts of a node's region are in this process's address space. Plain pointers into a
// mapping that outlives it; the same view serves the node's own process and one that maps it read-only.
#pragma once

#include <cstdint>
#include <string_view>

#include "protocol/layout.h"

namespace farcached::fabric {

// One partition's part of the index. Checked once and kept in this process's own memory, so that no write by another
// process can send a reader outside the region (S10).
struct IndexShape {
    uint64_t buckets_offset = 0;  // bytes from the region's start
    uint64_t overflow_offset = 0;
    uint64_t buckets_max = 0;     // at least 1
    uint64_t overflow_max = 0;
};

struct RegionView {
    const layout::RegionHeader* header = nullptr;
    const layout::PartitionEntry* partitions = nullptr;
    const IndexShape* shapes = nullptr;    // one for each partition
    const layout::PageEntry* pages = nullptr;
    const uint64_t* arena = nullptr;       // words; offsets into it are in bytes, multiples of 16
    const char* base = nullptr;            // start of the region
    uint64_t region_bytes = 0;
    uint64_t arena_bytes = 0;
    uint64_t hash_seed = 0;
    uint32_t partition_count_log2 = 0;
    // The owner's records of items, kept outside the region and updated after each read: descriptor_bytes for each slot, and
    // page_slots_max slots a page. Readers only prefetch them. Null: another process's region.
    const char* descriptors = nullptr;
    uint32_t descriptor_bytes = 0;
};

// Checks the fields of a node's region before use (S10). Pure: both functions take private copies, since another process
// may change the region.
// The error in the header of a region of that many bytes; empty: none.
std::string_view header_wrong(const layout::RegionHeader& header, uint64_t region_bytes);

// A partition's part of the index; false: it does not lie within a region of that many bytes.
bool index_shape(const layout::PartitionEntry& entry, uint64_t region_bytes, IndexShape& shape);

}  // namespace farcached::fabric
