// SPDX-License-Identifier: BSD-3-Clause
// Eviction policies in a node. Terms depend on popularity: gets, sets, reports and counters of reads. Items keep their
// place when they are moved or rewritten. Random histories lose nothing between queues, index and leases; the same seed
// gives the same history. The parts: LeaseTerms, Ghosts, RecentlyEvicted.
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "node/policy/policy.h"
#include "node/store/impl.h"
#include "protocol/words.h"
#include "t/lib/tap.h"
#include "t/unit/node/policy_models.h"

using namespace farcached;
using namespace farcached::node;

namespace {

constexpr NodeSeconds at_start = 1000;
int wrong = 0;

void fault(const std::string& what) {
    if (wrong++ < 5) std::printf("# wrong: %s\n", what.c_str());
}

void lease_terms() {
    LeaseConfig config;
    LeaseTerms terms(PolicyKind::pdla, config);
    tap::is(terms.queue_term_ms(0), 0u, "queue 0 earns nothing");
    tap::is(terms.queue_term_ms(7), 256'000u / 7 * 7, "without pressure queue 7 earns the longest term");
    terms.press(1, 1, 200);
    tap::is(terms.queue_term_ms(1), 4000u, "under full pressure queue 1 earns the shortest");
    tap::is(terms.term_ms(300, 0), 28'000u, "and queue 7 seven times that");
    terms.press(1, 0, 0);
    tap::is(terms.alpha_ms(), (256'000u / 7 + 4000 + 1) / 2, "memory use is half of the pressure");
    terms.press(0, 1, 0);
    tap::is(terms.alpha_ms(), (256'000u / 7 + 4000 + 1) / 2, "what is leased the other half");
    terms.press(5, 5, 0);
    tap::is(terms.alpha_ms(), 4000u, "more than all is all");
    terms.press(1, 0.5, 100);
    tap::ok(terms.queue_term_ms(0) == 0 && terms.queue_term_ms(1) / 100 == 449, "while the zone has room, by how long items stay");
    tap::ok(terms.queue_term_ms(2) / 100 == 899 && terms.queue_term_ms(6) == 200'000, "up to twice as long as that");
    terms.press(1, 0.5, 1);
    tap::is(terms.queue_term_ms(3), 3 * terms.alpha_ms(), "where they go at once, by alpha alone");
    terms.press(1, 0.5, 1000);
    tap::is(terms.queue_term_ms(1), 256'000u, "never longer than the longest");
    config.term_ms_min = config.term_ms_max = 8000;
    const LeaseTerms one(PolicyKind::pdla, config);
    tap::ok(one.term_ms(1, 0) == 0 && one.term_ms(2, 0) == 8000 && one.term_ms(200, 0) == 8000, "both ends the same: one term");
    const LeaseTerms fixed(PolicyKind::fixed_lease, config), longest(PolicyKind::original, LeaseConfig());
    tap::ok(fixed.term_ms(1, 0) == 4000 && fixed.longest_ms() == 4000 && fixed.alpha_ms() == 0, "fixed_lease: term_ms");
    tap::is(longest.term_ms(1, 0), 256'000u, "original: the longest");
    LeaseTerms paper(PolicyKind::pdla_paper, LeaseConfig());
    paper.press(1, 0, 200);
    tap::ok(paper.alpha_ms() == 4000 && paper.term_ms(200, 2) == 8000 && paper.term_ms(200, 0) == 0,
            "pdla_paper: by memory use alone, and by the item's queue");
    paper.press(0, 1, 200);
    tap::is(paper.alpha_ms(), 256'000u / 7, "leased memory counts for nothing");
    bool in_order = true;
    for (uint32_t touches = 1; touches < 70'000; touches++) {
        const uint32_t queue = popularity_queue(touches);
        in_order = in_order && (queue == 7 || touches >> queue == 1) && queue <= 7;
    }
    tap::ok(in_order && popularity_queue(128) == 7 && popularity_queue(127) == 6, "queues by powers of two");
}

void lifetime() {
    Lifetime lifetime;
    lifetime.look(100, 1000, 0);
    tap::is(lifetime.seconds(), 0.0, "nothing is evicted: there is no lifetime");
    for (NodeSeconds now = 101; now < 400; now++) lifetime.look(now, 1000, (now - 100) * 20);
    tap::ok(lifetime.seconds() > 49.9 && lifetime.seconds() < 50.1, "a thousand items, 20 evicted per second: 50 s");
    lifetime.look(399, 7, 9999);
    tap::ok(lifetime.seconds() > 49.9, "a second counts once");
    for (NodeSeconds now = 400; now < 800; now++) lifetime.look(now, 1000, 299 * 20);
    tap::is(lifetime.seconds(), 0.0, "when no more go it is forgotten");
}

void ghosts() {
    std::mt19937_64 dice(3);
    Ghosts ghosts;
    std::deque<std::pair<uint64_t, uint32_t>> plain;
    const auto take = [&](uint64_t hash) {
        for (auto& [other, touches] : plain)
            if (other == hash && touches != 0) return std::exchange(touches, 0u);
        return 0u;
    };
    int differ = 0;
    for (int i = 0; i < 60'000; i++) {
        const uint64_t hash = (dice() % 900) * UINT64_C(0x9e3779b97f4a7c15);
        const size_t limit = i % 10'000 < 5000 ? 500 : 1 + size_t(i) % 300;
        if (dice() % 2 == 0) {
            const uint32_t touches = 1 + uint32_t(dice() % 9);
            take(hash);
            while (plain.size() >= limit) plain.pop_front();
            plain.push_back({hash, touches});
            ghosts.add(hash, touches, limit);
        } else if (ghosts.take(hash) != take(hash)) {
            differ++;
        }
        if (ghosts.added() != plain.size()) differ++;
    }
    tap::is(differ, 0, "Ghosts knows what a plain list knows");
}

// Beside a plain list of each bucket.
void recently_evicted() {
    using From = RecentlyEvicted::From;
    std::mt19937_64 dice(4);
    RecentlyEvicted evicted;
    models::Evicted plain;
    int differ = 0, known = 0, forgotten = 0;
    for (int i = 0; i < 90'000; i++) {
        const uint64_t hash = (1 + dice() % 2000) * UINT64_C(0x9e3779b97f4a7c15);
        const int from = plain.take(hash);
        if (evicted.take(hash) != (from < 0 ? From::unknown : From(from))) differ++;
        from < 0 ? forgotten++ : known++;
        if (dice() % 3 == 0) continue;
        const size_t limit = i < 30'000 ? 500 : i < 60'000 ? 1200 : 50 + dice() % 900;
        const int queue = dice() % 4 == 0 ? 1 : 0;
        plain.add(hash, queue, limit);
        evicted.add(hash, From(queue), limit);
        if (evicted.count(From::small) != plain.count(0) || evicted.count(From::main) != plain.count(1)) differ++;
    }
    tap::is(differ, 0, "RecentlyEvicted knows what plain lists know");
    tap::ok(known > 1000 && forgotten > 1000, "known items, and forgotten ones");

    RecentlyEvicted many;
    constexpr uint64_t limit = 30'000;
    const auto hash_of = [](uint64_t number) { return hash_bytes(&number, sizeof number, 1); };
    for (uint64_t i = 0; i < 3 * limit; i++) many.add(hash_of(i), From::small, limit);
    uint64_t newest = 0, oldest = 0;
    for (uint64_t i = 0; i < limit / 10; i++) {
        if (many.take(hash_of(3 * limit - 1 - i)) != From::unknown) newest++;
        if (many.take(hash_of(i)) != From::unknown) oldest++;
    }
    tap::ok(newest > limit / 11 && oldest < limit / 100, "it knows the last ones, and not the first ones of three times its limit");
}

// A table for this limit cannot be mapped.
void no_memory_for_evicted() {
    using From = RecentlyEvicted::From;
    constexpr size_t too_many = SIZE_MAX / 4, some = 1000;
    constexpr uint64_t known = 1;
    RecentlyEvicted evicted;
    evicted.add(UINT64_C(1) << 31, From::small, too_many);
    tap::ok(evicted.take(UINT64_C(1) << 31) == From::unknown, "without memory for a table nothing is remembered");
    for (uint32_t i = 0; i <= RecentlyEvicted::pause; i++) evicted.add(UINT64_C(1) << 31, From::small, 64);
    evicted.add(known, From::main, 64);
    evicted.add(UINT64_C(1) << 31, From::small, too_many);
    uint32_t evictions = 0;
    for (; evicted.count(From::main) == 1 && evictions < 2 * RecentlyEvicted::pause; evictions++)
        evicted.add(UINT64_C(1) << 31, From::small, some);
    tap::is(evictions, RecentlyEvicted::pause + 1, "the old table stays, and the next attempt comes after a pause");
}

Config config_of(PolicyKind policy, uint64_t megabytes = 4) {
    Config config;
    config.memory_bytes = megabytes << 20;
    config.item_bytes_max = 256 << 10;
    config.partitions = 1;
    config.policy = policy;
    config.lease.enabled = true;
    config.seed = 17;
    return config;
}

struct Cache {
    explicit Cache(const Config& config) : node(config) {}

    std::optional<protocol::Grant> set(const std::string& key, const std::string& value, NodeSeconds now = at_start,
                                       NodeSeconds exptime = never_expires) {
        protocol::StoreOp op;
        op.key = node.key(key);
        op.value = value;
        op.exptime = exptime;
        op.lease = true;
        const protocol::StoreReply reply = node.store(op, now);
        if (reply.status != protocol::StoreReply::Status::stored) fault("a set was refused");
        return reply.grant;
    }
    protocol::GetReply get(const std::string& key, NodeSeconds now = at_start,
                           std::optional<NodeSeconds> touch = std::nullopt) {
        protocol::GetOp op;
        op.key = node.key(key);
        op.lease = true;
        op.touch = touch;
        return node.get(op, now, [](const protocol::ItemMeta&) -> char* { return nullptr; });
    }
    uint32_t term_ms(const std::string& key) {
        const protocol::GetReply reply = get(key);
        return reply.grant ? reply.grant->term_ms : 0;
    }
    Ref ref(const std::string& key) { return node.impl().partitions[0].items().locate(node.key(key)).ref; }
    Descriptor& descriptor(const std::string& key) { return node.impl().arena.descriptor(ref(key)); }

    Node node;
};

void popularity() {
    Cache cache(config_of(PolicyKind::pdla));
    tap::ok(!cache.set("k", "v"), "pdla: no lease for what is new");
    tap::is(cache.node.stats(at_start).leases.denied[size_t(protocol::LeaseDenial::young_)], 1u, "as it is young");
    const Ref first = cache.ref("k");
    const uint32_t alpha = cache.term_ms("k");
    tap::is(alpha, uint32_t(cache.node.stats(at_start).leases.alpha_ms), "alpha for the second touch");
    tap::ok(cache.ref("k") != first && cache.node.stats(at_start).leases.moved == 1, "it was moved for that,");
    tap::ok(cache.descriptor("k").queue == 1 && cache.descriptor("k").access_count == 1, "with its queue and count");
    tap::is(cache.term_ms("k"), alpha, "as much for the third");
    tap::is(cache.term_ms("k"), 2 * alpha, "twice as much for the fourth");
    for (int i = 5; i < 128; i++) cache.get("k");
    tap::is(cache.term_ms("k"), 7 * alpha, "seven times as much for the 128th");

    cache.set("t", "v", at_start, at_start + 500);
    for (int i = 0; i < 6; i++) cache.get("t", at_start + 1);
    tap::is(cache.descriptor("t").queue, 2, "seven touches");
    const Ref before = cache.ref("t");
    cache.get("t", at_start + 2, at_start + 4);
    tap::ok(cache.ref("t") == before && cache.descriptor("t").queue == 3, "a touch that writes its header is one more");

    cache.set("r", "v");
    Partition& partition = cache.node.impl().partitions[0];
    const Index::Place place = partition.items().locate(cache.node.key("r"));
    std::vector<Access> seen(7, Access{*place.slot, words::load_relaxed(cache.node.impl().arena.words(place.ref)),
                                       cache.node.key("r").hash, 1});
    cache.node.record(seen, at_start);
    tap::ok(cache.descriptor("r").queue == 3 && cache.descriptor("r").access_count == 7, "reports count");

    Cache filling(config_of(PolicyKind::pdla));
    filling.set("first", "v");
    const uint32_t while_empty = filling.term_ms("first");
    const std::string value(1000, 'v');
    for (int i = 0; i < 1000; i++) {
        filling.set(std::to_string(i), value);
        filling.get(std::to_string(i));
    }
    filling.set("last", "v");
    tap::ok(filling.term_ms("last") < while_empty, "a cache that fills up within a second leases for less before its end");

    Config counting = config_of(PolicyKind::pdla);
    counting.count_reads = true;
    Cache counted(counting);
    counted.set("c", "v");
    ReadCounters& counters = *counted.node.impl().arena.read_counters();
    counters.words()[layout::counter_of(counted.node.impl().arena.offset(counted.ref("c")))] += 62;
    const uint32_t counted_ms = counted.term_ms("c");
    tap::is(counted_ms, 6 * counted.node.stats(at_start).leases.alpha_ms, "so do reads that were counted");
}

void without_leases() {
    for (const PolicyKind kind : {PolicyKind::lru, PolicyKind::mq}) {
        Cache cache(config_of(kind));
        cache.set("k", "v");
        cache.get("k");
        tap::ok(!cache.get("k").grant && !cache.node.config().lease.enabled, std::string(name_of(kind)) + ": no leases");
    }
}

// An item is rewritten in its own slot, for want of another, after the policy has chosen a victim.
void changed_where_it_lies(PolicyKind kind) {
    Config config = config_of(kind);
    config.memory_bytes = layout::page_bytes;
    config.grows = false;
    Cache cache(config);
    cache.set("k", std::string(60'000, 'v'));
    const Ref before = cache.ref("k");
    cache.get("k", at_start, at_start + 500);
    tap::ok(cache.ref("k") == before && cache.descriptor("k").exptime == at_start + 500,
            std::string(name_of(kind)) + ": a touch where there is one slot");
    cache.set("l", "v");
    cache.set("k", "v");
    tap::is(cache.node.stats(at_start).items, 2u, "and its lists hold what they say");
}

// A client asks with `mg N`, stores with `ms`, and reads each key once: none has earned the main queue.
void vivified() {
    Config config = config_of(PolicyKind::s3fifo);
    config.lease.enabled = false;  // a leased item would go there
    Cache cache(config);
    const std::string value(700, 'v');
    for (int i = 0; i < 20'000; i++) {
        const std::string key = "key" + std::to_string(i);
        protocol::GetOp op;
        op.key = cache.node.key(key);
        op.vivify = at_start + 30;
        const auto sink = [](const protocol::ItemMeta&) -> char* { return nullptr; };
        if (!cache.node.get(op, at_start, sink).vivified) fault("mg N found a new key");
        cache.set(key, value);
        cache.get(key);
    }
    const Stats stats = cache.node.stats(at_start);
    tap::ok(stats.items > 4000 && stats.queues[0] <= stats.items / 100 + 2,
            "s3fifo: a value that replaces one of another class is new");
    tap::ok(stats.queues[2] < stats.items / 20, "and not used twice if it is read once");
}

// Which items an eviction passes over.
void stays() {
    for (const PolicyKind kind : {PolicyKind::clock, PolicyKind::s3fifo, PolicyKind::pdla}) {
        const bool passes_over = kind != PolicyKind::pdla;
        const std::string name = std::string(name_of(kind)) + ": ";
        Config config = config_of(kind);
        config.lease.enabled = false;
        config.partitions = 1;
        Cache cache(config);
        const auto stay = [&](const std::string& key) {
            return cache.node.impl().partitions[0].order().stays(cache.ref(key));
        };
        for (int i = 0; i < 1000; i++) cache.set("key" + std::to_string(i), "value");
        tap::ok(!stay("key0") && !stay("key999"), name + "an item that was not read does not stay");
        cache.get("key0");
        cache.get("key999");
        cache.get("key999");
        tap::is(stay("key0") && stay("key999"), passes_over, name + "one that was read does, if reads do not move it");
    }
}

// Compares all counters of the node's items with the items themselves.
void check(Cache& cache, NodeSeconds now) {
    Node::Impl& impl = cache.node.impl();
    const Stats stats = cache.node.stats(now);
    uint64_t items = 0, leased = 0, queued = 0;
    for (uint64_t number = 0; number < cache.node.pages().count(); number++) {
        if (impl.arena.owner_hint(number) == Page::no_owner) continue;
        const Page& page = impl.arena.page(number);
        if (page.run_head != number) continue;
        for (uint32_t slot = 0; slot < (page.size_class == layout::large_class ? 1 : page.fresh); slot++) {
            const Descriptor& item = impl.arena.descriptor(make_ref(number, slot));
            if (item.state != SlotState::live) continue;
            items++;
            if (cache.node.config().policy == PolicyKind::pdla && item.queue != popularity_queue(item.access_count + 1u))
                fault("an item is not in the queue of its count");
            if (!cache.node.config().lease.enabled || !lease_runs(item, now)) continue;
            leased += impl.arena.capacity(make_ref(number, slot));
            if (!impl.arena.leasable(make_ref(number, slot))) fault("a lease outside the lease zone");
        }
    }
    for (const uint64_t length : stats.queues) queued += length;
    if (items != stats.items || queued != items) fault("queues, items and slots differ");
    if (leased != stats.leases.bytes) fault("leased bytes differ");
    if (stats.pages_used > stats.pages_limit) fault("more memory than there is");
}

struct Outcome {
    uint64_t hits = 0, granted = 0, evicted = 0;
    bool operator==(const Outcome&) const = default;
};

Outcome history(PolicyKind kind, uint64_t seed, int steps) {
    Cache cache(config_of(kind));
    std::mt19937_64 dice(seed);
    NodeSeconds now = at_start;
    Outcome outcome;
    static constexpr size_t sizes[] = {10, 100, 100, 400, 1000, 1000, 5000, 30'000, 150'000};
    for (int i = 0; i < steps; i++) {
        const uint64_t spread = dice() % 4 == 0 ? 5000 : 200;
        const std::string key = "key" + std::to_string(dice() % spread);
        const uint64_t what = dice() % 64;
        if (what == 0) now += uint32_t(dice() % 4);
        if (what == 1) {
            protocol::DeleteOp op;
            op.key = cache.node.key(key);
            op.invalidate = dice() % 2 == 0;
            cache.node.remove(op, now);
        }
        if (what == 2) cache.get(key, now, now + 1 + uint32_t(dice() % 20));
        if (what == 3 && dice() % 100 == 0) cache.node.flush_all(now);
        const bool hit = what != 4 && cache.get(key, now).status == protocol::GetReply::Status::hit;
        outcome.hits += hit ? 1 : 0;
        if (!hit) cache.set(key, std::string(sizes[dice() % std::size(sizes)], 'v'), now);
        if (i % 256 == 0) check(cache, now);
    }
    check(cache, now);
    const Stats stats = cache.node.stats(now);
    outcome.granted = stats.leases.granted;
    for (const ClassStats& one : stats.classes) outcome.evicted += one.evicted;
    return outcome;
}

}  // namespace

int main() {
    lease_terms();
    lifetime();
    ghosts();
    recently_evicted();
    no_memory_for_evicted();
    popularity();
    without_leases();
    vivified();
    stays();
    for (size_t i = 0; i < policy_names.size(); i++) changed_where_it_lies(PolicyKind(i));
    for (size_t i = 0; i < policy_names.size(); i++) {
        const std::string name(name_of(PolicyKind(i)));
        const Outcome first = history(PolicyKind(i), 1, 20'000);
        tap::ok(first.evicted > 1000 && (first.granted > 0) == may_lease(PolicyKind(i)), name + ": a history");
        tap::ok(history(PolicyKind(i), 1, 20'000) == first, name + ": the same seed, the same history");
        (void)history(PolicyKind(i), 2, 20'000);
    }
    tap::is(wrong, 0, "nothing is lost or counted twice");
    return tap::done();
}
