// SPDX-License-Identifier: BSD-3-Clause
// PagePool: which pages of the arena are free, which of them are backed by memory, and how many may be in use. WithheldBytes:
// how much memory the slots hold that cannot be reused at once.
//
// Owner: an Arena. Threads: any. The pool's lock is the innermost of all. A taken page belongs to the caller.
//
// P1  At most limit_pages() pages are out of the pool at any time: -m limits item memory.
// P2  Only items of the lease zone, the pages below lease_zone(), are leased. Every other page can be emptied at once, so
//     leases cannot deny a set its room (S8). Single pages and runs for other items are taken from outside the zone while any
//     are free there.
// P3  With several NUMA nodes, the zone and the rest are each divided among them, in equal contiguous parts. A single page
//     comes from its partition's home while one is free there, else from anywhere. Pages that a raised limit adds belong to no
//     home.
// P4  Every page taken is backed by memory. The pool hands out no page that the system cannot back, and counts the refusal; so
//     no writer gets SIGBUS. Free pages that are already backed go first. If the system refuses more, only these are taken, so
//     a page that was used once stays available.
// P5  While a window is wanted, the pool hands out no single page of it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/counters.h"
#include "base/node_clock.h"
#include "fabric/region.h"

namespace farcached::node {

constexpr uint64_t pinned_part = 2;     // of the memory limit: at most 1 / pinned_part is sent from at a time,
constexpr uint64_t receiving_part = 4;  // and at most 1 / receiving_part is received into

// A range of pages, within the initial limit.
struct HomeRange {
    uint64_t begin = 0, end = 0;
    uint32_t home = 0;
    uint64_t hint = 0;  // where the search for a free page starts
};

class PagePool {
  public:
    // lease_share: of the limit; lease_zone() leaves at least `unleased_min` pages outside.
    PagePool(fabric::Region& region, uint64_t reserved_pages, uint64_t limit_pages, double lease_share, uint64_t unleased_min);

    // Divides the pages among that many homes; called before any page is taken. The parts begin at multiples of `align` pages.
    void divide(uint32_t homes, uint64_t align);
    uint32_t homes() const { return homes_; }
    uint32_t home_of(uint32_t partition, uint32_t partition_count) const {
        return uint32_t(uint64_t(partition) * homes_ / partition_count);
    }
    // Empty with one home.
    const std::vector<HomeRange>& zone_ranges() const { return zone_ranges_; }
    const std::vector<HomeRange>& other_ranges() const { return other_ranges_; }

    bool take_page(uint64_t& number, uint32_t home);
    bool take_zone_page(uint64_t& number, uint32_t home);  // from the lease zone only
    // `zone`: wholly inside the lease zone.
    bool take_run(uint64_t pages, bool zone, uint64_t& first);
    void give_back(uint64_t first, uint64_t pages);
    // The same for a page whose descriptors the system does not back; counts the refusal.
    void refuse(uint64_t page);
    // Claim takes the whole window once all its pages are free. No pages: no window is wanted.
    void want_window(uint64_t first, uint64_t pages);
    bool claim_window(uint64_t first, uint64_t pages);
    bool is_free(uint64_t number) const;
    bool has_memory(uint64_t number) const;  // P4; never becomes false again
    // Lowers or raises the limit. The caller must empty the pages above it that are in use. False: no memory to raise it.
    bool set_limit(uint64_t pages);

    uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }
    uint64_t reserved_pages() const { return reserved_; }
    // The highest limit so far; entries of pages above it (layout::PageEntry) may be unbacked.
    uint64_t most_pages() const { return most_.load(std::memory_order_relaxed); }
    uint64_t limit_pages() const { return limit_.load(std::memory_order_relaxed); }
    uint64_t limit_bytes() const { return limit_pages() * layout::page_bytes; }
    uint64_t pages_out() const { return out_.load(std::memory_order_relaxed); }
    uint64_t lease_zone() const { return zone_.load(std::memory_order_relaxed); }

  private:
    struct Bits {  // a bit per page
        std::vector<uint64_t> words;
        bool has(uint64_t page) const { return (words[page / 64] >> (page % 64) & 1) != 0; }
        void add(uint64_t page) { words[page / 64] |= UINT64_C(1) << (page % 64); }
        void remove(uint64_t page) { words[page / 64] &= ~(UINT64_C(1) << (page % 64)); }
    };
    enum class Among : uint8_t { free, free_with_memory };

