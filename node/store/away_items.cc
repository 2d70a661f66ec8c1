// SPDX-License-Identifier: BSD-3-Clause
#include "node/store/away_items.h"

#include <algorithm>
#include <mutex>

#include "base/broken.h"
#include "node/items/stub.h"
#include "node/store/partitions.h"
#include "protocol/spilled.h"

namespace farcached::node {

namespace {

// The item, if its value is still at that place of its tier.
Index::Place stub_at(Partition& partition, Arena& arena, const protocol::Key& key, const Place& place, NodeSeconds now) {
    const Items::Found found = partition.items().find(key, now);
    if (found.place.slot == nullptr || !is_stub(arena, found.place.ref)) return {};
    return stub_of(arena, found.place.ref).place == place ? found.place : Index::Place();
}

}  // namespace

void AwayItems::found(const protocol::Key& key, const Place& place, std::string_view value, NodeSeconds now) {
    const uint32_t rate = rules_.recache_rate;
    if (rate == 0 || found_.fetch_add(1, std::memory_order_relaxed) % rate != rate - 1) return;
    Partition& partition = partitions_.of(key.hash);
    std::lock_guard hold(partition.lock);
    now = partition.latest(now);
    const Index::Place at = stub_at(partition, arena_, key, place, now);
    if (at.slot == nullptr) return;
    NewItem item = copy_of(arena_, at.ref, key);
    item.value = value;
    item.format = uint16_t(item.format & ~layout::format_stub);
    item.counts_as_new = false;
    item.same_item = true;
    if (item.bytes() > layout::page_bytes) return;  // no page is emptied for it
    Reservation none;
    uint64_t need_pages = 0;
    const Ref ref = partition.room_for(item, at, now, none, need_pages, /* made_of_old= */ true);
    if (ref == nil) return;
    partition.items().put(ref, item, now, at);
    recached_.fetch_add(1, std::memory_order_relaxed);
}

void AwayItems::lost(const protocol::Key& key, const Place& place, NodeSeconds now) {
    Partition& partition = partitions_.of(key.hash);
    std::lock_guard hold(partition.lock);
    now = partition.latest(now);
    lost_.fetch_add(1, std::memory_order_relaxed);
    const Index::Place at = stub_at(partition, arena_, key, place, now);
    if (at.slot != nullptr) partition.items().evict(at, key.hash, now);
}

// ---- subleases (node/keys/subleases.h) ----------------------------------------------------------------

std::optional<protocol::Grant> AwayItems::sublease(const protocol::Key& key, const Place& place, const fabric::LeasedPtr& leased,
                                                   uint64_t now_ns, NodeSeconds now) {
    constexpr uint64_t ns_per_ms = 1'000'000;
    constexpr NodeSeconds life_min = 2;  // longer than a sublease: it ends before the item expires
    const uint64_t left_ms = leased.valid_until_ns > now_ns ? (leased.valid_until_ns - now_ns) / ns_per_ms : 0;
    const uint32_t term_ms = uint32_t(std::min<uint64_t>(left_ms, protocol::spilled_term_ms_max));
    if (term_ms == 0) return std::nullopt;
    Partition& partition = partitions_.of(key.hash);
    std::lock_guard hold(partition.lock);
    now = partition.latest(now);
    const Index::Place at = stub_at(partition, arena_, key, place, now);
    if (at.slot == nullptr || (arena_.header(at.ref).format & layout::format_tokens) != 0) return std::nullopt;
    const NodeSeconds exptime = arena_.descriptor(at.ref).exptime;
    if (exptime != never_expires && exptime < now + life_min) return std::nullopt;
    if (flush_is_announced_.load()) return std::nullopt;  // none outlasts a scheduled flush
    const uint64_t until_ns = now_ns + term_ms * ns_per_ms;
    if (!partition.subleases().add(key.hash, place, until_ns, now_ns)) return std::nullopt;
    if (!gate_.pass(until_ns)) return std::nullopt;
    protocol::Grant grant;
    grant.offset = leased.ptr.offset;
    grant.generation = leased.ptr.generation;
    grant.region = leased.ptr.region;
    grant.length = uint32_t(protocol::spilled_item_bytes(key.bytes.size(), stub_of(arena_, at.ref).value_len));
    grant.capacity = std::max(grant.length, leased.ptr.length);
    grant.term_ms = term_ms;
    grant.incarnation = leased.ptr.incarnation;
    return grant;
}

uint64_t AwayItems::sublease_end(const protocol::Key& key, uint64_t now_ns, Place& place) {
    if (!gate_.any_runs(now_ns) || broken::s15_ignore_subleases) return 0;
    Partition& partition = partitions_.of(key.hash);
    std::lock_guard hold(partition.lock);
    const Subleases::Running running = partition.subleases().find(key.hash, now_ns);
    place = running.place;
    return running.until_ns;
}

uint64_t AwayItems::begin_change(const protocol::Key& key, uint64_t now_ns, Place& place) {
    if (broken::s15_ignore_subleases) return 0;
    Partition& partition = partitions_.of(key.hash);
    std::lock_guard hold(partition.lock);
    const Subleases::Running running = partition.subleases().end(key.hash, now_ns);
    place = running.place;
    return running.until_ns;
}

void AwayItems::change_over(uint64_t key_hash) {
    if (broken::s15_ignore_subleases) return;
    Partition& partition = partitions_.of(key_hash);
    std::lock_guard hold(partition.lock);
    partition.subleases().change_over();
}

void AwayItems::sublease_over(uint64_t key_hash, const Place& place) {
    Partition& partition = partitions_.of(key_hash);
    std::lock_guard hold(partition.lock);
    partition.subleases().over(key_hash, place);
}

uint64_t AwayItems::stop_subleases(uint64_t now_ns) {
    const uint64_t last_ns = gate_.stop();
    return last_ns > now_ns && !broken::s15_ignore_subleases ? last_ns : 0;
}

void AwayItems::add_stats(TierStats& sum) const {
    sum.recached += recached_.load(std::memory_order_relaxed);
    sum.lost_away += lost_.load(std::memory_order_relaxed);
    sum.subleases += gate_.granted();
}

}  // namespace farcached::node
