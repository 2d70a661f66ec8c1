// SPDX-License-Identifier: BSD-3-Clause
// Arena: the pages of item memory, who owns each, and the descriptors of their slots.
//
// A page is free, or owned by one partition and cut into slots of one size class, or part of a run that holds
// one large item. Pages and descriptors are found by arithmetic alone; there are no pointers into either.
//
// A1  At most limit_pages() pages are out of the pool at any time: -m is a limit on item memory.
// A2  What belongs to a page with an owner is touched only under that owner's lock; the pool has a lock of its
//     own, the innermost of all.
// A3  A page's epoch goes up before its strides change (S5).
// A4  Only items of the lease zone, the pages below lease_zone(), are ever leased: every other page can be
//     emptied at once, so that a set finds room whatever is leased (S8). Single pages and runs for other items
//     are taken from outside the zone while there are any.
// A5  Where memory has several homes (NUMA), the zone and the rest are each divided among them, in equal contiguous parts. A
//     single page is taken from its partition's home while there is one, else from anywhere: none is lost. What the limit can
//     be raised by belongs to none.
// A6  What is taken has its memory: what the system has none for is not handed out, and counted, so that nobody who writes
//     there meets SIGBUS. Of what is free, pages that have their memory already go first, and where the system refuses they
//     are all there is: a page that was used once is never lost to the pool.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "base/mapping.h"
#include "base/prefetch.h"
#include "fabric/region.h"
#include "node/descriptor.h"
#include "node/lease_stop.h"
#include "node/read_counters.h"
#include "node/size_classes.h"

namespace farcached::node {

constexpr uint64_t arena_pages_max = (UINT64_C(1) << 22) - 1;

// All zeros before it is cut for the first time, so that pages never used take no memory here.
struct Page {
    static constexpr uint16_t no_owner = UINT16_MAX;
    uint16_t owner_and_1 = 0;   // partition + 1, 0: nobody's; read without its lock as a hint (atomically)
    uint8_t size_class = 0;
    uint16_t live = 0;          // slots in use
    uint16_t fresh = 0;         // slots never used since the page was cut
    uint16_t partial = 0;       // not 0: on one of its class's two lists of pages with room
    Ref free_head = 0;          // nil: there is none
    uint32_t prev = 0, next = 0;  // that list; nil: its ends
    uint32_t run_head = 0;      // large_class: first page of the run
    uint64_t born = 0;          // large_class: the run's place in the order of all runs
    uint8_t listed = 0;         // among its partition's pages that leases may run in
    uint8_t draining = 0;       // not 0: its leases are let run out, for that class
    uint32_t lease_end = 0;     // the latest of all items that were ever in it as it is cut now
};

// Of the pages, as the limit was at first.
struct HomeRange {
    uint64_t begin = 0, end = 0;
    uint32_t home = 0;
    uint64_t hint = 0;  // where to look for a free one
};

class Arena {
  public:
    // lease_share: of the limit; lease_zone() leaves at least `unleased_min` pages outside.
    Arena(fabric::Region& region, const SizeClasses& classes, uint64_t reserved_pages,
          uint64_t limit_pages, double lease_share, uint64_t unleased_min, bool huge_pages);

    // Divides the pages among so many homes. Before any is taken. The parts begin at multiples of `align` pages.
    void divide(uint32_t homes, uint64_t align);
    uint32_t homes() const { return homes_; }
    uint32_t home_of(uint32_t partition, uint32_t partition_count) const {
        return uint32_t(uint64_t(partition) * homes_ / partition_count);
    }
    // Empty: there is one home.
    const std::vector<HomeRange>& zone_ranges() const { return zone_ranges_; }
    const std::vector<HomeRange>& other_ranges() const { return other_ranges_; }

    // From here on there are counters of reads, for others to move. Before the first item; throws std::system_error.
    void count_reads() { read_counters_ = std::make_unique<ReadCounters>(reserved_, region_.arena()); }
    ReadCounters* read_counters() const { return read_counters_.get(); }  // nullptr: there are none

    const SizeClasses& classes() const { return classes_; }
    Page& page(uint64_t number) { return pages_[number]; }
    Descriptors descriptors() const { return descriptors_; }
    Descriptor& descriptor(Ref ref) { return descriptors_[ref]; }
    uint64_t offset(Ref ref) {  // bytes from the arena's start
        return page_of(ref) * layout::page_bytes +
               uint64_t(slot_of(ref)) * classes_.slot_bytes(pages_[page_of(ref)].size_class);
    }
    // What a slot of the index says, for nothing but speed: it may be of an item long gone.
    void prefetch_descriptor(layout::Slot slot) const {
        const uint32_t bytes = classes_.slot_bytes(slot.size_class() & layout::large_class);
        const uint64_t at = slot.offset();
        if (bytes == 0 || at >= reserved_ * layout::page_bytes) return;
        const Descriptor& item = descriptors_[make_ref(at / layout::page_bytes, uint32_t(at % layout::page_bytes) / bytes)];
        prefetch_to_write(&item.access_count);
    }
    uint64_t* words(Ref ref) { return region_.arena() + offset(ref) / 8; }
    layout::ItemHeader& header(Ref ref) {
        return *reinterpret_cast<layout::ItemHeader*>(words(ref));
    }
    // The slot at an offset that came from the index or from a reader; its page must have an owner.
    Ref ref_at(uint64_t at) {
        uint64_t number = at / layout::page_bytes;
        uint32_t bytes = classes_.slot_bytes(pages_[number].size_class);
        return make_ref(number, bytes == 0 ? 0 : uint32_t(at % layout::page_bytes) / bytes);
    }
    uint64_t capacity(Ref ref) {
        const Page& at = pages_[page_of(ref)];
        if (at.size_class != layout::large_class) return classes_.slot_bytes(at.size_class);
        return uint64_t(region_.page(page_of(ref)).run_pages) * layout::page_bytes;
    }
    uint16_t owner_hint(uint64_t number) const {
        return uint16_t(__atomic_load_n(&pages_[number].owner_and_1, __ATOMIC_RELAXED) - 1);
    }

