// SPDX-License-Identifier: BSD-3-Clause
#include "node/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/broken.h"
#include "base/check.h"
#include "protocol/words.h"

namespace farcached::node {

Arena::Arena(fabric::Region& region, const SizeClasses& classes, uint64_t reserved_pages,
             uint64_t limit_pages, double lease_share, uint64_t unleased_min, bool huge_pages)
    : region_(region),
      classes_(classes),
      reserved_(reserved_pages),
      descriptor_memory_(Mapping::Kind::private_memory,
                         reserved_pages * layout::page_slots_max * sizeof(Descriptor), huge_pages),
      descriptors_(reinterpret_cast<Descriptor*>(descriptor_memory_.data())),
      page_memory_(Mapping::Kind::private_memory, reserved_pages * sizeof(Page), false),
      pages_(reinterpret_cast<Page*>(page_memory_.data())),
      lease_share_(lease_share),
      unleased_min_(unleased_min),
      zone_(zone_for(limit_pages)),
      free_((reserved_pages + 63) / 64, ~UINT64_C(0)),
      backed_(reserved_pages),
      limit_(limit_pages) {
    CHECK(reserved_pages <= arena_pages_max);
    CHECK(limit_pages <= reserved_pages);
}

void Arena::set_free_locked(uint64_t number, bool is_free) {
    uint64_t bit = UINT64_C(1) << (number % 64);
    if (is_free)
        free_[number / 64] |= bit;
    else
        free_[number / 64] &= ~bit;
}

uint64_t Arena::zone_for(uint64_t limit) const {
    if (broken::s8_lease_anywhere) return limit;
    if (limit <= unleased_min_) return 0;
    return std::min(uint64_t(double(limit) * lease_share_), limit - unleased_min_);
}

bool Arena::take_between(uint64_t begin, uint64_t end, uint64_t& hint, uint64_t& number) {
    if (out_ >= limit_) return false;
    if (hint < begin || hint >= end) hint = begin;
    for (uint64_t tried = begin; tried < end;) {
        const uint64_t left = free_[hint / 64] >> (hint % 64);  // of this word, from hint on
        const bool wanted = hint >= window_first_ && hint < window_end_;
        if ((left & 1) != 0 && !wanted) {
            number = hint;
            set_free_locked(number, false);
            out_++;
            return true;
        }
        uint64_t step = 1;
        if (left == 0) step = std::min(64 - hint % 64, end - hint);
        tried += step;
        hint = hint + step >= end ? begin : hint + step;
    }
    return false;
}

bool Arena::take_at_home(std::vector<HomeRange>& ranges, uint32_t home, uint64_t begin, uint64_t end,
                         uint64_t& number) {
    if (ranges.empty()) return false;
    HomeRange& range = ranges[home];
    return take_between(std::max(begin, range.begin), std::min(end, range.end), range.hint, number);
}

// From the system, when a page is taken for the first time. What a kernel cannot do that is older than this (5.14) it does
// when somebody writes there.
bool Arena::have_memory(uint64_t first, uint64_t pages) {
    for (uint64_t number = first; number < first + pages; number++) {
        if (backed_[number] != 0) continue;
        void* const at = region_.arena() + number * layout::page_bytes / 8;
        if (madvise(at, layout::page_bytes, MADV_POPULATE_WRITE) != 0 && errno != EINVAL) {
            give_back(first, pages);
            refused_.fetch_add(1, std::memory_order_relaxed);
            return false;
        }
        backed_[number] = 1;
    }
    return true;
}

bool Arena::take_page(uint64_t& number, uint32_t home) {
    return take_any_page(number, home) && have_memory(number, 1);
}

bool Arena::take_any_page(uint64_t& number, uint32_t home) {
    std::lock_guard hold(pool_lock_);
    const uint64_t zone = lease_zone();
    if (take_at_home(other_ranges_, home, zone, limit_, number)) return true;
    if (take_between(zone, limit_, hint_, number)) return true;
    if (take_at_home(zone_ranges_, home, 0, zone, number)) return true;
    return take_between(0, zone, zone_hint_, number);
}

bool Arena::take_zone_page(uint64_t& number, uint32_t home) {
    {
        std::lock_guard hold(pool_lock_);
        if (!take_at_home(zone_ranges_, home, 0, lease_zone(), number) &&
            !take_between(0, lease_zone(), zone_hint_, number))
            return false;
    }
    return have_memory(number, 1);
}

void Arena::divide(uint32_t homes, uint64_t align) {
    CHECK(homes > 0 && align > 0 && out_ == 0);
    homes_ = homes;
    if (homes == 1) return;
    const auto parts = [&](uint64_t begin, uint64_t end) {
        std::vector<HomeRange> ranges;
        uint64_t from = begin;
        for (uint32_t home = 0; home < homes; home++) {
            const uint64_t equal = begin + (end - begin) * (home + 1) / homes;
            const uint64_t to = home + 1 == homes ? end : std::max(from, equal / align * align);
            ranges.push_back({from, to, home, from});
            from = to;
        }
        return ranges;
    };
    zone_ranges_ = parts(0, lease_zone());
    other_ranges_ = parts(lease_zone(), limit_);
}

bool Arena::take_run(uint64_t pages, uint64_t& first) {
    {
        std::lock_guard hold(pool_lock_);
        if (!take_run_below(limit_, pages, first)) return false;
    }
    return have_memory(first, pages);
}

bool Arena::take_zone_run(uint64_t pages, uint64_t& first) {
    {
        std::lock_guard hold(pool_lock_);
        if (!take_run_below(std::min(limit_.load(), lease_zone()), pages, first)) return false;
    }
    return have_memory(first, pages);
}

bool Arena::take_run_below(uint64_t end, uint64_t pages, uint64_t& first) {
    if (out_ + pages > limit_) return false;
    uint64_t have = 0;
    for (uint64_t at = end; at-- > 0;) {  // from the top: single pages are taken from below
        if (at % 64 == 63 && free_[at / 64] == 0) {
            at -= 63;
            have = 0;
            continue;
        }
        have = free_locked(at) ? have + 1 : 0;
        if (have < pages) continue;
        first = at;
        for (uint64_t i = 0; i < pages; i++) set_free_locked(first + i, false);
        out_ += pages;
        return true;
    }
    return false;
}

void Arena::give_back(uint64_t first, uint64_t pages) {
    std::lock_guard hold(pool_lock_);
    for (uint64_t i = 0; i < pages; i++) {
        CHECK(!free_locked(first + i));
        set_free_locked(first + i, true);
    }
    out_ -= pages;
    (first < lease_zone() ? zone_hint_ : hint_) = first;
    for (std::vector<HomeRange>* ranges : {&zone_ranges_, &other_ranges_})
        for (HomeRange& range : *ranges)
            if (range.begin <= first && first < range.end) range.hint = first;
}

void Arena::want_window(uint64_t first, uint64_t pages) {
    std::lock_guard hold(pool_lock_);
    window_first_ = first;
    window_end_ = first + pages;
}

bool Arena::claim_window(uint64_t first, uint64_t pages) {
    {
        std::lock_guard hold(pool_lock_);
        if (out_ + pages > limit_) return false;
        for (uint64_t i = 0; i < pages; i++)
            if (!free_locked(first + i)) return false;
        for (uint64_t i = 0; i < pages; i++) set_free_locked(first + i, false);
        out_ += pages;
    }
    return have_memory(first, pages);
}

void Arena::drop_window() { want_window(0, 0); }

bool Arena::is_free(uint64_t number) {
    std::lock_guard hold(pool_lock_);
    return free_locked(number);
}

void Arena::set_limit(uint64_t pages) {
    std::lock_guard hold(pool_lock_);
    CHECK(pages <= reserved_);
    limit_ = pages;
    zone_.store(zone_for(pages), std::memory_order_relaxed);
}

uint64_t Arena::limit_pages() const {
    std::lock_guard hold(pool_lock_);
    return limit_;
}

uint64_t Arena::pages_out() const {
    std::lock_guard hold(pool_lock_);
    return out_;
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
    give_back(first, pages);
}

}  // namespace farcached::node