    uint64_t zone_for(uint64_t limit) const;
    template <class Find>
    bool take_with_memory(uint64_t pages, uint64_t& first, Find find);
    bool have_memory(uint64_t first, uint64_t pages);
    // Called under the lock.
    bool take_in_zone(Among among, uint32_t home, uint64_t& number);
    bool take_run_below(Among among, uint64_t end, uint64_t pages, uint64_t& first);
    bool take_between(Among among, uint64_t begin, uint64_t end, uint64_t& hint, uint64_t& number);
    bool take_at_home(Among among, std::vector<HomeRange>& ranges, uint32_t home, uint64_t begin, uint64_t end,
                      uint64_t& number);
    void take_these(uint64_t first, uint64_t pages);
    void put_back(uint64_t first, uint64_t pages);
    uint64_t free_word(Among among, uint64_t number) const {  // the bitmap word of that page
        const uint64_t word = free_.words[number / 64];
        return among == Among::free ? word : word & backed_.words[number / 64];
    }

    fabric::Region& region_;
    const uint64_t reserved_;
    const double lease_share_;
    const uint64_t unleased_min_;
    std::atomic<uint64_t> zone_;
    mutable std::mutex lock_;
    Bits free_, backed_;        // under the lock, as all below; backed: by memory
    uint64_t free_backed_ = 0;  // pages that are both
    std::atomic<uint64_t> refused_{0};
    std::atomic<uint64_t> limit_, most_, out_{0};  // written under the lock
    uint64_t hint_ = 0, zone_hint_ = 0;
    uint32_t homes_ = 1;                                 // only divide() writes it
    std::vector<HomeRange> zone_ranges_, other_ranges_;  // by home
    uint64_t window_first_ = 0, window_end_ = 0;
};

// Sums over all partitions. Threads: any, without a lock.
class WithheldBytes {
  public:
    explicit WithheldBytes(const PagePool& pool) : pool_(pool) {}

    // Adds to the bytes of dead slots (S8); negative: subtracts.
    void count_dead(int64_t bytes) { dead_.fetch_add(uint64_t(bytes), std::memory_order_relaxed); }
    double dead_share() const { return double(dead_.load(std::memory_order_relaxed)) / double(pool_.limit_bytes()); }

    // Bytes of pages with slots that replies are sent from, and of the whole pages that each upload may need. False: the sum
    // would exceed its share of the memory limit; nothing was counted.
    bool count_pinned(uint64_t bytes) { return add_below(pinned_, bytes, pool_.limit_bytes() / pinned_part); }
    bool count_receiving(uint64_t bytes) { return add_below(receiving_, bytes, pool_.limit_bytes() / receiving_part); }
    void uncount_pinned(uint64_t bytes) { pinned_.fetch_sub(bytes, std::memory_order_relaxed); }
    void uncount_receiving(uint64_t bytes) { receiving_.fetch_sub(bytes, std::memory_order_relaxed); }
    // Whether `bytes` more may be pinned once `freed` bytes are unpinned.
    bool may_pin(uint64_t bytes, uint64_t freed) const {
        const uint64_t now = pinned();
        return now - std::min(now, freed) + bytes <= pool_.limit_bytes() / pinned_part;
    }
    uint64_t pinned() const { return pinned_.load(std::memory_order_relaxed); }
    uint64_t receiving() const { return receiving_.load(std::memory_order_relaxed); }

  private:
    const PagePool& pool_;
    std::atomic<uint64_t> dead_{0}, pinned_{0}, receiving_{0};
};

// LeaseStop: whether a node grants leases at all. Granting stops when a store found no memory anywhere. The lease zone prevents
// that (S8), unless the memory limit was lowered below the leased bytes. All other work continues. Owner: an Arena.
//
// L1  After a shortage, no lease is granted or renewed until a store has found memory and then `calm_s` pass without another
//     shortage, or until all leases have ended. So the state does not flip with every store.
// L2  Any thread may call. Two concurrent calls may count one stop twice, or resume after `calm_s` despite one more shortage:
//     the next shortage stops leases again.
class LeaseStop {
  public:
    static constexpr uint32_t calm_s = 10;

    // A store found no memory. All current leases end within longest_s seconds.
    void shortage(NodeSeconds now, uint32_t longest_s) {
        if (!stopped(now)) times_.fetch_add(1, std::memory_order_relaxed);
        resume_at_.store(now + longest_s + 1, std::memory_order_relaxed);
    }
    // A store found memory.
    void found(NodeSeconds now) {
        const NodeSeconds at = resume_at_.load(std::memory_order_relaxed);
        if (now < at) resume_at_.store(std::min(at, now + calm_s), std::memory_order_relaxed);
    }
    bool stopped(NodeSeconds now) const { return now < resume_at_.load(std::memory_order_relaxed); }
    uint64_t times() const { return times_.load(std::memory_order_relaxed); }

  private:
    std::atomic<NodeSeconds> resume_at_{0};
    std::atomic<uint64_t> times_{0};
};

}  // namespace farcached::node
