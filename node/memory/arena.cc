// SPDX-License-Identifier: BSD-3-Clause
#include "node/memory/arena.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/check.h"
#include "protocol/words.h"

namespace farcached::node {

// ---- size classes ----------------------------------------------------------------------------------------

namespace {

// Up to this size, classes are one stride apart for any factor. At 1.25, an item of 64 bytes would waste as much as its index
// entry takes.
constexpr uint32_t fine_bytes_max = 256;

uint32_t to_stride(double bytes) {
    double strides = std::ceil(bytes / layout::stride_bytes);
    return uint32_t(strides) * layout::stride_bytes;
}

}  // namespace

SizeClasses::SizeClasses(uint32_t chunk_bytes_min, double growth_factor) {
    CHECK(growth_factor > 1.0);
    constexpr uint8_t classes_max = layout::large_class - 1;
    double size = std::max<double>(layout::slot_bytes_min,
                                   double(sizeof(layout::ItemHeader)) + chunk_bytes_min);
    size = std::min<double>(size, layout::page_bytes);
    // A factor near 1 needs more classes than there are numbers: spreads them over the range instead.
    double factor = std::max(
        growth_factor, std::pow(double(layout::page_bytes) / size, 1.0 / double(classes_max - 2)));
    while (size <= layout::page_bytes / 2.0 && count_ < classes_max - 1) {
        uint32_t bytes = to_stride(size);
        uint32_t fit = layout::page_bytes / bytes;
        bytes = layout::page_bytes / fit / layout::stride_bytes * layout::stride_bytes;
        if (bytes != bytes_[count_]) {
            count_++;
            bytes_[count_] = bytes;
            slots_[count_] = fit;
        }
        const double next = double(bytes) + layout::stride_bytes;
        size = next <= fine_bytes_max ? next : std::max(size * factor, next);
    }
    count_++;
    bytes_[count_] = layout::page_bytes;
    slots_[count_] = 1;
    uint8_t size_class = 1;
    for (uint32_t strides = 0; strides < lookup_.size(); strides++) {
        while (bytes_[size_class] < strides * layout::stride_bytes) size_class++;
        lookup_[strides] = size_class;
    }
}

// ---- arena -----------------------------------------------------------------------------------------------

namespace {

Mapping memory_for_descriptors(const Mapping::FilePart& in, uint64_t pages, bool huge_pages) {
    const uint64_t bytes = pages * layout::page_slots_max * sizeof(Descriptor);
    return in.fd >= 0 ? Mapping(in, bytes, huge_pages) : Mapping(Mapping::Kind::private_memory, bytes, huge_pages);
}

}  // namespace

Arena::Arena(fabric::Region& region, const SizeClasses& classes, uint64_t reserved_pages, uint64_t limit_pages,
             double lease_share, uint64_t unleased_min, bool huge_pages, const Mapping::FilePart& descriptors_in)
    : region_(region),
      classes_(classes),
      descriptor_memory_(memory_for_descriptors(descriptors_in, reserved_pages, huge_pages)),
      descriptors_(reinterpret_cast<Descriptor*>(descriptor_memory_.data())),
      descriptors_in_file_(descriptors_in.fd >= 0),
      page_memory_(Mapping::Kind::private_memory, reserved_pages * sizeof(Page), false),
      pages_(reinterpret_cast<Page*>(page_memory_.data())),
      pool_(region, reserved_pages, limit_pages, lease_share, unleased_min) {
    CHECK(reserved_pages <= arena_pages_max);
}

bool Arena::have_descriptors(uint64_t page, uint8_t size_class) {
    const uint32_t slots = size_class == layout::large_class ? 1 : classes_.slots(size_class);
    return !descriptors_in_file_ || populate(&descriptors_[make_ref(page, 0)], slots * sizeof(Descriptor));
}

void Arena::cut(uint64_t first, uint64_t pages, uint8_t size_class, uint16_t owner) {
    for (uint64_t number = first; number < first + pages; number++) {
        layout::PageEntry& entry = region_.page(number);
        words::store_release(&entry.epoch, entry.epoch + 1);
        std::atomic_thread_fence(std::memory_order_release);
        __atomic_store_n(&entry.size_class, size_class, __ATOMIC_RELAXED);
        uint32_t run = size_class == layout::large_class && number == first ? uint32_t(pages) : 0;
        __atomic_store_n(&entry.run_pages, run, __ATOMIC_RELAXED);
        Page& page = pages_[number];
        page.size_class = size_class;
        page.live = 0;
        page.fresh = 0;
        page.partial = 0;
        page.free_head = nil;
        page.prev = page.next = nil;
        page.run_head = uint32_t(first);
        page.lease_end = 0;
        page.listed = 0;
        page.draining = 0;
        __atomic_store_n(&page.owner_and_1, uint16_t(owner + 1), __ATOMIC_RELAXED);
    }
}

void Arena::uncut(uint64_t first) {
    uint64_t pages = 1;
    if (pages_[first].size_class == layout::large_class) pages = region_.page(first).run_pages;
    for (uint64_t number = first; number < first + pages; number++) {
        CHECK(pages_[number].live == 0);
        __atomic_store_n(&pages_[number].owner_and_1, uint16_t(0), __ATOMIC_RELAXED);
    }
    pool_.give_back(first, pages);
}

}  // namespace farcached::node
