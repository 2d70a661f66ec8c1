// SPDX-License-Identifier: BSD-3-Clause
// Memory pinned by leases while others need it (S8), with a test clock and every policy that leases. Pages drain when
// their leases run out: for a class without room in the lease zone, and for sets of a class whose pages are all pinned.
// Leases that stop altogether; floods of sets while leases run. After every step of random histories all counters are
// compared with the items, and leased items with their bytes (S1, S2).
#include <atomic>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/sanitizers.h"
#include "node/memory/page_pool.h"
#include "t/lib/tap.h"
#include "t/unit/node/invariants.h"

using namespace farcached;
using namespace farcached::node;

namespace {

constexpr NodeSeconds at_start = 1000;
constexpr PolicyKind leasing[] = {PolicyKind::pdla,        PolicyKind::s3fifo,     PolicyKind::clock,
                                  PolicyKind::fixed_lease, PolicyKind::approx_lru, PolicyKind::original,
                                  PolicyKind::pdla_paper};
int wrong = 0;

void fault(const std::string& what) {
    if (!what.empty() && wrong++ < 5) std::printf("# wrong: %s\n", what.c_str());
}

// One term for all items from the second touch on, for any policy.
Config leases_of(PolicyKind policy, uint64_t megabytes, uint32_t term_ms, uint32_t partitions) {
    Config config;
    config.memory_bytes = megabytes << 20;
    config.item_bytes_max = 1 << 20;
    config.partitions = partitions;
    config.grows = false;
    config.policy = policy;
    config.seed = 5;
    config.lease.enabled = true;
    config.lease.term_ms = config.lease.term_ms_min = config.lease.term_ms_max = term_ms;
    return config;
}

struct Cache {
    explicit Cache(const Config& config) : node(config) {}

    bool set(const std::string& key, const std::string& value) {
        protocol::StoreOp op;
        op.key = node.key(key);
        op.value = value;
        op.lease = true;
        const bool stored = node.store(op, now).status == protocol::StoreReply::Status::stored;
        refused += stored ? 0 : 1;
        return stored;
    }
    protocol::GetReply get(const std::string& key) {
        protocol::GetOp op;
        op.key = node.key(key);
        op.lease = true;
        return node.get(op, now, [](const protocol::ItemMeta&) -> char* { return nullptr; });
    }
    bool leased(const std::string& key) { return get(key).grant.has_value(); }
    // Is the lease longer after another get?
    bool renewed(const std::string& key) {
        const uint64_t before = leases().renewed;
        get(key);
        return leases().renewed != before;
    }
    LeaseStats leases() { return node.stats(now).leases; }
    uint64_t page(const std::string& key) {
        Partition& partition = node.impl().partitions.of(node.key(key).hash);
        return page_of(partition.items().locate(node.key(key)).ref);
    }
    // Until the last lease granted by now and its grace are over.
    void wait_out() {
        const LeaseConfig& lease = node.config().lease;
        now += (lease.term_ms + lease.grace_ms + 999) / 1000 + 2;
    }

