// SPDX-License-Identifier: BSD-3-Clause
// Arena: the pages of item memory, the owner of each page, and the descriptors of all slots.
//
// A page is free, or belongs to one partition and is cut into slots of one size class, or is part of a large item's run.
// Arithmetic alone finds pages and descriptors; no pointer into either exists.
//
// Owner: a Node. Threads: any, within A2.
//
// A1  At most limit_pages() pages are out of the pool at any time: -m limits item memory.
// A2  A page with an owner is accessed only under that owner's lock. The pool has its own lock, the innermost of all.
// A3  A page's epoch increases before its strides change (S5).
// A4  Only items of the lease zone, the pages below lease_zone(), are leased. Every other page can be emptied at once, so
//     leases cannot deny a set its room (S8). Single pages and runs for other items are taken from outside the zone while any
//     are free there.
// A5  With several NUMA nodes, the zone and the rest are each divided among them, in equal contiguous parts. A single page
//     comes from its partition's home while one is free there, else from anywhere. Pages that a raised limit adds belong to no
//     home.
// A6  Every page taken is backed by memory. The arena hands out no page that the system cannot back, and counts the refusal; so
//     no writer gets SIGBUS. Free pages that are already backed go first. If the system refuses more, only these are taken, so
//     a page that was used once stays available.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "base/add_below.h"
#include "base/mapping.h"
#include "base/prefetch.h"
#include "fabric/region.h"
#include "node/descriptor.h"
#include "node/lease_stop.h"
#include "node/read_counters.h"
#include "node/size_classes.h"

namespace farcached::node {

constexpr uint64_t pinned_part = 2;     // of the memory limit: at most 1 / pinned_part is sent from at a time,
constexpr uint64_t receiving_part = 4;  // and at most 1 / receiving_part is received into
constexpr uint64_t arena_pages_max = (UINT64_C(1) << 22) - 1;

// Zero before the page is first cut, so that unused pages take no memory here.
struct Page {
    static constexpr uint16_t no_owner = UINT16_MAX;
    uint16_t owner_and_1 = 0;   // partition + 1; 0: free. Read without the lock as a hint (atomically)
    uint8_t size_class = 0;
    uint16_t live = 0;          // slots in use
    uint16_t fresh = 0;         // slots never used since the page was cut
    uint16_t partial = 0;       // nonzero: in one of its class's two lists of pages with room
    uint16_t pinned = 0;        // slots that replies are sent from; a run counts at its head
    Ref free_head = 0;          // nil: none
    uint32_t prev = 0, next = 0;  // links of that list; nil at its ends
    uint32_t run_head = 0;      // large_class: first page of the run
    uint64_t born = 0;          // large_class: position of the run in the order of all runs
    uint8_t listed = 0;         // in the list of its partition's pages that leases may run in
    uint8_t draining = 0;       // nonzero: no new leases here; those that run end, to free the page for that class
    uint16_t held = 0;          // slots in HeldSlots, pinned ones included; a run counts at its head
    uint32_t lease_end = 0;     // latest lease end of all items since the page was cut
};

// A range of pages, within the initial limit.
struct HomeRange {
    uint64_t begin = 0, end = 0;
    uint32_t home = 0;
    uint64_t hint = 0;  // where the search for a free page starts
};

class Arena {
  public:
    // lease_share: of the limit; lease_zone() leaves at least `unleased_min` pages outside.
    Arena(fabric::Region& region, const SizeClasses& classes, uint64_t reserved_pages,
          uint64_t limit_pages, double lease_share, uint64_t unleased_min, bool huge_pages);

    // Divides the pages among that many homes; called before any page is taken. The parts begin at multiples of `align` pages.
    void divide(uint32_t homes, uint64_t align);
    uint32_t homes() const { return homes_; }
    uint32_t home_of(uint32_t partition, uint32_t partition_count) const {
        return uint32_t(uint64_t(partition) * homes_ / partition_count);
    }
    // Empty with one home.
    const std::vector<HomeRange>& zone_ranges() const { return zone_ranges_; }
    const std::vector<HomeRange>& other_ranges() const { return other_ranges_; }

    // Creates the read counters, which proxies increment. Called before the first item; throws std::system_error.
    void count_reads() { read_counters_ = std::make_unique<ReadCounters>(reserved_, region_.arena()); }
    ReadCounters* read_counters() const { return read_counters_.get(); }  // nullptr without read counters

    const SizeClasses& classes() const { return classes_; }
    Page& page(uint64_t number) { return pages_[number]; }
    Descriptors descriptors() const { return descriptors_; }
    Descriptor& descriptor(Ref ref) { return descriptors_[ref]; }
    uint64_t offset(Ref ref) {  // bytes from the arena's start
        return page_of(ref) * layout::page_bytes +
               uint64_t(slot_of(ref)) * classes_.slot_bytes(pages_[page_of(ref)].size_class);
    }
    // Before an access is recorded: prefetches the item's header, which is compared, and its descriptor, which is changed. The
    // slot may hold another item by now.
    void prefetch_access(layout::Slot slot) const {
        const uint32_t bytes = classes_.slot_bytes(slot.size_class() & layout::large_class);
        const uint64_t at = slot.offset();
        if (bytes == 0 || at >= reserved_ * layout::page_bytes) return;
        prefetch(region_.arena() + at / 8);
        const Descriptor& item = descriptors_[make_ref(at / layout::page_bytes, uint32_t(at % layout::page_bytes) / bytes)];
        prefetch_to_write(&item.access_count);
    }
    uint64_t* words(Ref ref) { return region_.arena() + offset(ref) / 8; }
    layout::ItemHeader& header(Ref ref) {
        return *reinterpret_cast<layout::ItemHeader*>(words(ref));
    }
    // The slot at an offset from the index or from a reader; its page must have an owner.
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
    // Bytes that a held slot withholds from other uses: its page, or its run of pages.
    uint64_t kept_by(Ref ref) { return std::max<uint64_t>(capacity(ref), layout::page_bytes); }
    static uint64_t kept_by_item(uint64_t bytes) {
        return (bytes + layout::page_bytes - 1) / layout::page_bytes * layout::page_bytes;
    }
    uint16_t owner_hint(uint64_t number) const {
        return uint16_t(__atomic_load_n(&pages_[number].owner_and_1, __ATOMIC_RELAXED) - 1);
    }

