// SPDX-License-Identifier: BSD-3-Clause
#include "node/store/eviction_order.h"

#include <algorithm>

namespace farcached::node {

void EvictionOrder::attach(Arena& arena, PolicyKind kind, uint64_t private_seed) {
    arena_ = &arena;
    choose_policy(policy_, kind, private_seed);
}

void EvictionOrder::add(Ref ref, uint64_t key_hash, NodeSeconds now) {
    const uint8_t size_class = size_class_of(*arena_, ref);
    std::visit([&](auto& policy) { policy.inserted(moment(now), size_class, ref, key_hash); }, policy_);
}

void EvictionOrder::replace(Ref ref, const Descriptor& before, bool same_item, NodeSeconds now) {
    const uint8_t size_class = size_class_of(*arena_, ref);
    Descriptor& descriptor = arena_->descriptor(ref);
    const uint32_t touches = before.access_count + (same_item ? 0 : 1);
    descriptor.access_count = uint16_t(std::min<uint32_t>(touches, UINT16_MAX));
    if (same_item) descriptor.last_access = before.last_access;
    descriptor.queue = before.queue;
    descriptor.flags |= before.flags & item_read;
    std::visit([&](auto& policy) { policy.replaced(moment(now), size_class, ref, !same_item); }, policy_);
}

bool EvictionOrder::stays(Ref ref) const {
    return std::visit(
        [&](const auto& policy) {
            if constexpr (requires(const Descriptor& item) { policy.stays(item); }) return policy.stays(arena_->descriptor(ref));
            return false;
        },
        policy_);
}

void EvictionOrder::remove(Ref ref, NodeSeconds now) {
    const uint8_t size_class = size_class_of(*arena_, ref);
    std::visit([&](auto& policy) { policy.removed(moment(now), size_class, ref); }, policy_);
}

void EvictionOrder::evict(Ref ref, uint64_t key_hash, NodeSeconds now) {
    const uint8_t size_class = size_class_of(*arena_, ref);
    const auto take_out = [&](auto& policy) {
        if constexpr (std::remove_reference_t<decltype(policy)>::remembers)
            policy.evicted(moment(now), size_class, ref, key_hash);
        else
            policy.removed(moment(now), size_class, ref);
    };
    std::visit(take_out, policy_);
}

void EvictionOrder::recall(Ref ref, const History& history, NodeSeconds now) {
    if (history.access_count != 0) access(ref, now, history.access_count);
    Descriptor& descriptor = arena_->descriptor(ref);
    descriptor.last_access = history.last_access;
    descriptor.flags = history.flags;
}

void EvictionOrder::access(Ref ref, NodeSeconds now, uint32_t times) {
    arena_->descriptor(ref).flags |= item_fetched | item_read;
    bump(ref, now, times);
}

void EvictionOrder::bump(Ref ref, NodeSeconds now, uint32_t times) {
    arena_->descriptor(ref).last_access = now;
    touch(ref, now, times);
}

void EvictionOrder::access_earlier(Ref ref, NodeSeconds now, uint32_t times) {
    arena_->descriptor(ref).flags |= item_read;
    touch(ref, now, times);
}

void EvictionOrder::touch(Ref ref, NodeSeconds now, uint32_t times) {
    Descriptor& item = arena_->descriptor(ref);
    item.access_count = uint16_t(std::min<uint64_t>(uint64_t(item.access_count) + times, UINT16_MAX));
    const uint8_t size_class = size_class_of(*arena_, ref);
    std::visit([&](auto& policy) { policy.accessed(moment(now), size_class, ref, times); }, policy_);
}

bool EvictionOrder::count_reads(Ref ref, NodeSeconds now) {
    const uint32_t reads = arena_->read_counters()->take(arena_->offset(ref));
    if (reads == 0) return false;
    reads_counted_.add(reads);
    access(ref, now, reads);
    return true;
}

Ref EvictionOrder::next_to_go(uint8_t size_class) const {
    return std::visit([&](const auto& policy) { return policy.next_to_go(size_class); }, policy_);
}

bool EvictionOrder::walk(uint8_t size_class, uint32_t depth, NodeSeconds now, FunctionRef<bool(Ref)> stop) {
    return std::visit([&](auto& policy) { return policy.walk(moment(now), size_class, depth, stop); }, policy_);
}

Ref EvictionOrder::victim(uint8_t size_class, NodeSeconds now, FunctionRef<bool(Ref)> may_go) {
    auto was_read = [&](Ref ref) { return see_reads(ref, now); };
    const Candidates candidates{may_go, was_read};
    return std::visit([&](auto& policy) { return policy.victim(moment(now), size_class, candidates); }, policy_);
}

void EvictionOrder::add_stats(Stats& sum, NodeSeconds now) const {
    sum.reads_counted += reads_counted();
    for (uint8_t i = 1; i < class_numbers; i++) {
        ClassStats& of_class = sum.classes[i];
        if (const Ref tail = next_to_go(i); tail != nil) {
            const uint64_t age = seconds_since(arena_->descriptor(tail).last_access, now);
            of_class.age_oldest_s = std::max(of_class.age_oldest_s, age);
        }
        const auto add_queues = [&](const auto& policy) {
            for (uint32_t queue = 0; queue < popularity_queues; queue++) sum.queues[queue] += policy.length(i, queue);
            return policy.kept(i);
        };
        of_class.kept += std::visit(add_queues, policy_);
    }
}

}  // namespace farcached::node
