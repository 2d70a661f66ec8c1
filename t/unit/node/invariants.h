// SPDX-License-Identifier: BSD-3-Clause
// Compares a node's counters of items and leases with the items themselves: for tests that check after every step.
#pragma once

#include <string>

#include "node/store/impl.h"

namespace farcached::node {

struct Counted {
    uint64_t items = 0, leased_bytes = 0, slack_bytes = 0, dead_slots = 0, dead_bytes = 0, draining = 0, pinned_bytes = 0;
};

// Adds up one page or run of pages; empty, or what is wrong with it.
inline std::string count_page(Node& node, uint64_t number, NodeSeconds now, bool zone_is_fixed, Counted& sum) {
    Node::Impl& impl = node.impl();
    const Page& page = impl.arena.page(number);
    Partition& owner = impl.partitions[impl.arena.owner_hint(number)];
    sum.draining += page.draining != 0 ? 1 : 0;
    if (page.draining != 0 && page.partial != 0) return "a slot of a draining page may be taken";
    uint32_t used = 0, held = 0;
    for (uint32_t slot = 0; slot < (page.size_class == layout::large_class ? 1 : page.fresh); slot++) {
        const Ref ref = make_ref(number, slot);
        const Descriptor& item = impl.arena.descriptor(ref);
        held += item.held;
        if (item.state == SlotState::free) {
            if (item.held != 0) return "a free slot is held";
            continue;
        }
        used++;
        const bool alive = layout::Guard{impl.arena.header(ref).guard}.state() == layout::GuardState::live;
        if (item.state == SlotState::parted || item.state == SlotState::receiving) {
            if (alive) return "an unpublished slot has a live guard";
            if (item.held == 0) return "a parted slot has no holder";
            continue;
        }
        if (item.state == SlotState::dead) {
            sum.dead_slots++;
            sum.dead_bytes += impl.arena.capacity(ref);
            if (alive) return "a dead slot has a live guard";
            if (item.lease_end > page.lease_end) return "a page is free before a dead slot in it";
            continue;
        }
        sum.items++;
        if (!alive) return "what is live is dead";
        const std::string_view key = key_of(impl.arena, ref);
        if (owner.items().locate(node.key(key)).ref != ref) return "an item is not in the index";
        if (!owner.leases().runs(ref, now)) continue;
        sum.leased_bytes += impl.arena.capacity(ref);
        sum.slack_bytes += impl.arena.capacity(ref) - bytes_of(impl.arena, ref);
        if (page.listed == 0) return "a lease runs in a page that is not listed";
        if (item.lease_end > page.lease_end) return "a page is free before a lease there";
        if (zone_is_fixed && !impl.arena.leasable(ref)) return "a lease outside the lease zone";
    }
    if (page.pinned > page.held) return "more slots are pinned than held";
    if (page.pinned != 0) sum.pinned_bytes += impl.arena.kept_by(make_ref(number, 0));
    if (held != page.held) return "held slots differ from the page's count";
    return used == page.live ? "" : "slots in use differ from the page's count";
}

// Empty, or what is wrong. zone_is_fixed: the limit on memory was not lowered while there were leases.
inline std::string wrong_in(Node& node, NodeSeconds now, bool zone_is_fixed = true) {
    Node::Impl& impl = node.impl();
    Counted sum;
    for (uint64_t number = 0; number < impl.arena.pool().reserved_pages(); number++) {
        if (impl.arena.owner_hint(number) == Page::no_owner || impl.arena.page(number).run_head != number) continue;
        const std::string wrong = count_page(node, number, now, zone_is_fixed, sum);
        if (!wrong.empty()) return wrong;
    }
    const Stats stats = node.stats(now);
    uint64_t queued = 0;
    for (const uint64_t length : stats.queues) queued += length;
    if (sum.items != stats.items || queued != sum.items) return "queues, items and slots differ";
    uint64_t indexed = 0;
    impl.partitions.each([&](Partition& partition) { indexed += partition.items().indexed(); });
    if (indexed != sum.items) return "the index has other items than the slots";
    if (sum.leased_bytes != stats.leases.bytes) return "leased bytes differ";
    if (sum.slack_bytes != stats.leases.slack_bytes) return "slack bytes differ";
    if (sum.dead_slots != stats.leases.dead_slots) return "dead slots differ";
    if (sum.dead_bytes != stats.leases.dead_bytes) return "bytes of dead slots differ";
    if (sum.draining != stats.leases.draining) return "draining pages differ";
    if (sum.pinned_bytes != stats.bytes_lent) return "bytes of pages with pins differ";
    if (zone_is_fixed && stats.pages_used > stats.pages_limit) return "more memory than there is";
    return "";
}

}  // namespace farcached::node