    // The pool. A taken page or run belongs to the caller until it is cut or returned, and is backed by memory (A6).
    bool take_page(uint64_t& number, uint32_t home = 0);
    bool take_zone_page(uint64_t& number, uint32_t home = 0);  // from the lease zone only
    bool take_run(uint64_t pages, uint64_t& first);
    bool take_zone_run(uint64_t pages, uint64_t& first);  // wholly inside the lease zone
    void give_back(uint64_t first, uint64_t pages);
    // While a window is wanted, the pool does not hand out its pages; claim takes the whole window once all are free.
    void want_window(uint64_t first, uint64_t pages);
    bool claim_window(uint64_t first, uint64_t pages);
    void drop_window();
    bool is_free(uint64_t number) const;
    bool has_memory(uint64_t number) const;  // A6; never becomes false again
    // Lowers or raises the limit. The caller must empty the pages above it that are in use. False: no memory to raise it.
    bool set_limit(uint64_t pages);

    // Numbers runs in order of storage, which is finer than seconds.
    uint64_t next_birth() { return births_.fetch_add(1, std::memory_order_relaxed) + 1; }
    uint64_t births() const { return births_.load(std::memory_order_relaxed); }

    uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

    uint64_t reserved_pages() const { return reserved_; }
    // The highest limit so far; entries of pages above it (layout::PageEntry) may be unbacked.
    uint64_t most_pages() const { return most_.load(std::memory_order_relaxed); }
    uint64_t limit_pages() const { return limit_.load(std::memory_order_relaxed); }
    uint64_t limit_bytes() const { return limit_pages() * layout::page_bytes; }
    uint64_t pages_out() const;
    // Approximate share of pages in use, read without the pool's lock.
    double memory_use() const {
        return double(out_.load(std::memory_order_relaxed)) / double(limit_.load(std::memory_order_relaxed));
    }
    uint64_t lease_zone() const { return zone_.load(std::memory_order_relaxed); }
    bool leasable(Ref ref) const { return page_of(ref) < lease_zone(); }
    LeaseStop& lease_stop() { return lease_stop_; }
    // Adds to the bytes of dead slots of all partitions (S8); negative: subtracts.
    void count_dead(int64_t bytes) { dead_bytes_.fetch_add(uint64_t(bytes), std::memory_order_relaxed); }
    // Bytes of pages with slots that replies are sent from, and of the whole pages that each upload may need, over all
    // partitions. False: the sum would exceed its share of the memory limit; nothing was counted.
    bool count_pinned(uint64_t bytes) { return add_below(pinned_bytes_, bytes, limit_bytes() / pinned_part); }
    bool count_receiving(uint64_t bytes) { return add_below(receiving_bytes_, bytes, limit_bytes() / receiving_part); }
    // Whether `bytes` more may be pinned once `freed` bytes are unpinned.
    bool may_pin(uint64_t bytes, uint64_t freed) const {
        const uint64_t pinned = pinned_bytes();
        return pinned - std::min(pinned, freed) + bytes <= limit_bytes() / pinned_part;
    }
    void uncount_pinned(uint64_t bytes) { pinned_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
    void uncount_receiving(uint64_t bytes) { receiving_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
    uint64_t pinned_bytes() const { return pinned_bytes_.load(std::memory_order_relaxed); }
    uint64_t receiving_bytes() const { return receiving_bytes_.load(std::memory_order_relaxed); }
    double dead_share() const {
        return double(dead_bytes_.load(std::memory_order_relaxed)) / double(limit_pages() * layout::page_bytes);
    }

    // Prepares a taken page or run for items of a class. Increments the epochs (A3).
    void cut(uint64_t first, uint64_t pages, uint8_t size_class, uint16_t owner);
    // Returns a page or run without items to the pool.
    void uncut(uint64_t first);

  private:
    uint64_t zone_for(uint64_t limit) const;
    enum class Among : uint8_t { free, free_with_memory };
    // Called under the pool's lock.
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
    uint64_t free_word(Among among, uint64_t number) const {  // the bitmap word of that page
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
    std::atomic<uint64_t> dead_bytes_{0}, pinned_bytes_{0}, receiving_bytes_{0};
    std::atomic<uint64_t> births_{0};
    mutable std::mutex pool_lock_;
    std::vector<uint64_t> free_;  // bit per page
    std::vector<uint64_t> backed_;  // bit per page: backed by memory
    uint64_t free_backed_ = 0;      // pages that are free and backed
    std::atomic<uint64_t> refused_{0};
    std::atomic<uint64_t> limit_{0}, most_{0}, out_{0};  // written under the lock
    uint64_t hint_ = 0, zone_hint_ = 0;
    uint32_t homes_ = 1;
    std::vector<HomeRange> zone_ranges_, other_ranges_;  // by home
    uint64_t window_first_ = 0, window_end_ = 0;
};

}  // namespace farcached::node
