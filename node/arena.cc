// SPDX-License-Identifier: BSD-3-Clause
#include "node/arena.h"

#include <atomic>

#include "base/check.h"
#include "protocol/words.h"

namespace farcached::node {

Arena::Arena(fabric::Region& region, const SizeClasses& classes, uint64_t reserved_pages,
             uint64_t limit_pages, double lease_share, uint64_t unleased_min, bool huge_pages)
    : region_(region),
      classes_(classes),
      descriptor_memory_(Mapping::Kind::private_memory,
                         reserved_pages * layout::page_slots_max * sizeof(Descriptor), huge_pages),
      descriptors_(reinterpret_cast<Descriptor*>(descriptor_memory_.data())),
      page_memory_(Mapping::Kind::private_memory, reserved_pages * sizeof(Page), false),
      pages_(reinterpret_cast<Page*>(page_memory_.data())),
      pool_(region, reserved_pages, limit_pages, lease_share, unleased_min) {
    CHECK(reserved_pages <= arena_pages_max);
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
