// SPDX-License-Identifier: BSD-3-Clause
#include "node/store/node.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/random_word.h"
#include "node/store/impl.h"

namespace farcached::node {

namespace {

// Reserves virtual memory, not real memory, for growth by cache_memlimit.
constexpr uint64_t growth_factor_reserved = 4;
constexpr uint64_t reserved_bytes_min = UINT64_C(1) << 30;
constexpr uint32_t pages_per_partition_min = 32;

// Heat of a window of pages that is unavailable, and the result if no window is available.
constexpr double cannot_be_had = std::numeric_limits<double>::infinity();
constexpr uint64_t nowhere = UINT64_MAX;

uint64_t pages_limit(const Config& config) {
    return std::max<uint64_t>(1, config.memory_bytes / layout::page_bytes);
}

uint64_t pages_reserved(const Config& config) {
    uint64_t bytes = std::max(config.memory_bytes * growth_factor_reserved, reserved_bytes_min);
    if (!config.grows) bytes = pages_limit(config) * layout::page_bytes;
    uint64_t pages = std::min(bytes / layout::page_bytes, arena_pages_max);
    if (pages_limit(config) > pages)
        throw std::length_error("memory limit above 256 GiB: one node's arena cannot be larger");
    return pages;
}

// Four partitions per worker make lock contention rare; each partition has enough pages for its classes.
uint32_t choose_partitions_log2(const Config& config) {
    if (config.partitions != 0) return uint32_t(__builtin_ctz(config.partitions));
    uint64_t wanted = std::max<uint64_t>(4 * config.workers, 4);
    uint64_t fit = std::max<uint64_t>(1, pages_limit(config) / pages_per_partition_min);
    uint64_t count = std::min<uint64_t>({wanted, fit, layout::partitions_max});
    return uint32_t(63 - __builtin_clzll(count));
}

double lease_share(const Config& config) { return config.lease.enabled ? config.lease.share : 0; }

// The largest item fits outside the lease zone, next to another one (S8).
uint64_t pages_unleased_min(const Config& config) {
    return 2 * (config.item_bytes_max / layout::page_bytes + 1);
}

// Policies that must see every access exclude leases.
Config as_it_will_be(const Config& wanted) {
    Config config = wanted;
    config.lease.enabled = wanted.lease.enabled && may_lease(wanted.policy);
    if (const FormerRun* former = former_of(wanted.file)) config.cas_above = std::max(config.cas_above, former->cas_ceiling());
    return config;
}

// Secret random words; derived from the seed where measurements must be reproducible. `which` selects one.
uint64_t drawn(const Config& config, uint64_t which) {
    if (config.seed == 0) return random_word();
    return hash_bytes(&which, sizeof which, config.seed) | 1;
}

fabric::RegionShape shape(const Config& config) {
    fabric::RegionShape shape;
    shape.page_count = pages_reserved(config);
    shape.pages_at_first = pages_limit(config);
    shape.partition_count_log2 = choose_partitions_log2(config);
    uint64_t items_max = shape.page_count * layout::page_slots_max >> shape.partition_count_log2;
    shape.buckets_max = std::clamp<uint64_t>(items_max / 4, 64, UINT32_MAX);
    shape.overflow_max = shape.buckets_max / 4 + 256;
    shape.huge_pages = config.huge_pages;
    shape.registered = !config.grows;
    // The kernel gives huge pages to shared memory only where shmem_enabled allows it; private memory gets them on request.
    shape.offered = config.offered || !config.huge_pages;
    shape.incarnation = drawn(config, 1);
    shape.hash_seed = drawn(config, 2);
    if (config.file != nullptr) shape.file = config.file->fd();
    // With the former seed, the items of the former run fit into as many pages as before.
    if (const FormerRun* former = former_of(config.file)) shape.hash_seed = former->hash_seed();
    return shape;
}

Mapping::FilePart descriptors_in(const Config& config, const fabric::RegionView& region) {
    if (config.file == nullptr) return {};
    return {config.file->fd(), off_t(FilePlaces(region.region_bytes, pages_reserved(config)).descriptors)};
}

// Above every generation of the former run; else leaves 2^58 mutations above it.
uint64_t first_generation(const Config& config) {
    if (const FormerRun* former = former_of(config.file)) return former->generation_ceiling() + layout::partitions_max;
    return (drawn(config, 4) >> 6 | 1) >> 2;
}

}  // namespace

Node::Impl::Impl(const Config& wanted)
    : config(as_it_will_be(wanted)),
      lease(config.lease),
      classes(wanted.chunk_bytes_min, wanted.growth_factor),
      region(shape(wanted)),
      arena(region, classes, pages_reserved(wanted), pages_limit(wanted), lease_share(config),
            pages_unleased_min(wanted), wanted.huge_pages, descriptors_in(wanted, region.view())),
      secret(drawn(wanted, 3)),
      seed_of_peers(drawn(wanted, 6)),
      partitions(choose_partitions_log2(wanted), arena),
      away(partitions, arena, config.spill, flush_announced),
      shared_keys(partitions, arena, config.memory_bytes, flush_announced),
      prefixes(partitions, config.file),
      all_pages(partitions, arena) {
    region.set_descriptors(&arena.descriptor(0), sizeof(Descriptor));
    if (wanted.count_reads) arena.count_reads();
    if (config.numa_nodes.size() > 1) bind_memory(config.binder != nullptr ? *config.binder : kernel_binder());
    const uint64_t private_seed = drawn(wanted, 5);
    const uint64_t first = first_generation(wanted);
    for (uint32_t i = 0; i < partitions.count(); i++)
        partitions[i].attach(region, arena, config, i, partitions.count(), secret, private_seed, first);
    if (config.file != nullptr) keep_in_file();
    for (uint8_t i = 1; i <= classes.count(); i++)
        region.header().class_bytes[i] = classes.slot_bytes(i);
}

void Node::Impl::keep_in_file() {
    config.file->lay_out(region.view().region_bytes, arena.pool().reserved_pages(), secret);
    config.file->notes().disk_store = config.disk != nullptr ? config.disk->id() : 0;
    for (uint32_t i = 0; i < partitions.count(); i++) partitions[i].keep(config.file->notes(), i);
}

// Binds arena, descriptors and index, before the first access. Refused parts stay where the kernel puts them.
void Node::Impl::bind_memory(MemoryBinder& binder) {
    const uint32_t homes = uint32_t(config.numa_nodes.size());
    const uint64_t system_page = uint64_t(sysconf(_SC_PAGESIZE));
    const auto whole_pages = [&](void* begin, uint64_t bytes, auto bind) {
        const uint64_t from = (reinterpret_cast<uintptr_t>(begin) + system_page - 1) / system_page * system_page;
        const uint64_t to = (reinterpret_cast<uintptr_t>(begin) + bytes) / system_page * system_page;
        if (from < to && !bind(reinterpret_cast<void*>(from), to - from)) numa_refused++;
    };
    const auto prefer = [&](void* begin, uint64_t bytes, uint32_t home) {
        whole_pages(begin, bytes, [&](void* at, uint64_t n) { return binder.prefer(at, n, config.numa_nodes[home]); });
    };
    const auto interleave = [&](void* begin, uint64_t bytes) {
        whole_pages(begin, bytes, [&](void* at, uint64_t n) { return binder.interleave(at, n, config.numa_nodes); });
    };
    constexpr uint64_t huge_page = UINT64_C(2) << 20;
    arena.pool().divide(homes, config.huge_pages ? huge_page / layout::page_bytes : 1);
    const auto page_at = [&](uint64_t page) { return region.arena() + page * layout::page_bytes / 8; };
    const auto descriptors_at = [&](uint64_t page) { return &arena.descriptor(make_ref(page, 0)); };
    constexpr uint64_t descriptors_bytes = layout::page_slots_max * sizeof(Descriptor);  // of a page
    for (const auto* ranges : {&arena.pool().zone_ranges(), &arena.pool().other_ranges()})
        for (const HomeRange& range : *ranges) {
            prefer(page_at(range.begin), (range.end - range.begin) * layout::page_bytes, range.home);
            prefer(descriptors_at(range.begin), (range.end - range.begin) * descriptors_bytes, range.home);
        }
    const uint64_t limit = arena.pool().limit_pages(), growth = arena.pool().reserved_pages() - limit;
    if (growth != 0) {
        interleave(page_at(limit), growth * layout::page_bytes);
        interleave(descriptors_at(limit), growth * descriptors_bytes);
    }
    const uint32_t count = partitions.count();
    for (uint32_t i = 0; i < count; i++) {
        const layout::PartitionEntry& entry = region.partition(i);
        const uint32_t home = arena.pool().home_of(i, count);
        prefer(region.buckets(i), entry.buckets_max * sizeof(layout::Bucket), home);
        prefer(region.overflow(i), entry.overflow_max * sizeof(layout::Bucket), home);
    }
}

void Node::Impl::give_back(Reservation& reserved) {
    if (reserved.pages != 0) arena.pool().give_back(reserved.first, reserved.pages);
    reserved.pages = 0;
}

bool Node::Impl::reserve(uint64_t pages, NodeSeconds now, Reservation& reserved) {
    give_back(reserved);
    const Reservation wanted = reserved;
    std::lock_guard hold(reserve_lock);
    if (pages > arena.pool().limit_pages()) return false;
    const uint64_t refused_before = arena.pool().refused();
    constexpr uint32_t windows_max = 16;
    for (uint32_t i = 0; i < windows_max; i++) {
        uint64_t first = 0;
        if (!arena.pool().take_run(pages, false, first)) {
            if (!config.evict) return false;
            const bool grows = arena.pool().refused() == refused_before;
            if (!choose_window(pages, wanted, grows, now, first)) return false;
            if (first == nowhere) continue;
            arena.pool().want_window(first, pages);
            const bool emptied = empty_window(first, pages, now) && arena.pool().claim_window(first, pages);
            arena.pool().want_window(0, 0);
            if (!emptied) continue;
        }
        reserved.first = first;
        reserved.pages = pages;
        return true;
    }
    return false;
}

void Node::Impl::note_shortage(NodeSeconds now) {
    if (!config.lease.enabled || !config.evict) return;
    uint32_t longest_ms = LeaseTerms(config.policy, config.lease).longest_ms();
    {
        std::lock_guard hold(lease_lock);
        longest_ms = std::max(longest_ms, LeaseTerms(config.policy, lease).longest_ms());
    }
    arena.lease_stop().shortage(now, lease_kept_s(longest_ms, config.lease.grace_ms));
}

// Chooses the window that loses least among a few spread over the arena; `nowhere`: none is available. False: every candidate
// overlaps the pages to keep. grows: unbacked pages may be backed.
bool Node::Impl::choose_window(uint64_t pages, const Reservation& wanted, bool grows, NodeSeconds now,
                               uint64_t& best) {
    constexpr uint32_t candidates = 32;
    const uint64_t limit = arena.pool().limit_pages(), zone = arena.pool().lease_zone();
    const uint64_t begin = limit - zone >= pages ? zone : 0;  // outside the lease zone, where no lease runs
    const uint64_t positions = limit - begin - pages + 1;
    bool any = false;
    double best_heat = cannot_be_had;
    best = nowhere;
    auto consider = [&](uint64_t first) {
        if (!wanted.spares(first, pages)) return;
        double heat = window_heat(first, pages, grows, now);
        any = true;
        if (heat >= best_heat) return;
        best = first;
        best_heat = heat;
    };
    for (uint32_t i = 0; i < candidates; i++) {
        window_cursor += std::max<uint64_t>(1, positions / candidates) + 1;
        uint64_t first = run_head(begin + window_cursor % positions);
        consider(std::clamp(first, begin, begin + positions - 1));
    }
    if (any) return true;
    // If the kept pages leave little room, the two ends of memory are the widest.
    consider(begin);
    consider(begin + positions - 1);
    return any;
}

// A window that begins inside a large item's run would evict that item and its neighbor for one run.
uint64_t Node::Impl::run_head(uint64_t page) {
    uint64_t head = page;
    partitions.with_owner(page, [&](Partition&) {
        if (arena.page(page).size_class == layout::large_class) head = arena.page(page).run_head;
    });
    return head;
}

double Node::Impl::window_heat(uint64_t first, uint64_t pages, bool grows, NodeSeconds now) {
    double heat = 0;
    for (uint64_t page = first, end; page < first + pages; page = end) {
        end = page + 1;
        if (arena.pool().is_free(page)) {
            if (!grows && !arena.pool().has_memory(page)) return cannot_be_had;
            continue;
        }
        uint16_t owner = arena.owner_hint(page);
        if (owner == Page::no_owner) {
            heat += double(pages);  // being filled: unavailable
            continue;
        }
        std::lock_guard hold(partitions[owner].lock);
        if (arena.owner_hint(page) == owner) heat += partitions[owner].page_heat(page, partitions[owner].latest(now), end);
    }
    return heat;
}

bool Node::Impl::empty_window(uint64_t first, uint64_t pages, NodeSeconds now) {
    for (uint64_t page = first; page < first + pages; page++) {
        constexpr uint32_t tries_max = 8;
        uint32_t tries = 0;
        while (!arena.pool().is_free(page)) {
            if (tries++ == tries_max) return false;
            uint16_t owner = arena.owner_hint(page);
            if (owner == Page::no_owner) return false;
            std::lock_guard hold(partitions[owner].lock);
            now = partitions[owner].latest(now);
            partitions[owner].items().reclaim_dead(now);
            if (arena.owner_hint(page) != owner) continue;
            uint64_t target = page;
            if (arena.page(page).size_class == layout::large_class)
                target = arena.page(page).run_head;
            partitions[owner].empty_page(target, now);
            pages_moved.fetch_add(1, std::memory_order_relaxed);
        }
    }
    return true;
}

Node::Node(const Config& config)
    : impl_(std::make_unique<Impl>(config)),
      away_(impl_->away),
      shared_keys_(impl_->shared_keys),
      prefixes_(impl_->prefixes),
      pages_(impl_->all_pages) {}
Node::~Node() = default;

const Config& Node::config() const { return impl_->config; }

LeaseConfig Node::lease_config() const {
    std::lock_guard hold(impl_->lease_lock);
    return impl_->lease;
}

void Node::set_lease_terms(uint32_t term_ms, uint32_t term_ms_min, uint32_t term_ms_max) {
    LeaseConfig changed;
    {
        std::lock_guard hold(impl_->lease_lock);
        impl_->lease.term_ms = term_ms;
        impl_->lease.term_ms_min = term_ms_min;
        impl_->lease.term_ms_max = term_ms_max;
        changed = impl_->lease;
    }
    const LeaseTerms terms(impl_->config.policy, changed);
    impl_->partitions.each([&](Partition& partition) { partition.leases().set_terms(terms); });
}

const fabric::RegionView& Node::view() const { return impl_->region.view(); }

uint64_t Node::check_secret() const { return impl_->secret; }
uint64_t Node::seed_of_peers() const { return impl_->seed_of_peers; }

protocol::Key Node::key(std::string_view bytes) const {
    return {bytes, hash_key(bytes, impl_->region.view().hash_seed)};
}

void Node::observe(Observer* observer) {
    impl_->partitions.each([&](Partition& partition) { partition.items().observe(observer); });
}

void Node::announce_flush(NodeSeconds when) {
    impl_->flush_announced.store(true);
    impl_->partitions.each([&](Partition& partition) { partition.leases().end_before(when); });
    if (impl_->config.file != nullptr) __atomic_store_n(&impl_->config.file->notes().flush_at, when, __ATOMIC_RELEASE);
}

void Node::flush_all(NodeSeconds now) {
    impl_->partitions.each([&](Partition& partition) { partition.flush(partition.latest(now)); });
    impl_->flush_announced.store(false);
    if (impl_->config.file != nullptr) __atomic_store_n(&impl_->config.file->notes().flush_at, 0, __ATOMIC_RELEASE);
    impl_->flushes.fetch_add(1, std::memory_order_relaxed);
}

void Node::record(std::span<const Access> accesses, NodeSeconds now) {
    constexpr size_t at_once = 256;
    for (; accesses.size() > 1; accesses = accesses.subspan(std::min(accesses.size(), at_once)))
        impl_->record(accesses.first(std::min(accesses.size(), at_once)), now);
    if (accesses.empty()) return;
    Partition& partition = impl_->partitions.of(accesses[0].hash);
    std::lock_guard hold(partition.lock);
    partition.record(accesses[0], partition.latest(now));
}

// Applies at most 256 accesses, grouped by partition in their order, so that each lock is taken once. Prefetches headers and
// descriptors first.
void Node::Impl::record(std::span<const Access> accesses, NodeSeconds now) {
    uint16_t ends[layout::partitions_max] = {};
    uint8_t order[256];
    CHECK(accesses.size() <= std::size(order));
    for (const Access& seen : accesses) {
        ends[partitions.number_of(seen.hash)]++;
        arena.prefetch_access(layout::Slot{seen.slot_word});
    }
    uint16_t sum = 0;
    for (uint32_t i = 0; i < partitions.count(); i++) {
        const uint16_t count = ends[i];
        ends[i] = sum;
        sum = uint16_t(sum + count);
    }
    for (size_t i = 0; i < accesses.size(); i++)
        order[ends[partitions.number_of(accesses[i].hash)]++] = uint8_t(i);
    for (uint32_t i = 0, at = 0; i < partitions.count(); i++) {
        if (at == ends[i]) continue;
        std::lock_guard hold(partitions[i].lock);
        const NodeSeconds latest = partitions[i].latest(now);
        for (; at < ends[i]; at++) partitions[i].record(accesses[order[at]], latest);
    }
}

Renewal Node::renew(const Access& seen, NodeSeconds now, uint64_t byte_s_max) {
    Partition& partition = impl_->partitions.of(seen.hash);
    std::lock_guard hold(partition.lock);
    return partition.renew(seen, partition.latest(now), byte_s_max);
}

uint64_t Node::leasable_bytes() const { return impl_->arena.pool().lease_zone() * layout::page_bytes; }

uint32_t size_class_of(const Node& node, uint64_t page) {
    return __atomic_load_n(&node.view().pages[page].size_class, __ATOMIC_RELAXED) & 63;
}

bool Node::set_memory_limit(uint64_t bytes, NodeSeconds now) {
    const uint64_t pages = bytes / layout::page_bytes;
    if (pages == 0) return false;
    if (pages > impl_->arena.pool().reserved_pages()) return false;
    if (bytes < impl_->config.item_bytes_max * 2) return false;
    std::lock_guard hold(impl_->reserve_lock);
    const uint64_t before = impl_->arena.pool().limit_pages(), zone_before = impl_->arena.pool().lease_zone();
    if (!impl_->arena.pool().set_limit(pages)) return false;
    const uint64_t zone = impl_->arena.pool().lease_zone();
    for (uint64_t page = pages; page < before; page++)
        impl_->partitions.with_owner(page, [&](Partition& partition) {
            partition.empty_page(impl_->arena.page(page).run_head, partition.latest(now));
        });
    for (uint64_t page = std::min(zone, zone_before); page < std::max(zone, zone_before); page++)
        impl_->partitions.with_owner(page, [&](Partition& partition) { partition.zone_moved(page); });
    return true;
}

uint64_t Node::flushes() const { return impl_->flushes.load(std::memory_order_relaxed); }

uint64_t Node::reads_counted() const {
    uint64_t sum = 0;
    for (const Partition& partition : std::as_const(impl_->partitions)) sum += partition.order().reads_counted();
    return sum;
}

Stats Node::stats(NodeSeconds now) const {
    Stats stats;
    stats.classes.resize(64);
    for (uint8_t i = 1; i <= impl_->classes.count(); i++)
        stats.classes[i].slot_bytes = impl_->classes.slot_bytes(i);
    impl_->partitions.each([&](const Partition& partition) { partition.add_stats(stats, now); });
    stats.bytes_lent = impl_->arena.withheld().pinned();
    stats.bytes_arriving = impl_->arena.withheld().receiving();
    stats.numa_nodes = impl_->arena.pool().homes();
    stats.numa_refused = impl_->numa_refused;
    impl_->away.add_stats(stats.tiers);
    stats.leases.stops = impl_->arena.lease_stop().times();
    stats.leases.stopped = impl_->arena.lease_stop().stopped(now);
    stats.pages_limit = impl_->arena.pool().limit_pages();
    stats.pages_used = impl_->arena.pool().pages_out();
    stats.memory_limit_bytes = stats.pages_limit * layout::page_bytes;
    stats.pages_refused = impl_->arena.pool().refused();
    stats.pages_moved += impl_->pages_moved.load(std::memory_order_relaxed);
    stats.flushes = flushes();
    stats.prefix_deletes = impl_->prefixes.executed();
    return stats;
}

}  // namespace farcached::node
