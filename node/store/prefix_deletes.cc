// SPDX-License-Identifier: BSD-3-Clause
#include "node/store/prefix_deletes.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <optional>
#include <utility>

#include "base/broken.h"
#include "base/check.h"
#include "base/limits.h"
#include "node/memory/memory_file.h"
#include "node/store/partitions.h"

namespace farcached::node {

namespace {

// The entry of the file's notes for that delete. nullptr: there is no file. False: the notes are full.
bool note_prefix(MemoryFile* file, std::string_view prefix, uint64_t order, Notes::Prefix*& noted) {
    if (file == nullptr) return true;
    const auto begin = std::begin(file->notes().prefixes), end = std::end(file->notes().prefixes);
    auto entry = std::find_if(begin, end, [&](const Notes::Prefix& at) {
        return at.order != 0 && prefix == std::string_view(at.bytes, at.length);
    });
    if (entry == end) {
        entry = std::find_if(begin, end, [](const Notes::Prefix& at) { return at.order == 0; });
        if (entry == end) return false;
        std::fill(std::begin(entry->floors), std::end(entry->floors), 0);
        entry->length = uint8_t(prefix.size());
        prefix.copy(entry->bytes, prefix.size());
    }
    __atomic_store_n(&entry->order, order, __ATOMIC_RELEASE);
    noted = &*entry;
    return true;
}

}  // namespace

// Moved keys are noted as an empty prefix: a restart before the sweep's end drops all items of that time.
bool PrefixDeletes::begin(PartialFlush& flush) {
    CHECK(flush.kept != nullptr ? flush.prefix.empty() : !flush.prefix.empty() && flush.prefix.size() <= limits::key_bytes_max);
    std::lock_guard one_at_a_time(lock_);
    const uint64_t order = last_order_.load(std::memory_order_relaxed) + 1;
    bool begun = false;
    try {
        std::string own(flush.prefix);
        flush.floors.reserve(partitions_.count());  // reserved first: hidden items need their floor
        Notes::Prefix* noted = nullptr;
        if (!note_prefix(file_, flush.prefix, order, noted)) return false;
        broken::step();
        partitions_.each([&](Partition& partition) {
            flush.floors.push_back(partition.hide(flush, order));
            if (noted != nullptr)
                __atomic_store_n(&noted->floors[flush.floors.size() - 1], flush.floors.back(), __ATOMIC_RELEASE);
            broken::step();
        });
        begun = std::ranges::count(flush.floors, 0u) == 0;
        // Before the order is pending, so before its sweep ends.
        if (begun && !own.empty()) counts_.deleted(std::move(own), order);
    } catch (const std::bad_alloc&) {
        begun = false;
    }
    last_order_.store(order, std::memory_order_release);  // noted prefixes are swept in any case
    counts_.tell();
    return begun;
}

// One page per lock hold, so other threads wait for at most one page. Pages listed during the walk have no lease on hidden
// items.
bool PrefixDeletes::go_on(PartialFlush& under_way, uint32_t pages_max, NodeSeconds now) {
    for (uint32_t looked_at = 0; looked_at < pages_max;) {
        if (under_way.pages.empty()) {
            if (under_way.partition == under_way.floors.size()) {
                if (under_way.kept == nullptr) executed_.fetch_add(1, std::memory_order_relaxed);
                return true;
            }
            Partition& next = partitions_[under_way.partition];
            std::lock_guard hold(next.lock);
            under_way.pages = next.leased_pages();
            under_way.partition++;
            continue;
        }
        const uint32_t number = under_way.partition - 1;
        Partition& partition = partitions_[number];
        std::lock_guard hold(partition.lock);
        partition.kill_leased(under_way.pages.back(), under_way, under_way.floors[number], partition.latest(now));
        under_way.pages.pop_back();
        looked_at++;
    }
    return false;
}

bool PrefixDeletes::remove(std::string_view prefix, NodeSeconds now) {
    try {
        PartialFlush flush{std::string(prefix), nullptr};
        if (!begin(flush)) return false;
        while (!go_on(flush, UINT32_MAX, now)) {
        }
        return true;
    } catch (const std::bad_alloc&) {
        return false;
    }
}

uint64_t PrefixDeletes::unswept() const {
    const uint64_t last = last_order_.load(std::memory_order_acquire);
    return last == swept_order_.load(std::memory_order_relaxed) ? 0 : last;
}

void PrefixDeletes::swept(uint64_t order) {
    counts_.swept(order, [&](std::string_view prefix) {
        std::optional<uint64_t> sum = 0;
        partitions_.each([&](Partition& partition) {
            const std::optional<uint64_t> part = partition.hidden().removed(prefix);
            sum = part && sum ? std::optional<uint64_t>(*sum + *part) : std::nullopt;
        });
        return sum;
    });
    partitions_.each([&](Partition& partition) { partition.hidden().swept(order); });
    if (file_ != nullptr) {
        std::lock_guard one_at_a_time(lock_);
        for (Notes::Prefix& noted : file_->notes().prefixes)
            if (noted.order <= order) __atomic_store_n(&noted.order, 0, __ATOMIC_RELEASE);
    }
    swept_order_.store(order, std::memory_order_relaxed);
}

}  // namespace farcached::node
