// SPDX-License-Identifier: BSD-3-Clause
#include "node/store/leases.h"

#include <algorithm>
#include <bit>
#include <new>

#include "base/broken.h"
#include "base/check.h"

namespace farcached::node {

// ---- dead slots ------------------------------------------------------------------------------------------

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

// ---- leased pages ----------------------------------------------------------------------------------------

bool LeasedPages::can_add() noexcept {
    if (pages_.size() < pages_.capacity()) return true;
    try {
        pages_.reserve(std::max<size_t>(compact_at_min, 2 * pages_.size()));
        return true;
    } catch (const std::bad_alloc&) {
        return false;
    }
}

void LeasedPages::add(uint64_t number_of_page, uint32_t lease_end, NodeSeconds now) {
    Page& page = arena_->page(number_of_page);
    page.lease_end = std::max(page.lease_end, lease_end);
    if (page.listed != 0) return;
    if (pages_.size() >= compact_at_) compact(now);
    page.listed = 1;
    listed_[page.size_class]++;
    CHECK(pages_.size() < pages_.capacity());
    pages_.push_back(uint32_t(number_of_page));
}

void LeasedPages::compact(NodeSeconds now) {
    // A page that left and returned is listed twice.
    std::sort(pages_.begin(), pages_.end());
    pages_.erase(std::unique(pages_.begin(), pages_.end()), pages_.end());
    std::erase_if(pages_, [&](uint32_t other) {
        if (arena_->owner_hint(other) != partition_) return true;
        if (leases_run_in(other, now)) return false;
        remove(other);
        return true;
    });
    compact_at_ = std::max<size_t>(compact_at_min, 2 * pages_.size());
}

void LeasedPages::remove(uint64_t number_of_page) {
    Page& page = arena_->page(number_of_page);
    if (page.listed == 0) return;
    page.listed = 0;
    uint64_t& listed = listed_[page.size_class];
    CHECK(listed > 0);
    listed--;
}

void LeasedBytes::add(uint32_t lease_end, uint64_t capacity, uint64_t filled) {
    Ending& in = ending_[lease_end % lease_seconds_max];
    if (in.second != lease_end) in = {lease_end, 0, 0};
    in.bytes += capacity;
    in.filled += filled;
}

void LeasedBytes::remove(uint32_t lease_end, uint64_t capacity, uint64_t filled) {
    Ending& in = ending_[lease_end % lease_seconds_max];
    if (in.second != lease_end) return;
    CHECK(in.bytes >= capacity);
    CHECK(in.filled >= filled);
    in.bytes -= capacity;
    in.filled -= filled;
}

uint64_t LeasedBytes::sum(NodeSeconds now) const {
    uint64_t bytes = 0;
    for (const Ending& in : ending_)
        if (in.second >= now) bytes += in.bytes;
    return bytes;
}

void LeasedBytes::add_stats(LeaseStats& stats, NodeSeconds now) const {
    for (const Ending& in : ending_) {
        if (in.second < now) continue;
        stats.bytes += in.bytes;
        stats.slack_bytes += in.bytes - in.filled;
    }
}

// ---- leases ----------------------------------------------------------------------------------------------

namespace {

// An item that leaves most of a slot empty is not leased there (S8).
bool is_sparse(uint64_t bytes, uint64_t capacity) {
    constexpr uint64_t small_slot_bytes = 1024, filled_share = 4;
    return capacity > small_slot_bytes && bytes * filled_share < capacity;
}

}  // namespace

void Leases::attach(Arena& arena, const Config& config, uint16_t number, uint32_t partition_count, uint64_t private_seed) {
    arena_ = &arena;
    config_ = config.lease;
    partition_count_ = partition_count;
    private_seed_ = private_seed;
    terms_ = LeaseTerms(config.policy, config.lease);
    pages_.attach(arena, number);
    if (!config_.enabled) return;
    bytes_.attach();
    dead_ = std::make_unique<DeadSlots>(arena.descriptors(), arena.pool().lease_zone() / partition_count);
}

// ---- terms and conditions ---------------------------------------------------------------------------

// The maximum lease of an item: it ends before the item expires and before a scheduled flush. `now` is truncated to seconds, so
// the current second does not count.
uint32_t Leases::ms_left(Ref ref, NodeSeconds now) const {
    uint64_t term_ms = lease_term_ms_longest;
    for (NodeSeconds end : {NodeSeconds(arena_->descriptor(ref).exptime), before_})
        if (end != never_expires)
            term_ms = end <= now ? 0 : std::min<uint64_t>(term_ms, (uint64_t(end) - now - 1) * 1000);
    return uint32_t(term_ms);
}

bool Leases::sparse(Ref ref) const { return is_sparse(bytes_of(*arena_, ref), arena_->capacity(ref)); }

uint32_t Leases::flush_ms_left(NodeSeconds now) const {
    if (before_ == never_expires) return lease_term_ms_longest;
    if (before_ <= now) return 0;
    return uint32_t(std::min<uint64_t>((uint64_t(before_) - now - 1) * 1000, lease_term_ms_longest));
}

uint32_t Leases::told_ms(Ref ref, NodeSeconds now) const {
    if (!runs(ref, now)) return 0;
    const int64_t left_ms = (int64_t(arena_->descriptor(ref).lease_end) - now - 1) * 1000 - config_.grace_ms;
    if (left_ms < int64_t(lease_term_ms_min)) return 0;
    return std::min({uint32_t(left_ms), flush_ms_left(now), terms_.longest_ms()});
}

// Recomputes terms once per second, and every grants_max grants within a second. A filling cache grants many leases in one
// second; those granted while it seems empty last for minutes. The cost is LeasedBytes::sum(), a walk over a table.
void Leases::press(NodeSeconds now, const Turnover& turnover) {
    constexpr uint32_t grants_max = 256;
    if (!terms_.by_popularity() || (now == pressed_at_ && ++grants_since_press_ < grants_max)) return;
    pressed_at_ = now;
    lifetime_.look(now, turnover.items, turnover.evictions);
    grants_since_press_ = 0;
    const PagePool& pool = arena_->pool();
    const double zone_bytes = double(pool.lease_zone() * layout::page_bytes) / partition_count_;
    const uint64_t leased = bytes_.sum(now) + stats_.dead_bytes;
    terms_.press(double(pool.pages_out()) / double(pool.limit_pages()), leased == 0 ? 0 : double(leased) / zone_bytes,
                 lifetime_.seconds());
}

protocol::LeaseDenial Leases::judge(Ref ref, NodeSeconds now, bool by_report, const Turnover& turnover,
                                    uint32_t& term_ms) {
    using protocol::LeaseDenial;
    const Descriptor& item = arena_->descriptor(ref);
    if ((item.flags & (item_stale | item_win_sent)) != 0) return LeaseDenial::tokens_;
    if (bytes_of(*arena_, ref) > leased_item_bytes_max) return LeaseDenial::no_room_;
    press(now, turnover);
    const uint32_t touches = uint32_t(item.access_count) + 1;
    const uint32_t wanted_ms = terms_.term_ms(touches, item.queue);
    if (touches < config_.from_touches || wanted_ms == 0) return LeaseDenial::young_;
    if (const LeaseDenial why = judge_dead(ref, now); why != LeaseDenial::none) return why;
    term_ms = std::min(wanted_ms, ms_left(ref, now));
    if (term_ms < std::min(lease_term_ms_min, wanted_ms)) return LeaseDenial::short_;
    if (arena_->lease_stop().stopped(now)) return LeaseDenial::stopped_;
    const bool renews = runs(ref, now);
    if (draining(ref) && (by_report || renews)) return LeaseDenial::draining_;
    if (renews && sparse(ref)) return LeaseDenial::sparse_;
    return LeaseDenial::none;
}

// S8, for the memory limit and the dead slots of all partitions.
protocol::LeaseDenial Leases::judge_dead(Ref ref, NodeSeconds now) const {
    using protocol::LeaseDenial;
    const double share = arena_->withheld().dead_share();
    if (share <= config_.dead_share) return LeaseDenial::none;
    if (share > 2 * config_.dead_share && !runs(ref, now)) return LeaseDenial::dead_;
    return left_dead_slot(ref) ? LeaseDenial::dead_key_ : LeaseDenial::none;
}

bool Leases::affords(LeaseCost& report, Ref ref, uint32_t lease_end, NodeSeconds now) const {
    const NodeSeconds kept_until = runs(ref, now) ? arena_->descriptor(ref).lease_end : now;
    report.byte_s = lease_end > kept_until ? arena_->capacity(ref) * (lease_end - kept_until) : 0;
    report.over = report.byte_s > report.byte_s_max;
    return !report.over;
}

// ---- running leases ---------------------------------------------------------------------------------

void Leases::grant(Ref ref, uint32_t lease_end, NodeSeconds now) {
    Descriptor& item = arena_->descriptor(ref);
    if (runs(ref, now)) {
        stats_.renewed++;
        lease_end = std::max(lease_end, item.lease_end);
        uncount_bytes(ref);
    } else {
        stats_.granted++;
    }
    item.lease_end = lease_end;
    count_bytes(ref);
    pages_.add(arena_->page(page_of(ref)).run_head, lease_end, now);
    item.flags &= uint8_t(~item_read);
}

void Leases::count_bytes(Ref ref) {
    bytes_.add(arena_->descriptor(ref).lease_end, arena_->capacity(ref), bytes_of(*arena_, ref));
}

void Leases::uncount_bytes(Ref ref) {
    bytes_.remove(arena_->descriptor(ref).lease_end, arena_->capacity(ref), bytes_of(*arena_, ref));
}

bool Leases::begin_write(Ref ref, NodeSeconds now) {
    const bool leased = runs(ref, now);
    if (leased) uncount_bytes(ref);
    return leased;
}

void Leases::end_write(Ref ref, bool leased, NodeSeconds now) {
    if (runs(ref, now)) count_bytes(ref);
    if (leased) stats_.in_place++;
}

// ---- dead slots -------------------------------------------------------------------------------------

// The key of a dead item is still in the slot.
void Leases::bury(Ref ref) {
    uncount_bytes(ref);
    arena_->descriptor(ref).state = SlotState::dead;
    dead_->add(ref, private_hash(key_of(*arena_, ref)));
    stats_.dead_bytes += arena_->capacity(ref);
    stats_.dead_slots++;
    arena_->withheld().count_dead(int64_t(arena_->capacity(ref)));
}

uint32_t Leases::reclaim_ended(NodeSeconds now, FunctionRef<void(Ref)> freed) {
    uint32_t count = 0;
    dead_->ended(now, [&](Ref ref) {
        CHECK(layout::Guard{arena_->header(ref).guard}.state() == layout::GuardState::dead);
        count_dead_gone(ref);
        freed(ref);
        count++;
    });
    return count;
}

Ref Leases::find_dead(const protocol::Key& key, uint64_t bytes) {
    if (dead_ == nullptr || dead_->count() == 0 || !pages_.can_add()) return nil;
    const bool large = bytes > layout::page_bytes;
    Ref best = nil;
    dead_->find(private_hash(key.bytes), [&](Ref ref) {
        if (key_of(*arena_, ref) != key.bytes && !broken::s1_remember_by_hash) return false;
        if (held(*arena_, ref)) return false;  // its old value is being sent
        if (!leasable(ref)) return false;      // the page drains, or left the lease zone
        if ((size_class_of(*arena_, ref) == layout::large_class) != large) return false;
        const uint64_t capacity = arena_->capacity(ref);
        if (bytes > capacity || is_sparse(bytes, capacity)) return false;
        if (best == nil || capacity < arena_->capacity(best)) best = ref;
        return false;
    });
    return best;
}

bool Leases::left_dead_slot(Ref ref) const {
    if (dead_->count() == 0) return false;
    const std::string_view key = key_of(*arena_, ref);
    const auto same_key = [&](Ref other) { return key_of(*arena_, other) == key; };
    return dead_->find(private_hash(key), same_key) != nil;
}

void Leases::count_dead_gone(Ref ref) {
    const uint64_t bytes = arena_->capacity(ref);
    CHECK(stats_.dead_bytes >= bytes);
    CHECK(stats_.dead_slots > 0);
    stats_.dead_bytes -= bytes;
    stats_.dead_slots--;
    arena_->withheld().count_dead(-int64_t(bytes));
}

void Leases::forget_dead(Ref ref) {
    dead_->remove(ref);
    count_dead_gone(ref);
    stats_.revived++;
}

// The slot holds an item again, under its old lease: a search for leased items must find it (S11).
void Leases::revive(Ref ref, NodeSeconds now) {
    count_bytes(ref);
    if (broken::s11_revive_unlisted) return;
    pages_.add(arena_->page(page_of(ref)).run_head, arena_->descriptor(ref).lease_end, now);
}

void Leases::add_stats(LeaseStats& sum, NodeSeconds now) const {
    sum.granted += stats_.granted;
    sum.renewed += stats_.renewed;
    for (size_t why = 0; why < sum.denied.size(); why++) sum.denied[why] += stats_.denied[why];
    sum.moved += stats_.moved;
    bytes_.add_stats(sum, now);
    sum.dead_bytes += stats_.dead_bytes;
    sum.dead_slots += stats_.dead_slots;
    sum.revived += stats_.revived;
    sum.in_place += stats_.in_place;
    const uint32_t alpha_ms = terms_.alpha_ms();
    if (sum.alpha_ms == 0 || alpha_ms < sum.alpha_ms) sum.alpha_ms = alpha_ms;
}

}  // namespace farcached::node
