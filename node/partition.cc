// SPDX-License-Identifier: BSD-3-Clause
#include "node/partition.h"

#include <algorithm>

#include "base/broken.h"
#include "base/check.h"
#include "base/hash.h"
#include "protocol/item_check.h"
#include "protocol/words.h"

namespace farcached::node {

void Partition::attach(fabric::Region& region, Arena& arena, const Config& config, uint32_t which,
                       uint32_t partition_count, uint64_t secret, uint64_t private_seed,
                       uint64_t first_generation) {
    number = uint16_t(which);
    region_ = &region;
    arena_ = &arena;
    entry_ = &region.partition(which);
    index_.attach(region, arena, which);
    evict_ = config.evict;
    checked_ = config.offered || config.lease.enabled;
    cas_ = config.cas;
    cas_issued_ = config.cas_above / partition_count;
    lease_ = config.lease;
    if (lease_.enabled) {
        leased_in_.resize(lease_seconds_max);
        draining_.reserve(draining_max);
        dead_ = std::make_unique<DeadSlots>(arena.descriptors(), arena.lease_zone() / partition_count);
    }
    terms_ = LeaseTerms(config.policy, config.lease);
    private_seed_ = private_seed;
    choose_policy(policy_, config.policy, private_seed);
    partition_count_ = partition_count;
    home_ = arena.home_of(which, partition_count);
    secret_ = secret;
    generation_ = first_generation / layout::partitions_max * layout::partitions_max + which;
    flush_floor_ = generation_;
    publish_floor();
}

uint64_t Partition::next_cas() {
    if (!cas_) return 0;
    return ++cas_issued_ * partition_count_ + number;
}

std::string_view Partition::key_of(Ref ref) const {
    const layout::ItemHeader& header = arena_->header(ref);
    return {reinterpret_cast<const char*>(&header + 1), header.key_len};
}

std::string_view Partition::value_of(Ref ref) const {
    const layout::ItemHeader& header = arena_->header(ref);
    return {reinterpret_cast<const char*>(&header + 1) + header.key_len, header.value_len};
}

NewItem Partition::same_item(const protocol::Key& key, Ref ref) const {
    const layout::ItemHeader& header = arena_->header(ref);
    const Descriptor& descriptor = arena_->descriptor(ref);
    NewItem item;
    item.key = key;
    item.value = value_of(ref);
    item.flags = header.flags;
    item.exptime = descriptor.exptime;
    item.cas = header.cas;
    item.format = header.format;
    item.descriptor_flags = descriptor.flags;
    return item;
}

bool Partition::flushed(Ref ref) const {
    const uint64_t generation = layout::Guard{arena_->header(ref).guard}.generation();
    if (generation >= entry_->flush_floor) return false;
    return generation < flush_floor_ || prefix_deleted(ref);
}

bool Partition::prefix_deleted(Ref ref) const {
    const uint64_t generation = layout::Guard{arena_->header(ref).guard}.generation();
    return prefixes_.hides(key_of(ref), generation);
}

bool Partition::dead_by_time(Ref ref, NodeSeconds now) const {
    return has_expired(arena_->descriptor(ref).exptime, now);
}

protocol::ItemMeta Partition::meta(Ref ref) const {
    const layout::ItemHeader& header = arena_->header(ref);
    const Descriptor& item = arena_->descriptor(ref);
    protocol::ItemMeta meta;
    meta.cas = cas_ ? header.cas : 0;
    meta.value_len = header.value_len;
    meta.flags = header.flags;
    meta.item_bytes = uint32_t(layout::item_bytes(header.key_len, header.value_len));
    meta.exptime = item.exptime;
    meta.last_access = item.last_access;
    meta.size_class = arena_->page(page_of(ref)).size_class;
    meta.fetched = (item.flags & item_fetched) != 0;
    meta.stale = (item.flags & item_stale) != 0;
    meta.win_sent = (item.flags & item_win_sent) != 0;
    meta.key_binary = (header.format & layout::format_key_binary) != 0;
    return meta;
}

layout::Slot Partition::slot_word(Ref ref, uint64_t hash) const {
    return layout::Slot::make(layout::tag_of(hash), arena_->page(page_of(ref)).size_class,
                              arena_->offset(ref));
}

// The index slot that refers to a live item (P1).
Index::Place Partition::place_of(Ref ref) const {
    std::string_view key = key_of(ref);
    Index::Place place = index_.find(hash_key(key, region_->view().hash_seed), key);
    CHECK(place.ref == ref);
    return place;
}

Partition::Found Partition::find(const protocol::Key& key, NodeSeconds now) {
    Index::Place place = index_.find(key.hash, key.bytes);
    if (place.slot == nullptr) return {};
    if (flushed(place.ref)) {
        kill(place.ref, place.slot, Gone::met, now);
        return {{}, protocol::Miss::flushed};
    }
    if (dead_by_time(place.ref, now)) {
        kill(place.ref, place.slot, Gone::met, now);
        return {{}, protocol::Miss::expired};
    }
    return {place, protocol::Miss::none};
}

void Partition::kill(Ref ref, uint64_t* place, Gone why, NodeSeconds now) {
    uint64_t* at = arena_->words(ref);
    words::store_release(at, layout::Guard{words::load_relaxed(at)}.dead().word);
    std::atomic_thread_fence(std::memory_order_release);
    if (place != nullptr) index_.erase(place);
    tally_gone(ref, why, now);
    if (prefixes_.size() != 0 && prefix_deleted(ref)) prefix_items_++;
    const layout::ItemHeader& header = arena_->header(ref);
    const uint64_t bytes = layout::item_bytes(header.key_len, header.value_len);
    const uint8_t size_class = arena_->page(page_of(ref)).size_class;
    remove_from_policy(ref, why, now);
    tally_[size_class].requested -= bytes;
    items_--;
    bytes_ -= bytes;
    retire(ref, now);
}

void Partition::tally_gone(Ref ref, Gone why, NodeSeconds now) {
    ClassTally& tally = tally_[arena_->page(page_of(ref)).size_class];
    const Descriptor& item = arena_->descriptor(ref);
    ReadCounters* counters = arena_->read_counters();
    const bool unseen = counters != nullptr && counters->take(arena_->offset(ref)) != 0;
    const bool fetched = unseen || (item.flags & item_fetched) != 0;
    if (why == Gone::crawled) tally.crawler_reclaimed++;
    if (why == Gone::reclaimed || why == Gone::crawled)
        if (!fetched) tally.expired_unfetched++;
    if (why != Gone::evicted) return;
    tally.evicted++;
    evictions_++;
    tally.evicted_age_s = seconds_since(item.last_access, now);
    if (item.exptime != never_expires) tally.evicted_nonzero++;
    if (!fetched) tally.evicted_unfetched++;
    if ((item.flags & item_referenced) != 0) tally.evicted_active++;
    if (observer != nullptr) observer->evicted(key_of(ref), meta(ref), now);
}

// `before`: descriptor of the replaced item; nullptr: none.
void Partition::add_to_policy(Ref ref, const NewItem& item, const Descriptor* before, NodeSeconds now) {
    const uint8_t size_class = arena_->page(page_of(ref)).size_class;
    if (before == nullptr) {
        std::visit([&](auto& policy) { policy.inserted(moment(now), size_class, ref, item.key.hash); }, policy_);
        return;
    }
    Descriptor& descriptor = arena_->descriptor(ref);
    const uint32_t touches = before->access_count + (item.same_item ? 0 : 1);
    descriptor.access_count = uint16_t(std::min<uint32_t>(touches, UINT16_MAX));
    if (item.same_item) descriptor.last_access = before->last_access;
    descriptor.queue = before->queue;
    descriptor.flags |= before->flags & item_read;
    std::visit([&](auto& policy) { policy.replaced(moment(now), size_class, ref, !item.same_item); }, policy_);
}

void Partition::remove_from_policy(Ref ref, Gone why, NodeSeconds now) {
    const uint8_t size_class = arena_->page(page_of(ref)).size_class;
    const auto remove = [&](auto& policy) {
        if constexpr (std::remove_reference_t<decltype(policy)>::remembers)
            if (why == Gone::evicted)
                return policy.evicted(moment(now), size_class, ref,
                                      hash_key(key_of(ref), region_->view().hash_seed));
        policy.removed(moment(now), size_class, ref);
    };
    std::visit(remove, policy_);
}

// Recomputes terms once per second, and every grants_max grants within a second. A filling cache grants many leases in one
// second; those granted while it seems empty last for minutes. The cost is leased_bytes(), a walk over a table.
void Partition::press(NodeSeconds now) {
    constexpr uint32_t grants_max = 256;
    if (!terms_.by_popularity() || (now == pressed_at_ && ++grants_since_press_ < grants_max)) return;
    pressed_at_ = now;
    lifetime_.look(now, items_, evictions_);
    grants_since_press_ = 0;
    const double zone_bytes = double(arena_->lease_zone() * layout::page_bytes) / partition_count_;
    const uint64_t leased = leased_bytes(now) + leases_.dead_bytes;
    terms_.press(arena_->memory_use(), leased == 0 ? 0 : double(leased) / zone_bytes, lifetime_.seconds());
}

void Partition::access(Ref ref, NodeSeconds now, uint32_t times) {
    arena_->descriptor(ref).flags |= item_fetched | item_read;
    bump(ref, now, times);
}

void Partition::bump(Ref ref, NodeSeconds now, uint32_t times) {
    arena_->descriptor(ref).last_access = now;
    count_touches(ref, now, times);
}

void Partition::count_touches(Ref ref, NodeSeconds now, uint32_t times) {
    Descriptor& item = arena_->descriptor(ref);
    item.access_count = uint16_t(std::min<uint64_t>(uint64_t(item.access_count) + times, UINT16_MAX));
    const uint8_t size_class = arena_->page(page_of(ref)).size_class;
    std::visit([&](auto& policy) { policy.accessed(moment(now), size_class, ref, times); }, policy_);
}

bool Partition::see_reads(Ref ref, NodeSeconds now) {
    ReadCounters* counters = arena_->read_counters();
    if (counters == nullptr) return false;
    const uint32_t reads = counters->take(arena_->offset(ref));
    if (reads == 0) return false;
    reads_counted_ += reads;
    access(ref, now, reads);
    return true;
}

// The live item of that key in that slot, in any generation; nil: none.
Ref Partition::seen_item(const Access& seen, bool& same_generation) const {
    layout::Slot slot{seen.slot_word};
    const uint64_t number_of_page = slot.offset() / layout::page_bytes;
    const Page& page = arena_->page(number_of_page);
    if (arena_->owner_hint(number_of_page) != number) return nil;
    if (page.size_class != slot.size_class()) return nil;
    Ref ref = arena_->ref_at(slot.offset());
    if (arena_->descriptor(ref).state != SlotState::live) return nil;
    const layout::Guard guard{words::load_relaxed(arena_->words(ref))};
    same_generation = guard.word == seen.guard_word;
    if (same_generation) return ref;
    if (hash_key(key_of(ref), region_->view().hash_seed) != seen.hash) return nil;
    same_generation = seen.guard_word == 0 && layout::generation_tag(guard.generation()) == seen.generation_tag;
    return ref;
}

// A read of an earlier generation counts for the policy, but does not show in `mg` of this one.
void Partition::record(const Access& seen, NodeSeconds now) {
    bool same_generation = false;
    const Ref ref = seen_item(seen, same_generation);
    if (ref == nil) return;
    const uint32_t times = std::min(seen.times, told_times_max);
    if (same_generation) return access(ref, now, times);
    arena_->descriptor(ref).flags |= item_read;
    count_touches(ref, now, times);
}

void Partition::flush(NodeSeconds now) {
    if (broken::s11_forget_floor) return;
    lease_before_ = 0;
    std::vector<uint32_t> pages;
    pages.swap(pinned_pages_);
    for (uint32_t page : pages) {
        if (arena_->owner_hint(page) != number) continue;
        if (arena_->page(page).listed == 0) continue;
        unlist(page);
        for_live(page, [&](Ref ref) {
            if (lease_runs(ref, now)) kill(ref, place_of(ref).slot, Gone::reclaimed, now);
        });
    }
    flush_floor_ = generation_ + layout::partitions_max;
    prefixes_.clear();
    publish_floor();
}

void Partition::publish_floor() {
    words::store_release(&entry_->flush_floor, std::max(flush_floor_, prefixes_.floor()));
}

uint64_t Partition::hide_prefix(std::string_view prefix, uint64_t order) {
    const uint64_t floor = generation_ + layout::partitions_max;
    if (broken::s11_forget_floor) return floor;
    if (!prefixes_.hide(prefix, floor, order)) return 0;
    publish_floor();
    return floor;
}

void Partition::kill_leased(uint64_t page, std::string_view prefix, uint64_t floor, NodeSeconds now) {
    if (broken::s11_spare_leased) return;
    if (arena_->owner_hint(page) != number || arena_->page(page).listed == 0) return;
    for_live(page, [&](Ref ref) {
        if (!lease_runs(ref, now) || layout::Guard{arena_->header(ref).guard}.generation() >= floor) return;
        if (key_of(ref).starts_with(prefix)) kill(ref, place_of(ref).slot, Gone::deleted, now);
    });
}

void Partition::prefixes_swept(uint64_t order) {
    prefixes_.swept(order);
    publish_floor();
}

}  // namespace farcached::node