    Node node;
    NodeSeconds now = at_start;
    uint64_t refused = 0;
};

std::string named(const char* prefix, int i) { return prefix + std::to_string(i); }

const std::string small(100, 's'), middle(3000, 'm'), large(900'000, 'l');

// Every slot of the lease zone holds a leased small item.
int fill_zone(Cache& cache, const char* prefix = "s") {
    int i = 0;
    for (int denied = 0; denied < 200; i++) {
        cache.set(named(prefix, i), small);
        denied = cache.leased(named(prefix, i)) ? 0 : denied + 1;
    }
    return i;
}

void lets_run_out_for_another_class(PolicyKind policy) {
    const std::string name(name_of(policy));
    Cache cache(leases_of(policy, 8, 20'000, 1));
    const int count = fill_zone(cache);
    cache.now++;
    cache.set("middle", middle);
    tap::ok(!cache.leased("middle"), name + ": no room for a lease on an item of another size");
    tap::is(cache.leases().draining, 1u, "so a page's leases are let run out");
    cache.now++;
    int renewed = 0, denied = 0;
    std::string on_it;
    for (int i = 0; i < count; i++) {
        const std::string key = named("s", i);
        if (cache.get(key).status != protocol::GetReply::Status::hit) continue;
        const bool longer = cache.renewed(key);
        const Page& page = cache.node.impl().arena.page(cache.page(key));
        if (page.draining != 0 && longer) fault("a lease was renewed in a draining page");
        if (page.draining != 0) on_it = key;
        (longer ? renewed : denied)++;
    }
    const auto draining = [&] { return cache.leases().denied[size_t(protocol::LeaseDenial::draining_)]; };
    tap::ok(renewed > 1000 && draining() > 10, "others are renewed, those in it are not");
    const Index::Place place = cache.node.impl().partitions[0].items().locate(cache.node.key(on_it));
    const Access seen{*place.slot, cache.node.impl().arena.header(place.ref).guard, cache.node.key(on_it).hash, 1};
    const uint64_t before = draining();
    tap::ok(cache.node.renew(seen, cache.now, UINT64_MAX).outcome == Renewal::Outcome::seen && draining() == before + 1,
            "nor by a report, which counts as an access");
    fault(wrong_in(cache.node, cache.now));
    tap::ok(!cache.leased("middle"), "until its last lease ends there is no room");
    for (int i = 0; i < 60 && !cache.leased("middle"); i++) {
        cache.now++;
        for (int k = 0; k < count; k++) cache.get(named("s", k));
        fault(wrong_in(cache.node, cache.now));
    }
    tap::ok(cache.leased("middle"), "then there is");
    tap::ok(cache.leases().drained > 0, "in the page that became free");
    tap::is(cache.refused, 0u, "and no set was refused");
}

void takes_what_nobody_leases() {
    Cache cache(leases_of(PolicyKind::pdla, 8, 20'000, 1));
    for (int i = 0; i < 60'000; i++) cache.set(named("s", i), small);
    cache.now += 3;
    cache.set("middle", middle);
    tap::ok(cache.leased("middle"), "a page of the zone without leases is moved at once");
    tap::is(cache.leases().draining, 0u, "no page drains");
    fault(wrong_in(cache.node, cache.now));
}

// The most frequent classes do not evict each other in turn.
void comes_to_rest() {
    Cache cache(leases_of(PolicyKind::fixed_lease, 8, 2000, 1));
    constexpr int rounds = 80, keys = 20'000, of_middle = 20;
    uint64_t drained = 0;
    uint64_t leased_small = 0, leased_middle = 0;
    const auto visit = [&](const std::string& key, const std::string& value) {
        const protocol::GetReply reply = cache.get(key);
        if (reply.status != protocol::GetReply::Status::hit) cache.set(key, value);
        return reply.grant ? value.size() : 0;
    };
    for (int round = 0; round < rounds; round++) {
        cache.now++;
        leased_small = leased_middle = 0;
        for (int i = 0; i < keys; i++) {
            leased_small += visit(named("s", i), small);
            if (i % of_middle == 0) leased_middle += visit(named("m", i), middle);
        }
        fault(wrong_in(cache.node, cache.now));
        if (round == rounds * 3 / 4) drained = cache.leases().drained;
    }
    tap::note("%d and %d bytes leased, %d pages drained, %d then", int(leased_small), int(leased_middle),
              int(cache.leases().drained), int(drained));
    tap::ok(leased_small > 500'000 && leased_middle > 500'000, "two sizes share the lease zone");
    tap::ok(cache.leases().drained < drained + 5, "and come to rest");
}

void drains_for_sets() {
    Cache cache(leases_of(PolicyKind::pdla, 8, 20'000, 1));
    cache.set("pinned", small);  // in a page outside the zone, until it is leased
    cache.leased("pinned");
    for (int i = 1; i < 20; i++) {
        cache.set(named("s", i), small);
        cache.leased(named("s", i));
    }
    // Their class has only that page; all other pages go to another class.
    int i = 0;
    for (; i < 3000; i++) cache.set(named("m", i), middle);
    for (i = 0; cache.leases().draining == 0 && i < 3000; i++) {
        cache.set(named("t", i), small);
        cache.leased(named("t", i));
    }
    tap::ok(i < 3000, "sets of a class whose pages are all pinned drain one");
    tap::is(cache.refused, 0u, "and find room elsewhere");
    const uint64_t drained = cache.leases().drained;
    cache.wait_out();
    cache.set("s", small);
    tap::ok(cache.leases().drained == drained + 1 && cache.leases().draining == 0, "it is free afterwards");
    fault(wrong_in(cache.node, cache.now));
}

// Without sets: a request for a lease reclaims items that died under their leases.
void reclaims_for_leases() {
    Cache cache(leases_of(PolicyKind::pdla, 8, 20'000, 1));
    const int count = fill_zone(cache);
    for (int i = 0; i < 40'000; i++) cache.set(named("t", i), small);
    std::string outside;
    for (int i = 40'000; i-- > 0 && outside.empty();)
        if (cache.get(named("t", i)).status == protocol::GetReply::Status::hit) outside = named("t", i);
    tap::ok(!cache.leased(outside), "a zone full of leases has no room");
    for (int i = 0; i < count; i++) {
        protocol::DeleteOp op;
        const std::string key = named("s", i);
        op.key = cache.node.key(key);
        cache.node.remove(op, cache.now);
    }
    tap::ok(cache.leases().dead_slots > 1000, "nor when all are deleted, as long as those run");
    cache.wait_out();
    const uint64_t moved = cache.node.stats(cache.now).pages_moved;
    tap::ok(cache.leased(outside), "and has room when they end");
    tap::is(cache.node.stats(cache.now).pages_moved, moved, "nothing else had to go for it");
    fault(wrong_in(cache.node, cache.now));
}

// An item that moves out of the lease zone keeps its count of reads that the node did not see.
void moves_with_what_was_counted() {
    Config config = leases_of(PolicyKind::approx_lru, 8, 20'000, 1);
    config.count_reads = true;
    Cache cache(config);
    Partition& partition = cache.node.impl().partitions[0];
    Arena& arena = cache.node.impl().arena;
    for (int i = 0; i < 60'000; i++) cache.set(named("s", i), small);
    std::map<std::string, Ref> zone;
    std::string wanted, deleted;
    for (int i = 0; i < 60'000; i++) {
        const std::string key = named("s", i);
        const Index::Place at = partition.items().locate(cache.node.key(key));
        if (at.slot == nullptr) continue;
        if (arena.leasable(at.ref)) {
            zone[key] = at.ref;
            continue;
        }
        deleted = std::exchange(wanted, key);  // of the same size
        partition.order().access(at.ref, cache.now);  // so that those of the zone are the next to go
    }
    for (const auto& [key, ref] : zone)
        arena.read_counters()->words()[layout::counter_of(arena.offset(ref))] += 5;
    protocol::DeleteOp op;
    op.key = cache.node.key(deleted);
    cache.node.remove(op, cache.now);
    tap::ok(cache.leased(wanted), "an item takes another one's place in the zone");
    int moved = 0;
    for (const auto& [key, ref] : zone) {
        const Index::Place at = partition.items().locate(cache.node.key(key));
        if (at.slot == nullptr) fault("what made room is lost");
        if (at.slot == nullptr || at.ref == ref) continue;
        const Ref to = at.ref;
        moved++;
        const Descriptor& item = arena.descriptor(to);
        tap::ok(item.access_count == 5 && (item.flags & item_fetched) != 0, "which keeps what it was read");
    }
    tap::is(moved, 1, "and is there still");
    fault(wrong_in(cache.node, cache.now));
}

void lease_stop() {
    LeaseStop stop;
    tap::ok(!stop.stopped(at_start) && stop.times() == 0, "there is no stop without a shortage");
    stop.found(at_start);
    tap::ok(!stop.stopped(at_start), "memory that was found is nothing new");
    stop.shortage(at_start, 50);
    stop.shortage(at_start + 1, 50);
    tap::ok(stop.stopped(at_start + 1) && stop.times() == 1, "a shortage stops leases, once");
    tap::ok(stop.stopped(at_start + 51) && !stop.stopped(at_start + 52), "until none can run");
    stop.shortage(at_start + 60, 50);
    stop.found(at_start + 61);
    stop.found(at_start + 65);
    tap::ok(stop.stopped(at_start + 70) && !stop.stopped(at_start + 71), "or until some time after memory was found");
    stop.shortage(at_start + 80, 50);
    stop.found(at_start + 81);
    stop.shortage(at_start + 90, 50);
    tap::ok(stop.stopped(at_start + 100), "without another shortage");
    tap::is(stop.times(), 3u, "which is counted if it begins a stop");
}

// The only way there: the limit is lowered to what is leased.
void stops_altogether(PolicyKind policy) {
    const std::string name(name_of(policy));
    Cache cache(leases_of(policy, 16, 20'000, 4));
    const int count = fill_zone(cache);
    tap::ok(cache.node.set_memory_limit(8 << 20, cache.now), name + ": the limit is lowered");
    for (int i = 0; i < 20; i++) cache.set(named("l", i), large);
    tap::ok(cache.refused > 0, "to what is leased, so a set is refused");
    tap::ok(cache.leases().stopped == 1 && cache.leases().stops == 1, "and leases stop");
    int hits = 0;
    const LeaseStats before = cache.leases();
    for (int i = 0; i < count; i++) hits += cache.get(named("s", i)).status == protocol::GetReply::Status::hit ? 1 : 0;
    const uint64_t granted = cache.leases().granted + cache.leases().renewed - before.granted - before.renewed;
    const uint64_t stopped = cache.leases().denied[size_t(protocol::LeaseDenial::stopped_)];
    tap::ok(hits > 1000 && granted == 0 && stopped > 1000, "gets are answered without leases");
    fault(wrong_in(cache.node, cache.now, false));
    cache.wait_out();
    cache.refused = 0;
    for (int i = 0; i < 20; i++) cache.set(named("l", i), large);
    tap::is(cache.refused, 0u, "when those that ran are over sets find room");
    fill_zone(cache);
    const uint64_t leased = cache.leases().bytes;
    tap::ok(leased > 1 << 20 && cache.leases().stopped == 0, "and leases are granted again");
    fault(wrong_in(cache.node, cache.now));

    cache.node.set_memory_limit(4 << 20, cache.now);
    for (int i = 0; i < 20; i++) cache.set(named("l", i), large);
    tap::is(cache.leases().stops, 2u, "another shortage");
    cache.node.set_memory_limit(16 << 20, cache.now);
    tap::ok(cache.set("k", small) && cache.leases().stopped == 1, "memory is found, and leases wait a little longer");
    cache.now += LeaseStop::calm_s;
    fill_zone(cache, "more");
    fault(wrong_in(cache.node, cache.now, false));
    tap::ok(cache.leases().bytes > leased + (1 << 20), "then they are granted, also in what the limit was raised by");
}

// 64 MB: as many small items as possible, leased at the longest term and renewed, while sets of all sizes run.
void flood(PolicyKind policy) {
    const std::string name(name_of(policy));
    Config config = leases_of(policy, 64, 256'000, 0);
    Cache cache(config);
    const int count = 260'000;
    for (int i = 0; i < count; i++) {
        cache.set(named("s", i), small);
        cache.get(named("s", i));
    }
    const uint64_t leased = cache.leases().bytes;
    tap::ok(leased > 16 << 20, name + ": half of the memory that may be is leased");
    fault(wrong_in(cache.node, cache.now));
    for (int i = 0; i < 120; i++) cache.set(named("l", i), large);
    fault(wrong_in(cache.node, cache.now));
    std::mt19937_64 dice(7);
    static constexpr size_t sizes[] = {100, 100, 1000, 3000, 20'000, 60'000, 200'000, 900'000};
    for (int i = 0; i < 2500; i++) {
        if (i % 125 == 0) cache.now += 20;
        cache.set(named("f", int(dice() % 5000)), std::string(sizes[dice() % std::size(sizes)], 'f'));
        cache.get(named("s", int(dice() % count)));
        cache.get(named("f", int(dice() % 5000)));
    }
    fault(wrong_in(cache.node, cache.now));
    for (int i = 0; i < count; i++) cache.set(named("t", i), small);
    fault(wrong_in(cache.node, cache.now));
    tap::is(cache.refused, 0u, name + ": no set is refused in a flood");
    const Stats stats = cache.node.stats(cache.now);
    tap::ok(stats.pages_used <= stats.pages_limit && stats.leases.stops == 0, "and the limit on memory holds");
}

// Random operations; a proxy that keeps every pointer as long as it may, and looks whether the slot holds that key.
class History {
  public:
    History(PolicyKind policy, uint64_t seed)
        : cache_(leases_of(policy, 5, seed % 2 == 0 ? 2000 : 15'000, seed % 3 == 0 ? 2 : 1)), dice_(seed) {}

    LeaseStats run(int steps) {
        for (int i = 0; i < steps; i++) {
            step();
            fault(wrong_in(cache_.node, cache_.now));
            look();
        }
        fault(cache_.refused == 0 ? "" : "a set was refused");
        return cache_.leases();
    }

  private:
    struct Held {
        std::string key;
        NodeSeconds until;
    };

    std::string key_at(uint64_t offset) {
        const char* at = cache_.node.view().base + offset;
        layout::ItemHeader header;
        std::memcpy(&header, at, sizeof header);
        return std::string(at + sizeof header, header.key_len);
    }
    void hold(const std::string& key, const std::optional<protocol::Grant>& grant) {
        if (!grant) return;
        const uint32_t kept_s = (grant->term_ms + cache_.node.config().lease.grace_ms + 999) / 1000;
        held_[grant->offset] = {key, cache_.now + kept_s};
    }
    void look() {
        std::erase_if(held_, [&](const auto& one) { return cache_.now > one.second.until; });
        if (held_.empty()) return;
        auto at = held_.lower_bound(dice_());
        at = std::next(held_.begin(), ptrdiff_t(dice_() % held_.size()));
        if (key_at(at->first) != at->second.key) fault("a slot under a lease holds another key");
    }
    void step() {
        if (dice_() % 8 == 0) cache_.now += uint32_t(dice_() % 2);
        // The popular keys move on from size to size.
        const int phase = steps_++ / 120 % 3;
        for (int i = 0; i < 40; i++) {
            const int size = dice_() % 4 == 0 ? int(dice_() % 4) : phase;
            const std::string key = named("abcd"[size] == 'a' ? "a" : size == 1 ? "b" : size == 2 ? "c" : "d",
                                          int(dice_() % (size == 0 ? 12'000 : 300)));
            static constexpr size_t sizes[] = {100, 3000, 20'000, 200'000};
            const protocol::GetReply reply = cache_.get(key);
            hold(key, reply.grant);
            if (reply.status != protocol::GetReply::Status::hit || dice_() % 50 == 0)
                cache_.set(key, std::string(sizes[size], char('a' + dice_() % 26)));
        }
    }

    Cache cache_;
    std::mt19937_64 dice_;
    int steps_ = 0;
    std::map<uint64_t, Held> held_;
};

// Several threads store, read, report and delete on a host of two NUMA nodes while the clock goes on and, if `resized`, the
// limit on memory goes up and down.
void together(PolicyKind policy, bool resized) {
    Config config = leases_of(policy, 8, 1500, 4);
    config.grows = true;
    config.numa_nodes = {0, 1};
    config.count_reads = true;
    Node node(config);
    std::atomic<NodeSeconds> now{at_start};
    std::atomic<uint64_t> refused{0};
    std::atomic<bool> enough{false};  // leases: when they stop depends on how the threads interleave
    constexpr int threads = 3, steps = has_tsan ? 10'000 : 25'000;
    const auto work = [&](uint64_t seed) {
        std::mt19937_64 dice(seed);
        static constexpr size_t sizes[] = {100, 3000, 20'000, 200'000};
        static constexpr int keys[] = {12'000, 300, 100, 5};
        std::vector<char> copy(sizes[3]);
        for (int i = 0; i < steps || (i < 4 * steps && !enough); i++) {
            if (seed == 0 && i % 500 == 0) {
                now++;
                enough = node.stats(now).leases.granted > 1000;
            }
            if (seed == 0 && resized && i % 4000 == 0) node.set_memory_limit((i / 4000 % 2 == 0 ? 5 : 9) << 20, now);
            if (seed == 1 && i % 9000 == 8999) node.flush_all(now);
            const int size = dice() % 4 == 0 ? int(dice() % 4) : i / 4000 % 2;
            const std::string key = named("k", size * 100'000 + int(dice() % uint64_t(keys[size])));
            protocol::GetOp get;
            get.key = node.key(key);
            get.lease = true;
            if (dice() % 100 == 0) get.touch = now + 1 + NodeSeconds(dice() % 4);
            const protocol::GetReply reply = node.get(get, now, [&](const protocol::ItemMeta&) { return copy.data(); });
            if (reply.grant && dice() % 4 == 0) {
                const uint64_t in_arena = reply.grant->offset - node.impl().region.header().arena_offset;
                const layout::Slot slot = layout::Slot::make(layout::tag_of(get.key.hash), reply.meta.size_class, in_arena);
                const layout::Guard guard = layout::Guard::make(reply.grant->generation, layout::GuardState::live);
                node.renew({slot.word, guard.word, get.key.hash, 3}, now, UINT64_MAX);
            }
            if (reply.status == protocol::GetReply::Status::hit && dice() % 20 != 0) continue;
            protocol::StoreOp set;
            set.key = get.key;
            const std::string value(sizes[size], char('a' + dice() % 26));
            set.value = value;
            set.lease = true;
            if (node.store(set, now).status != protocol::StoreReply::Status::stored) refused++;
        }
    };
    std::vector<std::thread> workers;
    for (uint64_t i = 0; i < threads; i++) workers.emplace_back(work, i);
    for (std::thread& worker : workers) worker.join();
    const std::string name(name_of(policy));
    const LeaseStats leases = node.stats(now).leases;
    tap::note("%s: %d leases, %d renewed, %d pages drained, %d stops, %d sets refused", name.c_str(), int(leases.granted),
              int(leases.renewed), int(leases.drained), int(leases.stops), int(refused));
    fault(wrong_in(node, now, !resized));
    if (!resized) tap::is(refused.load(), 0u, name + ": no set is refused when several threads store");
    tap::ok(leases.granted > 1000 && leases.renewed > (has_tsan ? 40 : 100), name + ": leases of several threads");
}

void one_thread() {
    for (const PolicyKind policy : leasing) lets_run_out_for_another_class(policy);
    takes_what_nobody_leases();
    comes_to_rest();
    drains_for_sets();
    reclaims_for_leases();
    moves_with_what_was_counted();
    lease_stop();
    for (const PolicyKind policy : leasing) {
        stops_altogether(policy);
        flood(policy);
        LeaseStats sum;
        for (uint64_t seed = 1; seed <= 3; seed++) {
            const LeaseStats one = History(policy, seed).run(350);
            sum.granted += one.granted;
            sum.drained += one.drained;
        }
        const std::string name(name_of(policy));
        tap::note("%s: %d leases, %d pages drained", name.c_str(), int(sum.granted), int(sum.drained));
        tap::ok(sum.granted > 1000 && sum.drained > 0, name + ": histories with draining pages");
    }
}

}  // namespace

int main() {
    // In functions of one thread ThreadSanitizer has nothing to find, and takes ten times as long.
    if (!has_tsan) one_thread();
    for (const PolicyKind policy : leasing)
        for (const bool resized : {false, true}) together(policy, resized);
    tap::is(wrong, 0, "nothing is lost, counted twice or reused too early");
    return tap::done();
}
