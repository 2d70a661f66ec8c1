// SPDX-License-Identifier: BSD-3-Clause
// Arena: the pages of item memory, the owner of each page, and the descriptors of all slots.
//
// A page is free, or belongs to one partition and is cut into slots of one size class, or is part of a large item's run.
// Arithmetic alone finds pages and descriptors; no pointer into either exists.
//
// Owner: a Node. Threads: any, within A1.
//
// A1  A page with an owner is accessed only under that owner's lock. The pool has its own lock (page_pool.h).
// A2  A page's epoch increases before its strides change (S5).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/broken.h"
#include "base/mapping.h"
#include "base/prefetch.h"
#include "fabric/region.h"
#include "node/memory/descriptor.h"
#include "node/memory/page_pool.h"
#include "protocol/layout.h"
#include "protocol/words.h"

namespace farcached::node {

// SizeClasses: the slot sizes of pages, from -n and -f as in memcached. Each class is the growth factor larger than the one
// before; the last is a whole page. Larger items take runs of pages. Immutable; any thread.
class SizeClasses {
  public:
    // chunk_bytes_min: key and value of the smallest class; growth_factor > 1.
    SizeClasses(uint32_t chunk_bytes_min, double growth_factor);

    uint8_t count() const { return count_; }  // classes are 1 .. count()
    uint32_t slot_bytes(uint8_t size_class) const { return bytes_[size_class]; }
    uint32_t slots(uint8_t size_class) const { return slots_[size_class]; }  // per page
    // The smallest class that holds `bytes`; layout::large_class above a page.
    uint8_t of(uint64_t bytes) const {
        if (bytes > layout::page_bytes) return layout::large_class;
        return lookup_[(bytes + layout::stride_bytes - 1) / layout::stride_bytes];
    }

  private:
    uint8_t count_ = 0;
    std::array<uint32_t, 64> bytes_{};
    std::array<uint32_t, 64> slots_{};
    std::array<uint8_t, layout::page_bytes / layout::stride_bytes + 1> lookup_{};
};

// ReadCounters: counts of one-sided reads of each item (protocol/layout.h). Proxies add by remote atomics; the node reads the
// counters and remembers the last value. Owner: an Arena.
//
// R1  The node never writes a counter: another device's atomics are not atomic with its stores (S6). A reused slot keeps its
//     counter, and the old value counts as seen. An increment that arrives late miscounts by one.
// R2  The last value of an item is accessed under the lock of its page's owner.
// R3  Each item has its own counter (layout::counter_of()). The values are untrusted (S10): they influence eviction only.
class ReadCounters {
  public:
    static constexpr uint64_t seen_bytes = sizeof(uint32_t);  // beside each counter
    // For an arena of that many pages. Throws std::system_error.
    ReadCounters(uint64_t pages, uint64_t* arena)
        : counters_(Mapping::Kind::private_memory, count(pages) * layout::counter_bytes, false),
          seen_(Mapping::Kind::private_memory, count(pages) * seen_bytes, false),
          words_(broken::s6_count_in_items ? arena : reinterpret_cast<uint64_t*>(counters_.data())),
          bytes_(broken::s6_count_in_items ? pages * layout::page_bytes : counters_.size()) {}

    // The registered counters.
    uint64_t* words() const { return words_; }
    size_t bytes() const { return bytes_; }

    // Reads of the item at that arena offset since the last take() or forget() for it.
    uint32_t take(uint64_t arena_offset) {
        const uint64_t number = layout::counter_of(arena_offset);
        const uint32_t now = uint32_t(words::load_relaxed(words() + number));
        uint32_t& seen = reinterpret_cast<uint32_t*>(seen_.data())[number];
        const uint32_t reads = now - seen;
        seen = now;
        return reads;
    }
    void forget(uint64_t arena_offset) { (void)take(arena_offset); }

  private:
    static uint64_t count(uint64_t pages) {
        return layout::counter_of(pages * layout::page_bytes) + 1;  // none beyond the last page
    }

    Mapping counters_;
    Mapping seen_;  // for each counter, the low 32 bits of its last value
    uint64_t* words_;
    size_t bytes_;
};

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

class Arena {
  public:
    // As for the PagePool. descriptors_in: a file for the descriptors; without one they are private memory.
    Arena(fabric::Region& region, const SizeClasses& classes, uint64_t reserved_pages, uint64_t limit_pages,
          double lease_share, uint64_t unleased_min, bool huge_pages, const Mapping::FilePart& descriptors_in = {});

    PagePool& pool() { return pool_; }
    const PagePool& pool() const { return pool_; }
    WithheldBytes& withheld() { return withheld_; }

    // Creates the read counters, which proxies increment. Called before the first item; throws std::system_error.
    void count_reads() { read_counters_ = std::make_unique<ReadCounters>(pool_.reserved_pages(), region_.arena()); }
    ReadCounters* read_counters() const { return read_counters_.get(); }  // nullptr without read counters

    const SizeClasses& classes() const { return classes_; }
    Page& page(uint64_t number) { return pages_[number]; }
    Descriptors descriptors() const { return descriptors_; }
    // Before a page, or a run that begins there, is cut: backs its descriptors with memory, if they are in a file. A full file
    // system would end the process otherwise. False: no memory.
    bool have_descriptors(uint64_t page, uint8_t size_class);
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
        if (bytes == 0 || at >= pool_.reserved_pages() * layout::page_bytes) return;
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

    // Numbers runs in order of storage, which is finer than seconds.
    uint64_t next_birth() { return births_.fetch_add(1, std::memory_order_relaxed) + 1; }
    uint64_t births() const { return births_.load(std::memory_order_relaxed); }

    bool leasable(Ref ref) const { return page_of(ref) < pool_.lease_zone(); }
    LeaseStop& lease_stop() { return lease_stop_; }

    // Prepares a taken page or run for items of a class. Increments the epochs (A2).
    void cut(uint64_t first, uint64_t pages, uint8_t size_class, uint16_t owner);
    // Returns a page or run without items to the pool.
    void uncut(uint64_t first);

  private:
    fabric::Region& region_;
    const SizeClasses& classes_;
    Mapping descriptor_memory_;
    Descriptors descriptors_;
    const bool descriptors_in_file_;
    Mapping page_memory_;
    Page* pages_;
    std::unique_ptr<ReadCounters> read_counters_;

    PagePool pool_;
    WithheldBytes withheld_{pool_};
    LeaseStop lease_stop_;
    std::atomic<uint64_t> births_{0};
};

}  // namespace farcached::node
