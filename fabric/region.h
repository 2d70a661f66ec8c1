// SPDX-License-Identifier: BSD-3-Clause
// RegionView: where the parts of a node's region are in this process's address space. Plain pointers into a mapping that
// outlives it; the same view serves the node's own process and one that maps it read-only.
//
// Region: one node's readable memory in the layout of protocol/layout.h: header, partition table, page table, index,
// arena, in one mapping. Initially all zero, except the header and the fixed fields of the tables.
//
// Owner: of a Region the node, which writes it under its partitions' locks. Threads: any may read by a RegionView.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/mapping.h"
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

// header: valid, and no other process can change it. shapes: one for each partition.
RegionView view_at(const char* base, const layout::RegionHeader& header, const IndexShape* shapes);

// Checks the fields of a node's region before use (S10). Pure: both functions take private copies, since another process
// may change the region.
// The error in the header of a region of that many bytes; empty: none.
std::string_view header_wrong(const layout::RegionHeader& header, uint64_t region_bytes);

// A partition's part of the index; false: it does not lie within a region of that many bytes.
bool index_shape(const layout::PartitionEntry& entry, uint64_t region_bytes, IndexShape& shape);

struct RegionShape {
    uint64_t page_count = 0;             // pages reserved for the arena
    uint64_t pages_at_first = UINT64_MAX;  // pages whose entries get memory at the start
    uint32_t partition_count_log2 = 0;
    uint64_t buckets_max = 0;            // per partition
    uint64_t overflow_max = 0;           // per partition
    bool huge_pages = false;
    bool registered = false;             // for READs as a whole, so all of it takes memory
    bool offered = true;                 // others may map it
    int file = -1;                       // the region is at its start (Mapping::FilePart); -1: memory without a file
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
