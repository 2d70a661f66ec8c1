// SPDX-License-Identifier: BSD-3-Clause
#include "node/dead_slots.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace farcached::node {

namespace {

uint32_t bits_of(uint64_t key_hash) { return uint32_t(key_hash); }

}  // namespace

DeadSlots::DeadSlots(Descriptors items, uint64_t pages_max)
    : items_(items),
      bucket_mask_(uint32_t(std::bit_ceil(std::clamp<uint64_t>(pages_max * buckets_per_page, 64, UINT32_C(1) << 24))) - 1),
      buckets_(Mapping::Kind::private_memory, (size_t(bucket_mask_) + 1) * sizeof(Ref), /* huge_pages= */ false) {
    by_second_.fill(nil);
}

void DeadSlots::add(Ref ref, uint64_t key_hash) {
    Descriptor& item = items_[ref];
    CHECK(item.state == SlotState::dead);
    CHECK(item.lease_end != 0);
    Ref& head = by_second_[item.lease_end % lease_seconds_max];
    item.prev = nil;
    item.next = head;
    if (head != nil) items_[head].prev = ref;
    head = ref;
    item.hash_bits = bits_of(key_hash);
    Ref& first = bucket(item.hash_bits);
    item.chain = first == 0 ? nil : first - 1;
    first = ref + 1;
    count_++;
}

void DeadSlots::remove(Ref ref) {
    Descriptor& item = items_[ref];
    CHECK(item.state == SlotState::dead);
    if (item.prev != nil)
        items_[item.prev].next = item.next;
    else
        by_second_[item.lease_end % lease_seconds_max] = item.next;
    if (item.next != nil) items_[item.next].prev = item.prev;
    unlink_key(ref);
    count_--;
    if (broken::s2_stale_reclaim) stale_.push_back({ref, item.lease_end});
}

void DeadSlots::unlink_key(Ref ref) {
    const Descriptor& item = items_[ref];
    Ref& first = bucket(item.hash_bits);
    if (first == ref + 1) {
        first = item.chain == nil ? 0 : item.chain + 1;
        return;
    }
    CHECK(first != 0);
    Ref before = first - 1;
    while (items_[before].chain != ref) {
        before = items_[before].chain;
        CHECK(before != nil);
    }
    items_[before].chain = item.chain;
}

Ref DeadSlots::find(uint64_t key_hash, FunctionRef<bool(Ref)> stop) const {
    const uint32_t bits = bits_of(key_hash);
    const Ref first = bucket(bits);
    for (Ref ref = first == 0 ? nil : first - 1; ref != nil; ref = items_[ref].chain) {
        if (items_[ref].hash_bits != bits && !broken::s1_remember_by_hash) continue;
        if (stop(ref)) return ref;
    }
    return nil;
}

void DeadSlots::ended(NodeSeconds now, FunctionRef<void(Ref)> freed) {
    if (broken::s2_stale_reclaim) end_stale(now, freed);
    if (now <= ended_before_) return;
    // After a long pause, each second's list is visited once.
    const NodeSeconds from = std::max(ended_before_, now - std::min<NodeSeconds>(now, lease_seconds_max));
    if (count_ != 0)
        for (NodeSeconds second = from; second < now; second++) end_second(second % lease_seconds_max, now, freed);
    ended_before_ = now;
}

void DeadSlots::end_second(uint32_t second, NodeSeconds now, FunctionRef<void(Ref)> freed) {
    Ref next = nil;
    for (Ref ref = by_second_[second]; ref != nil; ref = next) {
        next = items_[ref].next;
        if (items_[ref].lease_end >= now) continue;
        remove(ref);
        freed(ref);
    }
}

// Simulates a queue whose entries outlive a revival, without comparing lease ends.
void DeadSlots::end_stale(NodeSeconds now, FunctionRef<void(Ref)> freed) {
    for (size_t i = 0; i < stale_.size();) {
        const Stale entry = stale_[i];
        if (entry.lease_end >= now) {
            i++;
            continue;
        }
        stale_.erase(stale_.begin() + ptrdiff_t(i));
        const auto is_it = [&](Ref ref) { return ref == entry.ref; };
        if (find(items_[entry.ref].hash_bits, is_it) == nil) continue;  // alive, free, or of another partition
        remove(entry.ref);
        stale_.pop_back();
        freed(entry.ref);
    }
}

}  // namespace farcached::node
