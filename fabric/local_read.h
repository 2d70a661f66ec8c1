// SPDX-License-Identifier: BSD-3-Clause
// The lock-free, lease-less read of a region mapped in this process (S4, S5, S13).
//
// It copies the item by word-sized relaxed atomics between two loads each of page epoch, index slot and guard, and loads
// the flush floor after the copy. Then validate() decides. It proves a hit, never a miss. It never retries and never
// blocks a writer: a failed read takes the locked path, once. Any thread; no state.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/broken.h"
#include "base/hash.h"
#include "base/node_clock.h"
#include "base/prefetch.h"
#include "fabric/region.h"
#include "fabric/validate.h"
#include "protocol/words.h"

namespace farcached::fabric {

// The slot and guard of the item, for access reports.
struct Found {
    layout::Slot slot;
    layout::Guard guard;
};

// Tests stop a reader at every step: they pass a callable that gets the step and may block there.
enum class Step : uint8_t { count_read, slot_read, epoch_read, guard_read, header_read, key_read, word_copied, copied };
struct NoSteps {
    void operator()(Step at) const {
        broken::hold_up(at == Step::word_copied ? broken::faults.reading : broken::faults.probing);
    }
};
inline constexpr NoSteps no_steps;

constexpr uint32_t overflow_hops_max = 8;  // a longer chain takes the locked path

void prefetch_bucket(const RegionView& view, uint64_t hash);
void prefetch_item(const RegionView& view, uint64_t hash);

namespace detail {

inline const layout::Bucket* bucket_at(const RegionView& view, uint64_t offset, uint64_t number) {
    return reinterpret_cast<const layout::Bucket*>(view.base + offset) + number;
}

// Number of buckets in use, at most buckets_max.
inline uint32_t bucket_count(const layout::PartitionEntry& partition, const IndexShape& shape) {
    const uint64_t count = words::load_acquire(&partition.bucket_count);
    return uint32_t(count < shape.buckets_max ? count : shape.buckets_max);
}

// An item's page and longest possible size; false if the slot points outside the arena.
inline bool locate(const RegionView& view, layout::Slot slot, uint64_t& page, uint64_t& capacity) {
    uint64_t offset = slot.offset();
    page = offset / layout::page_bytes;
    if (offset >= view.arena_bytes) return false;
    if (slot.size_class() == layout::large_class) {
        uint64_t pages = __atomic_load_n(&view.pages[page].run_pages, __ATOMIC_RELAXED);
        capacity = pages * layout::page_bytes;
    } else {
        if (slot.size_class() >= 64) return false;
        capacity = __atomic_load_n(&view.header->class_bytes[slot.size_class()], __ATOMIC_RELAXED);
    }
    if (capacity < sizeof(layout::ItemHeader)) return false;
    return capacity <= view.arena_bytes - offset;
}

inline layout::ItemHeader load_header(const uint64_t* item, uint64_t guard) {
    uint64_t w[5] = {guard, 0, words::load_relaxed(item + 2), words::load_relaxed(item + 3),
                     words::load_relaxed(item + 4)};
    layout::ItemHeader header;
    static_assert(sizeof w == sizeof header);
    std::memcpy(&header, w, sizeof header);
    return header;
}

// Prefetches the item's second line and the owner's record of the item, while the guard is being loaded.
inline void prefetch_more(const RegionView& view, uint64_t page, uint64_t offset, uint64_t capacity) {
    prefetch(view.arena + offset / 8 + 8);
    if (view.descriptors == nullptr) return;
    const uint32_t slot = uint32_t(offset % layout::page_bytes) / uint32_t(std::min<uint64_t>(capacity, layout::page_bytes));
    const char* next = view.descriptors + (page * layout::page_slots_max + slot + 1) * view.descriptor_bytes;
    prefetch_to_write(next - 1);  // the owner writes the end of the record
}

// Reads the item at one slot whose tag matched. key_differs: another key; continue probing.
template <class Sink, class Steps>
Outcome read_item(const RegionView& view, const layout::PartitionEntry& partition, const uint64_t* slot,
                  std::string_view key, const Expect& expect, Sink& sink, Found& found, Steps& steps,
                  bool& key_differs) {
    Seen seen;
    uint64_t page = 0;
    seen.slot_before = {words::load_acquire(slot)};
    if (!locate(view, seen.slot_before, page, seen.capacity_bytes)) return Outcome::bounds;
    steps(Step::slot_read);
    seen.epoch_before = words::load_acquire(&view.pages[page].epoch);
    steps(Step::epoch_read);
    const uint64_t* item = view.arena + seen.slot_before.offset() / 8;
    prefetch_more(view, page, seen.slot_before.offset(), seen.capacity_bytes);
    seen.guard_before = {words::load_acquire(item)};
    if (seen.guard_before.state() != layout::GuardState::live) return Outcome::guard_dead;
    steps(Step::guard_read);
    seen.header = load_header(item, seen.guard_before.word);
    steps(Step::header_read);
    if (!lengths_fit(seen.header, seen.capacity_bytes)) return Outcome::bounds;
    seen.key_equal = broken::s4_skip_key ||
                     (seen.header.key_len == key.size() &&
                      words::equal(item, sizeof(layout::ItemHeader), key.data(), key.size()));
    if (!seen.key_equal) {
        key_differs = true;
        return Outcome::not_found;
    }
    steps(Step::key_read);
    ReadMeta meta{seen.header.cas,     seen.header.value_len, seen.header.flags,
                  seen.header.exptime, seen.slot_before.size_class(),
                  (seen.header.format & layout::format_key_binary) != 0};
    char* to = sink(static_cast<const ReadMeta&>(meta));
    if (to != nullptr)
        words::copy_out(to, item, sizeof(layout::ItemHeader) + seen.header.key_len,
                        seen.header.value_len, [&] { steps(Step::word_copied); });
    steps(Step::copied);
    std::atomic_thread_fence(std::memory_order_acquire);
    // The floor before the guard: a floor sinks only after all items that it hid are dead.
    seen.flush_floor = words::load_acquire(&partition.flush_floor);
    // The slot before the epoch: if it now points into a page that was cut again, the new epoch is visible, too.
    seen.slot_after = {words::load_acquire(slot)};
    seen.guard_after = {words::load_relaxed(item)};
    seen.epoch_after = words::load_relaxed(&view.pages[page].epoch);
    found = {seen.slot_before, seen.guard_before};
    return validate(expect, seen);
}

}  // namespace detail

// Looks `key` up and copies its value. Calls `sink(const ReadMeta&) -> char*` at most once, after the key has matched:
// it returns the place for value_len bytes, or nullptr for no copy. Unless the outcome is hit, everything written by
// sink and the copy is garbage.
template <class Sink, class Steps>
Outcome local_read(const RegionView& view, std::string_view key, uint64_t hash, NodeSeconds now,
                   bool tokens_matter, Sink&& sink, Found& found, Steps&& steps) {
    const uint32_t number = layout::partition_of(hash, view.partition_count_log2);
    const layout::PartitionEntry& partition = view.partitions[number];
    const IndexShape& shape = view.shapes[number];
    const uint32_t count = detail::bucket_count(partition, shape);
    steps(Step::count_read);
    const layout::Bucket* bucket =
        detail::bucket_at(view, shape.buckets_offset, layout::bucket_of(hash, count));
    const uint32_t tag = layout::tag_of(hash);
    const Expect expect{uint32_t(key.size()), now, tokens_matter};
    for (uint32_t hop = 0; hop <= overflow_hops_max; hop++) {
        for (const uint64_t& slot : bucket->slots) {
            layout::Slot seen{words::load_relaxed(&slot)};
            if (seen.empty() || seen.tag() != tag) continue;
            bool key_differs = false;
            Outcome outcome = detail::read_item(view, partition, &slot, key, expect, sink, found,
                                                steps, key_differs);
            if (!key_differs) return outcome;
        }
        uint64_t link = words::load_acquire(&bucket->overflow);
        if (link == 0) return Outcome::not_found;
        if (link > shape.overflow_max) return Outcome::bounds;
        bucket = detail::bucket_at(view, shape.overflow_offset, link - 1);
    }
    return Outcome::not_found;
}

}  // namespace farcached::fabric