    // The pool. A page or run taken belongs to the caller until it is cut, or given back. It has its memory (A6).
    bool take_page(uint64_t& number, uint32_t home = 0);
    bool take_zone_page(uint64_t& number, uint32_t home = 0);  // of the lease zone, or none
    bool take_run(uint64_t pages, uint64_t& first);
    bool take_zone_run(uint64_t pages, uint64_t& first);  // wholly of the lease zone
    void give_back(uint64_t first, uint64_t pages);
    // While a window is wanted its pages are not handed out; claim takes all of it once all are free.
    void want_window(uint64_t first, uint64_t pages);
    bool claim_window(uint64_t first, uint64_t pages);
    void drop_window();
    bool is_free(uint64_t number) const;
    bool has_memory(uint64_t number) const;  // A6; never again false
    // Lowers or raises the limit; pages above it that are in use must be emptied by the caller.
    void set_limit(uint64_t pages);

    // Runs are numbered as they come: finer than seconds when many are stored in one.
    uint64_t next_birth() { return births_.fetch_add(1, std::memory_order_relaxed) + 1; }
    uint64_t births() const { return births_.load(std::memory_order_relaxed); }

    uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

    uint64_t reserved_pages() const { return reserved_; }
    uint64_t limit_pages() const;
    uint64_t pages_out() const;
    // The share of the pages that is in use, about: without the pool's lock.
    double memory_use() const {
        return double(out_.load(std::memory_order_relaxed)) / double(limit_.load(std::memory_order_relaxed));
    }
    uint64_t lease_zone() const { return zone_.load(std::memory_order_relaxed); }
    bool leasable(Ref ref) const { return page_of(ref) < lease_zone(); }
    LeaseStop& lease_stop() { return lease_stop_; }

    // Makes a taken page (or run of pages) ready for items of a class. Bumps the epochs (A3).
    void cut(uint64_t first, uint64_t pages, uint8_t size_class, uint16_t owner);
    // The opposite, when nothing lives there any more: back to the pool.
    void uncut(uint64_t first);

  private:
    uint64_t zone_for(uint64_t limit) const;
    enum class Among : uint8_t { free, free_with_memory };
    // What is called with the lock.
    template <class Find>
    bool take_with_memory(uint64_t pages, uint64_t& first, Find find);
    bool have_memory(uint64_t first, uint64_t pages);
    bool back(uint64_t number);
    bool take_any_page(Among among, uint32_t home, uint64_t& number);
    bool take_run_below(Among among, uint64_t end, uint64_t pages, uint64_t& first);
    bool take_between(Among among, uint64_t begin, uint64_t end, uint64_t& hint, uint64_t& number);
    bool take_at_home(Among among, std::vector<HomeRange>& ranges, uint32_t home, uint64_t begin, uint64_t end,
                      uint64_t& number);
    void take_these(uint64_t first, uint64_t pages);
    void put_back(uint64_t first, uint64_t pages);
    uint64_t free_word(Among among, uint64_t number) const {  // of the bitmap, that which has the page
        const uint64_t word = free_[number / 64];
        return among == Among::free ? word : word & backed_[number / 64];
    }
    bool free_locked(uint64_t number) const { return bit(free_, number); }
    static bool bit(const std::vector<uint64_t>& map, uint64_t number) { return (map[number / 64] >> (number % 64) & 1) != 0; }
    static void set_bit(std::vector<uint64_t>& map, uint64_t number) { map[number / 64] |= UINT64_C(1) << (number % 64); }

    fabric::Region& region_;
    const SizeClasses& classes_;
    const uint64_t reserved_;
    Mapping descriptor_memory_;
    Descriptors descriptors_;
    Mapping page_memory_;
    Page* pages_;
    std::unique_ptr<ReadCounters> read_counters_;

    const double lease_share_;
    const uint64_t unleased_min_;
    std::atomic<uint64_t> zone_;
    LeaseStop lease_stop_;
    std::atomic<uint64_t> births_{0};
    mutable std::mutex pool_lock_;
    std::vector<uint64_t> free_;  // bit per page
    std::vector<uint64_t> backed_;  // likewise: it has its memory
    uint64_t free_backed_ = 0;      // pages that are both
    std::atomic<uint64_t> refused_{0};
    std::atomic<uint64_t> limit_{0}, out_{0};  // written under the lock
    uint64_t hint_ = 0, zone_hint_ = 0;
    uint32_t homes_ = 1;
    std::vector<HomeRange> zone_ranges_, other_ranges_;  // by home
    uint64_t window_first_ = 0, window_end_ = 0;
};

}  // namespace farcached::node
