// SPDX-License-Identifier: BSD-3-Clause
#include "node/arena.h"

#include <algorithm>
#include <atomic>

#include "base/broken.h"
#include "base/check.h"
#include "base/mapping.h"
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
      backed_((reserved_pages + 63) / 64),
      limit_(limit_pages),
      most_(limit_pages) {
    CHECK(reserved_pages <= arena_pages_max);
    CHECK(limit_pages <= reserved_pages);
}

void Arena::take_these(uint64_t first, uint64_t pages) {
    for (uint64_t number = first; number < first + pages; number++) {
        free_[number / 64] &= ~(UINT64_C(1) << (number % 64));
        if (bit(backed_, number)) free_backed_--;
    }
    out_ += pages;
}

void Arena::put_back(uint64_t first, uint64_t pages) {
    for (uint64_t number = first; number < first + pages; number++) {
        CHECK(!free_locked(number));
        set_bit(free_, number);
        if (bit(backed_, number)) free_backed_++;
    }
    out_ -= pages;
}

uint64_t Arena::zone_for(uint64_t limit) const {
    if (broken::s8_lease_anywhere) return limit;
    if (limit <= unleased_min_) return 0;
    return std::min(uint64_t(double(limit) * lease_share_), limit - unleased_min_);
}

bool Arena::take_between(Among among, uint64_t begin, uint64_t end, uint64_t& hint, uint64_t& number) {
    if (out_ >= limit_) return false;
    if (among == Among::free && take_between(Among::free_with_memory, begin, end, hint, number)) return true;
    if (among == Among::free_with_memory && free_backed_ == 0) return false;
    uint64_t at = hint < begin || hint >= end ? begin : hint;
    for (uint64_t tried = begin; tried < end;) {
        const uint64_t left = free_word(among, at) >> (at % 64);  // the rest of this word
        const bool wanted = at >= window_first_ && at < window_end_;
        if ((left & 1) != 0 && !wanted) {
            number = hint = at;
            take_these(number, 1);
            return true;
        }
        uint64_t step = 1;
        if (left == 0) step = std::min(64 - at % 64, end - at);
        tried += step;
        at = at + step >= end ? begin : at + step;
    }
    return false;
}

bool Arena::take_at_home(Among among, std::vector<HomeRange>& ranges, uint32_t home, uint64_t begin, uint64_t end,
                         uint64_t& number) {
    if (ranges.empty()) return false;
    HomeRange& range = ranges[home];
    return take_between(among, std::max(begin, range.begin), std::min(end, range.end), range.hint, number);
}

// A6. Refused pages return to the pool; no hint leads to them again before all others were checked.
template <class Find>
bool Arena::take_with_memory(uint64_t pages, uint64_t& first, Find find) {
    for (const Among among : {Among::free, Among::free_with_memory}) {
        {
            std::lock_guard hold(pool_lock_);
            if (!find(among)) return false;
        }
        if (have_memory(first, pages)) return true;
    }
    return false;
}

// Backs pages with memory when they are taken for the first time. False: they returned to the pool.
bool Arena::have_memory(uint64_t first, uint64_t pages) {
    for (uint64_t number = first; number < first + pages; number++) {
        if (back(number)) continue;
        std::lock_guard hold(pool_lock_);
        put_back(first, pages);
        refused_.fetch_add(1, std::memory_order_relaxed);
        return false;
    }
    return true;
}

// Runs without the lock, because the system call is slow.
bool Arena::back(uint64_t number) {
    if (has_memory(number)) return true;
    if (!populate(region_.arena() + number * layout::page_bytes / 8, layout::page_bytes)) return false;
    std::lock_guard hold(pool_lock_);
    set_bit(backed_, number);
    return true;
}

bool Arena::take_page(uint64_t& number, uint32_t home) {
    return take_with_memory(1, number, [&](Among among) { return take_any_page(among, home, number); });
}

bool Arena::take_any_page(Among among, uint32_t home, uint64_t& number) {
    const uint64_t zone = lease_zone();
    return take_at_home(among, other_ranges_, home, zone, limit_, number) ||
           take_between(among, zone, limit_, hint_, number) ||
           take_at_home(among, zone_ranges_, home, 0, zone, number) ||
           take_between(among, 0, zone, zone_hint_, number);
}

bool Arena::take_zone_page(uint64_t& number, uint32_t home) {
    return take_with_memory(1, number, [&](Among among) {
        return take_at_home(among, zone_ranges_, home, 0, lease_zone(), number) ||
               take_between(among, 0, lease_zone(), zone_hint_, number);
    });
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
    return take_with_memory(pages, first, [&](Among among) { return take_run_below(among, limit_, pages, first); });
}

bool Arena::take_zone_run(uint64_t pages, uint64_t& first) {
    return take_with_memory(pages, first, [&](Among among) {
        return take_run_below(among, std::min(limit_.load(), lease_zone()), pages, first);
    });
}

bool Arena::take_run_below(Among among, uint64_t end, uint64_t pages, uint64_t& first) {
    if (out_ + pages > limit_) return false;
    if (among == Among::free && take_run_below(Among::free_with_memory, end, pages, first)) return true;
    if (among == Among::free_with_memory && free_backed_ < pages) return false;
    uint64_t have = 0;
    for (uint64_t at = end; at-- > 0;) {  // from the top: single pages are taken from below
        const uint64_t word = free_word(among, at);
        if (at % 64 == 63 && word == 0) {
            at -= 63;
            have = 0;
            continue;
        }
        have = (word >> (at % 64) & 1) != 0 ? have + 1 : 0;
        if (have < pages) continue;
        first = at;
        take_these(first, pages);
        return true;
    }
    return false;
}

void Arena::give_back(uint64_t first, uint64_t pages) {
    std::lock_guard hold(pool_lock_);
    put_back(first, pages);
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
        take_these(first, pages);
    }
    return have_memory(first, pages);
}

void Arena::drop_window() { want_window(0, 0); }

bool Arena::is_free(uint64_t number) const {
    std::lock_guard hold(pool_lock_);
    return free_locked(number);
}

bool Arena::has_memory(uint64_t number) const {
    std::lock_guard hold(pool_lock_);
    return bit(backed_, number);
}

bool Arena::set_limit(uint64_t pages) {
    std::lock_guard hold(pool_lock_);
    CHECK(pages <= reserved_);
    if (pages > most_) {
        if (!region_.have_pages(pages)) return false;
        most_ = pages;
    }
    limit_ = pages;
    zone_.store(zone_for(pages), std::memory_order_relaxed);
    return true;
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
