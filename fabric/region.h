// SPDX-License-Identifier: BSD-3-Clause
// Region: one node's readable memory in the layout of protocol/layout.h: header, partition table, page table, index,
// arena, in one mapping. Owner: the node. Initially all zero, except the header and the fixed fields of the tables.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/mapping.h"
#include "fabric/region_view.h"

namespace farcached::fabric {

struct RegionShape {
    uint64_t page_count = 0;             // pages reserved for the arena
    uint64_t pages_at_first = UINT64_MAX;  // pages whose entries get memory at the start
    uint32_t partition_count_log2 = 0;
    uint64_t buckets_max = 0;            // per partition
    uint64_t overflow_max = 0;           // per partition
    bool huge_pages = false;
    bool offered = true;                 // others may map it
    uint64_t incarnation = 0;
    uint64_t hash_seed = 0;
};

class Region {
  public:
    explicit Region(const RegionShape& shape);

    const RegionView& view() const { return view_; }
    // A descriptor for another process to map, see Mapping. The caller closes it. Only if the region is offered.
    int open_read_only() const { return mapping_.open_read_only(); }

    // For the owner, which may write.
    layout::RegionHeader& header() { return *header_; }
    layout::PartitionEntry& partition(uint32_t number) { return partitions_[number]; }
    layout::PageEntry& page(uint64_t number) { return pages_[number]; }
    // Gives memory to the entries of the first `count` pages. False: out of memory.
    bool have_pages(uint64_t count);
    layout::Bucket* buckets(uint32_t partition);
    layout::Bucket* overflow(uint32_t partition);
    uint64_t* arena() { return arena_; }
    // RegionView::descriptors; outlives all readers. Call it before any reader has the view.
    void set_descriptors(const void* first, uint32_t bytes) {
        view_.descriptors = static_cast<const char*>(first);
        view_.descriptor_bytes = bytes;
    }

  private:
    Mapping mapping_;
    layout::RegionHeader* header_;
    layout::PartitionEntry* partitions_;
    layout::PageEntry* pages_;
    uint64_t* arena_;
    std::array<IndexShape, layout::partitions_max> shapes_{};
    RegionView view_;
};

}  // namespace farcached::fabric
