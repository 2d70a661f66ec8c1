// SPDX-License-Identifier: BSD-3-Clause
#include "node/memory/page_pool.h"

#include <algorithm>

#include "base/broken.h"
#include "base/check.h"
#include "base/mapping.h"

namespace farcached::node {

PagePool::PagePool(fabric::Region& region, uint64_t reserved_pages, uint64_t limit_pages, double lease_share,
                   uint64_t unleased_min)
    : region_(region),
      reserved_(reserved_pages),
      lease_share_(lease_share),
      unleased_min_(unleased_min),
      zone_(zone_for(limit_pages)),
      free_{std::vector<uint64_t>((reserved_pages + 63) / 64, ~UINT64_C(0))},
      backed_{std::vector<uint64_t>((reserved_pages + 63) / 64)},
      limit_(limit_pages),
      most_(limit_pages) {
    CHECK(limit_pages <= reserved_pages);
}

void PagePool::take_these(uint64_t first, uint64_t pages) {
    for (uint64_t number = first; number < first + pages; number++) {
        free_.remove(number);
        if (backed_.has(number)) free_backed_--;
    }
    out_ += pages;
}

void PagePool::put_back(uint64_t first, uint64_t pages) {
    for (uint64_t number = first; number < first + pages; number++) {
        CHECK(!free_.has(number));
        free_.add(number);
        if (backed_.has(number)) free_backed_++;
    }
    out_ -= pages;
}

uint64_t PagePool::zone_for(uint64_t limit) const {
    if (broken::s8_lease_anywhere) return limit;
    if (limit <= unleased_min_) return 0;
    return std::min(uint64_t(double(limit) * lease_share_), limit - unleased_min_);
}

bool PagePool::take_between(Among among, uint64_t begin, uint64_t end, uint64_t& hint, uint64_t& number) {
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

bool PagePool::take_at_home(Among among, std::vector<HomeRange>& ranges, uint32_t home, uint64_t begin, uint64_t end,
                         uint64_t& number) {
    if (ranges.empty()) return false;
    HomeRange& range = ranges[home];
    return take_between(among, std::max(begin, range.begin), std::min(end, range.end), range.hint, number);
}

// P4. Refused pages return to the pool; no hint leads to them again before all others were checked.
template <class Find>
bool PagePool::take_with_memory(uint64_t pages, uint64_t& first, Find find) {
    for (const Among among : {Among::free, Among::free_with_memory}) {
        {
            std::lock_guard hold(lock_);
            if (!find(among)) return false;
        }
        if (have_memory(first, pages)) return true;
    }
    return false;
}

// Backs pages with memory when they are taken for the first time. False: they returned to the pool. The system call is slow, and
// runs without the lock.
bool PagePool::have_memory(uint64_t first, uint64_t pages) {
    for (uint64_t number = first; number < first + pages; number++) {
        if (has_memory(number)) continue;
        const bool backed = populate(region_.arena() + number * layout::page_bytes / 8, layout::page_bytes);
        std::lock_guard hold(lock_);
        if (backed) {
            backed_.add(number);
            continue;
        }
        put_back(first, pages);
        refused_.fetch_add(1, std::memory_order_relaxed);
        return false;
    }
    return true;
}

bool PagePool::take_page(uint64_t& number, uint32_t home) {
    return take_with_memory(1, number, [&](Among among) {
        const uint64_t zone = lease_zone();
        return take_at_home(among, other_ranges_, home, zone, limit_, number) ||
               take_between(among, zone, limit_, hint_, number) || take_in_zone(among, home, number);
    });
}

bool PagePool::take_zone_page(uint64_t& number, uint32_t home) {
    return take_with_memory(1, number, [&](Among among) { return take_in_zone(among, home, number); });
}

void PagePool::refuse(uint64_t page) {
    give_back(page, 1);
    refused_.fetch_add(1, std::memory_order_relaxed);
}

bool PagePool::take_in_zone(Among among, uint32_t home, uint64_t& number) {
    return take_at_home(among, zone_ranges_, home, 0, lease_zone(), number) ||
           take_between(among, 0, lease_zone(), zone_hint_, number);
}

void PagePool::divide(uint32_t homes, uint64_t align) {
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

bool PagePool::take_run(uint64_t pages, bool zone, uint64_t& first) {
    return take_with_memory(pages, first, [&](Among among) {
        return take_run_below(among, zone ? std::min(limit_.load(), lease_zone()) : limit_.load(), pages, first);
    });
}

bool PagePool::take_run_below(Among among, uint64_t end, uint64_t pages, uint64_t& first) {
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

void PagePool::give_back(uint64_t first, uint64_t pages) {
    std::lock_guard hold(lock_);
    put_back(first, pages);
    (first < lease_zone() ? zone_hint_ : hint_) = first;
    for (std::vector<HomeRange>* ranges : {&zone_ranges_, &other_ranges_})
        for (HomeRange& range : *ranges)
            if (range.begin <= first && first < range.end) range.hint = first;
}

void PagePool::want_window(uint64_t first, uint64_t pages) {
    std::lock_guard hold(lock_);
    window_first_ = first;
    window_end_ = first + pages;
}

bool PagePool::claim_window(uint64_t first, uint64_t pages) {
    {
        std::lock_guard hold(lock_);
        if (out_ + pages > limit_) return false;
        for (uint64_t i = 0; i < pages; i++)
            if (!free_.has(first + i)) return false;
        take_these(first, pages);
    }
    return have_memory(first, pages);
}

bool PagePool::is_free(uint64_t number) const {
    std::lock_guard hold(lock_);
    return free_.has(number);
}

bool PagePool::has_memory(uint64_t number) const {
    std::lock_guard hold(lock_);
    return backed_.has(number);
}

bool PagePool::set_limit(uint64_t pages) {
    std::lock_guard hold(lock_);
    CHECK(pages <= reserved_);
    if (pages > most_) {
        if (!region_.have_pages(pages)) return false;
        most_ = pages;
    }
    limit_ = pages;
    zone_.store(zone_for(pages), std::memory_order_relaxed);
    return true;
}

}  // namespace farcached::node
