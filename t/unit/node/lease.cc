// SPDX-License-Identifier: BSD-3-Clause
// Leases on the node's side (S1, S2, S3, S7, S8, S11): grants and denials. A slot under a lease holds no other key's
// bytes until the lease has ended, for any change to the item. Its guard is dead once the item is. No set is refused
// because of leases. Built again with a rule broken on purpose (t/faulty/broken_rules.py), the test must find a
// violation, and reports it by its one check.
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/broken.h"
#include "node/store/impl.h"
#include "protocol/layout_hash.h"
#include "t/lib/tap.h"
#include "t/unit/node/invariants.h"

using namespace farcached;

namespace {

constexpr NodeSeconds at_start = 1000;
int violations = 0;

void violation(const std::string& what) {
    if (violations++ < 5) std::printf("# violation: %s\n", what.c_str());
}

node::Config with_leases(uint64_t megabytes, uint32_t term_ms = 4000) {
    node::Config config;
    config.memory_bytes = megabytes << 20;
    config.workers = 1;
    config.lease.enabled = true;
    config.lease.term_ms = term_ms;
    return config;
}

// The time for which the node keeps a leased slot, from the second of the grant, rounded up at both ends.
NodeSeconds kept_for(const node::Config& config) {
    return (config.lease.term_ms + config.lease.grace_ms + 999) / 1000 + 1;
}

using Status = protocol::StoreReply::Status;

protocol::StoreReply set(node::Node& cache, std::string_view key, std::string_view value, NodeSeconds now,
                         NodeSeconds exptime = never_expires, bool lease = true) {
    protocol::StoreOp op;
    op.key = cache.key(key);
    op.value = value;
    op.exptime = exptime;
    op.lease = lease;
    return cache.store(op, now);
}

// A set by a client that cannot read one-sided.
protocol::StoreReply plain_set(node::Node& cache, std::string_view key, std::string_view value,
                               NodeSeconds now) {
    return set(cache, key, value, now, never_expires, /* lease= */ false);
}

std::optional<protocol::Grant> get(node::Node& cache, std::string_view key, NodeSeconds now,
                                   std::optional<NodeSeconds> touch = std::nullopt) {
    protocol::GetOp op;
    op.key = cache.key(key);
    op.lease = true;
    op.touch = touch;
    auto sink = [](const protocol::ItemMeta&) -> char* { return nullptr; };
    return cache.get(op, now, sink).grant;
}

void remove(node::Node& cache, std::string_view key, NodeSeconds now) {
    protocol::DeleteOp op;
    op.key = cache.key(key);
    cache.remove(op, now);
}

// The bytes that a proxy READs by the pointer.
struct Bytes {
    layout::Guard guard{};
    std::string rest;
};

Bytes read(node::Node& cache, const protocol::Grant& grant) {
    const char* at = cache.view().base + grant.offset;
    Bytes bytes;
    std::memcpy(&bytes.guard.word, at, 8);
    bytes.rest.assign(at + 8, grant.length - 8);
    return bytes;
}

bool alive(node::Node& cache, const protocol::Grant& grant) {
    return read(cache, grant).guard.state() == layout::GuardState::live;
}

bool is_there(node::Node& cache, std::string_view key, NodeSeconds now) {
    protocol::GetOp op;
    op.key = cache.key(key);
    auto sink = [](const protocol::ItemMeta&) -> char* { return nullptr; };
    return cache.get(op, now, sink).status == protocol::GetReply::Status::hit;
}

void grants() {
    const node::Config config = with_leases(4);
    node::Node cache(config);
    tap::ok(!set(cache, "k", "value", at_start).grant.has_value(), "the first touch earns no lease");
    auto grant = get(cache, "k", at_start);
    tap::ok(grant.has_value(), "the second does");
    if (!grant) return;
    tap::is(grant->term_ms, config.lease.term_ms, "of the configured term");
    const Bytes bytes = read(cache, *grant);
    tap::ok(alive(cache, *grant), "the pointer names a live item of its generation");
    tap::is(bytes.rest.substr(bytes.rest.size() - 6), "kvalue", "with this key and value");
    tap::is(cache.stats(at_start).leases.bytes, uint64_t(grant->capacity), "its slot is counted");
    auto again = get(cache, "k", at_start + 1);
    tap::ok(again && again->offset == grant->offset && again->generation == grant->generation,
            "a renewal leaves it where it is");
    tap::is(cache.stats(at_start + 1).leases.renewed, 1u, "and is counted");
    tap::is(cache.stats(at_start + 1 + kept_for(config)).leases.bytes, uint64_t(grant->capacity), "it runs");
    tap::is(cache.stats(at_start + 2 + kept_for(config)).leases.bytes, 0u, "and ends");

    const std::string large(300'000, 'l');
    set(cache, "large", large, at_start);
    grant = get(cache, "large", at_start);
    tap::ok(grant.has_value() && alive(cache, *grant), "an item of several pages earns one, too");
    tap::ok(grant && read(cache, *grant).rest.ends_with("large" + large), "with all its bytes");
    tap::is(cache.stats(at_start).leases.moved, 2u, "where leases may be");
    tap::ok(alive(cache, *again), "and what was leased stays");

    node::Config plain = config;
    plain.lease.enabled = false;
    node::Node other(plain);
    set(other, "k", "value", at_start);
    tap::ok(!get(other, "k", at_start), "without leases there are none");
}

// After a reload new grants have the new terms; running leases keep theirs.
void terms_change() {
    node::Node cache(with_leases(16, 4000));
    set(cache, "k", "v", at_start);
    tap::is(get(cache, "k", at_start)->term_ms, 4000u, "a term");
    cache.set_lease_terms(1000, 1000, 1000);
    tap::is(cache.lease_config().term_ms, 1000u, "another is set");
    tap::is(get(cache, "k", at_start)->term_ms, 1000u, "and granted");
    const uint64_t dead = cache.stats(at_start).leases.dead_bytes;
    remove(cache, "k", at_start);
    tap::ok(cache.stats(at_start + 3).leases.dead_bytes > dead, "an item that dies waits for the lease that is longest");
    cache.set_lease_terms(16'000, 16'000, 16'000);
    set(cache, "l", "v", at_start);
    tap::is(get(cache, "l", at_start)->term_ms, 16'000u, "longer ones are granted, too");
}

void refusals() {
    const node::Config config = with_leases(4);
    node::Node cache(config);
    set(cache, "k", "value", at_start, at_start + 3);
    auto grant = get(cache, "k", at_start);
    tap::ok(grant && grant->term_ms == 2000, "a lease ends before the item expires");
    set(cache, "short", "value", at_start, at_start + 1);
    tap::ok(!get(cache, "short", at_start), "an item that expires within the second gets none");
    cache.announce_flush(at_start + 2);
    set(cache, "f", "value", at_start);
    grant = get(cache, "f", at_start);
    tap::ok(grant && grant->term_ms == 1000, "a lease ends before a scheduled flush");
    cache.flush_all(at_start + 2);

    NodeSeconds now = at_start + 10;
    set(cache, "w", "1", now);
    const auto first = get(cache, "w", now);
    tap::ok(first.has_value(), "a lease,");
    grant = set(cache, "w", "2", now + 1).grant;
    tap::ok(grant && grant->offset == first->offset && grant->generation > first->generation,
            "which an overwrite leaves to the slot");
    tap::ok(grant && grant->term_ms < config.lease.term_ms, "as long as it was, since the key was not read in between");
    get(cache, "w", now + 2);
    grant = set(cache, "w", "3", now + 3).grant;
    tap::ok(grant && grant->term_ms < config.lease.term_ms, "nor after a read that made it longer itself");

    protocol::DeleteOp stale;
    stale.key = cache.key("w");
    stale.invalidate = true;
    cache.remove(stale, now);
    tap::ok(get(cache, "w", now + 2).has_value(), "the pointer to an item that is marked stale stays good");
    tap::ok(!get(cache, "w", now + 2 + kept_for(config) + 1), "and is not granted again");
}

uint64_t denied(node::Node& cache, protocol::LeaseDenial why, NodeSeconds now) {
    return cache.stats(now).leases.denied[size_t(why)];
}

// S8: above a share of the memory limit in dead slots, a key that left one earns no lease. Above twice the share no key
// earns a new one. Running leases are renewed, and no set waits.
void dead_share() {
    using protocol::LeaseDenial;
    node::Config config = with_leases(4);
    config.partitions = 1;
    config.lease.dead_share = 0.1;
    node::Node cache(config);
    const std::string value(9000, 'v');
    const auto share = [&] { return double(cache.stats(at_start).leases.dead_bytes) / double(4 << 20); };
    const auto leased = [&](const std::string& key) {
        set(cache, key, value, at_start);
        return get(cache, key, at_start);
    };
    leased("runs");
    leased("outgrown");
    int died = 0;
    for (; share() <= 0.1 && died < 100; died++) {
        const std::string key = "k" + std::to_string(died);
        if (!leased(key)) break;
        remove(cache, key, at_start);
    }
    tap::ok(share() > 0.1 && share() < 0.11, "leases while dead slots take no more than their share");
    const auto before = set(cache, "outgrown", value + value, at_start);
    tap::ok(before.status == Status::stored && !before.grant && !get(cache, "outgrown", at_start),
            "a key that left a dead slot earns none then");
    tap::is(denied(cache, LeaseDenial::dead_key_, at_start), 1u, "for that reason");
    tap::ok(leased("other").has_value(), "another key does");
    for (; share() <= 0.2 && died < 100; died++) {
        const std::string key = "k" + std::to_string(died);
        if (!leased(key)) break;
        remove(cache, key, at_start);
    }
    tap::ok(share() > 0.2 && share() < 0.21, "until they take twice their share");
    tap::ok(!leased("another"), "and no other key then");
    tap::ok(denied(cache, LeaseDenial::dead_, at_start) != 0, "for that reason");
    const bool granted = get(cache, "runs", at_start + 1).has_value();
    tap::ok(granted && cache.stats(at_start).leases.renewed != 0, "a lease that runs is renewed");
    const auto revived = set(cache, "k0", value, at_start);
    tap::ok(revived.grant.has_value(), "and a key that takes its dead slot back has its lease");
    tap::ok(leased("outgrown").has_value() || get(cache, "outgrown", at_start + kept_for(config) + 1).has_value(),
            "again when those are reclaimed");
}

// S8: a slot above 1 KiB that is less than a quarter full is not renewed, and the item is moved for its next lease.
void sparse_slots() {
    const node::Config config = with_leases(4);
    node::Node cache(config);
    set(cache, "k", std::string(9000, 'v'), at_start);
    const auto large = get(cache, "k", at_start);
    const auto small = set(cache, "k", "v", at_start).grant;
    tap::ok(large && small && small->offset == large->offset, "what fits under a lease stays");
    tap::ok(get(cache, "k", at_start + 1).has_value(), "with its pointer");
    tap::is(denied(cache, protocol::LeaseDenial::sparse_, at_start + 1), 1u, "but the lease is not renewed");
    const auto moved = get(cache, "k", at_start + kept_for(config) + 1);
    tap::ok(moved && moved->capacity < large->capacity, "the next one is on a slot of its size");
}

// A full lease zone makes room by moving an item out of it: not a hidden one, which would come back.
void hidden_items_are_not_moved(const char* by, void (*hide)(node::Node&, NodeSeconds)) {
    for (const PolicyKind kind : {PolicyKind::clock, PolicyKind::approx_lru, PolicyKind::pdla, PolicyKind::s3fifo}) {
        node::Config config = with_leases(2);
        config.policy = kind;
        config.partitions = 1;
        config.item_bytes_max = 16 << 10;
        config.lease.term_ms_min = config.lease.term_ms_max = config.lease.term_ms;
        node::Node cache(config);
        const std::string value(1000, 'v');
        for (int i = 0; i < 1500; i++) {
            set(cache, "k" + std::to_string(i), value, at_start);
            get(cache, "k" + std::to_string(i), at_start);
        }
        const uint64_t moved = cache.stats(at_start).leases.moved;
        const NodeSeconds now = at_start + kept_for(config) + 1;  // all leases are over
        hide(cache, now);
        int seen = 0;
        for (int i = 0; i < 1500; i++) {
            const std::string fresh = "n" + std::to_string(i);
            set(cache, fresh, value, now);
            get(cache, fresh, now);
        }
        for (int i = 0; i < 1500; i++) seen += is_there(cache, "k" + std::to_string(i), now);
        tap::is(seen, 0, std::string(name_of(kind)) + ": no item is back that went by " + by);
        tap::ok(cache.stats(now).leases.moved > moved, "though items were moved into a zone that was full");
    }
}

// Where memory is full and nothing is evicted, a value that needs no more room is changed in place.
void rewritten_in_place() {
    node::Config config = with_leases(4);
    config.evict = false;
    config.partitions = 1;
    node::Node cache(config);
    set(cache, "k", "12", at_start);
    const auto grant = get(cache, "k", at_start);
    tap::ok(grant.has_value(), "a lease,");
    for (int i = 0; plain_set(cache, "f" + std::to_string(i), "x", at_start).status == Status::stored; i++) {}
    const node::Stats before = cache.stats(at_start);
    const auto touched = get(cache, "k", at_start, at_start + 100);
    tap::ok(touched && touched->offset == grant->offset && touched->generation > grant->generation, "which a touch leaves");
    tap::is(cache.stats(at_start).items_total, before.items_total, "and is no new item");
    const auto again = set(cache, "k", "34", at_start);
    tap::ok(again.status == Status::stored && again.grant && again.grant->offset == grant->offset, "a set is one, there");
    protocol::ArithOp op;
    op.key = cache.key("k");
    op.lease = true;
    const protocol::ArithReply sum = cache.arith(op, at_start);
    tap::ok(sum.value == 35 && sum.grant && sum.grant->offset == grant->offset, "and so is a number that is counted up");
}

void mutations_flip_and_keep() {
    const node::Config config = with_leases(4);
    struct Case {
        const char* name;
        void (*change)(node::Node&, NodeSeconds);
    };
    const Case cases[] = {
        {"a set that does not fit", [](node::Node& c, NodeSeconds now) { plain_set(c, "k", std::string(500, 'o'), now); }},
        {"delete", [](node::Node& c, NodeSeconds now) { remove(c, "k", now); }},
        {"flush_all", [](node::Node& c, NodeSeconds now) { c.flush_all(now); }},
        {"a delete by prefix", [](node::Node& c, NodeSeconds now) { c.prefixes().remove("k", now); }},
        {"a value refused", [](node::Node& c, NodeSeconds now) { c.forget(c.key("k"), now); }},
    };
    for (const Case& one : cases) {
        node::Node cache(config);
        set(cache, "k", "value", at_start);
        auto grant = get(cache, "k", at_start);
        if (!grant) return violation("no lease");
        const Bytes before = read(cache, *grant);
        one.change(cache, at_start);
        tap::ok(!alive(cache, *grant), std::string(one.name) + ": the guard is dead when it returns");
        const std::string filler(4, 'x');
        bool kept = true;
        for (NodeSeconds now = at_start; now <= at_start + kept_for(config); now++)
            for (int i = 0; i < 2000; i++) {
                plain_set(cache, "filler" + std::to_string(i % 500), filler, now);
                kept = kept && read(cache, *grant).rest == before.rest;
            }
        tap::ok(kept, std::string(one.name) + ": its bytes stay while the lease and its grace run");
        tap::is(cache.stats(at_start).leases.dead_slots, 1u, std::string(one.name) + ": the slot is dead");
        for (uint64_t page = 0; page < cache.pages().count(); page++)
            cache.pages().sweep(page, at_start + kept_for(config) + 1);
        tap::is(cache.stats(at_start).leases.dead_slots, 0u, std::string(one.name) + ": and then free");
    }
}

// All small items are leased at the longest term and renewed; large values follow.
void sets_never_fail(PolicyKind policy) {
    node::Config config = with_leases(16, 256'000);
    config.workers = 4;
    config.policy = policy;
    config.lease.term_ms_min = 256'000;
    node::Node cache(config);
    int refused = 0;
    auto stored = [&](const protocol::StoreReply& reply) {
        if (reply.status != Status::stored) refused++;
    };
    const std::string small(100, 's'), large(900'000, 'l'), middle(10'000, 'm');
    const int keys = 120'000;
    uint64_t leased = 0;
    for (int i = 0; i < keys; i++) {
        const std::string key = "s" + std::to_string(i);
        stored(set(cache, key, small, at_start));
        if (get(cache, key, at_start)) leased++;
    }
    const node::Stats full = cache.stats(at_start);
    tap::ok(leased > 20'000, "tens of thousands of items are leased");
    tap::ok(full.leases.bytes < full.memory_limit_bytes * config.lease.share, "within the share");
    for (int i = 0; i < 50; i++) stored(set(cache, "l" + std::to_string(i), large, at_start + 1));
    for (int i = 0; i < 2000; i++) stored(set(cache, "m" + std::to_string(i), middle, at_start + 1));
    for (int i = 0; i < keys; i++) stored(set(cache, "t" + std::to_string(i), small, at_start + 1));
    for (int i = 0; i < 50; i++) stored(set(cache, "l" + std::to_string(i), large, at_start + 2));
    tap::is(refused, 0, std::string(name_of(policy)) + ": no set is refused");
    const node::Stats after = cache.stats(at_start + 2);
    tap::ok(after.pages_used <= after.pages_limit, "and the limit on memory holds");
}

// Random operations with a test clock, and a proxy that never forgets a pointer whose lease runs.
class History {
  public:
    explicit History(uint64_t seed, const node::Config& config) : config_(config), cache_(config), dice_(seed) {}

    void run(int steps) {
        for (int i = 0; i < steps; i++) {
            step();
            if (i % 16 == 0) check();
        }
        now_ += 600;
        for (int i = 0; i < 64; i++) plain_set(cache_, key(), "end", now_);
        for (uint64_t page = 0; page < cache_.pages().count(); page++) cache_.pages().sweep(page, now_);
        const node::LeaseStats last = cache_.stats(now_).leases;
        if (last.bytes != 0 || last.dead_bytes != 0 || last.dead_slots != 0)
            violation("something is leased or dead for ever");
        granted_ = last.granted;
    }
    uint64_t granted() const { return granted_; }

  private:
    struct Held {
        std::string key;
        protocol::Grant grant;
        NodeSeconds from;
    };
    // The value stored under a key, if it was not evicted.
    struct Stored {
        std::string value;
        NodeSeconds exptime = never_expires;
    };

    std::string key() { return "key" + std::to_string(dice_() % 300); }
    std::string value() {
        static constexpr size_t sizes[] = {0, 1, 30, 100, 100, 100, 1000, 5000, 70'000, 400'000};
        return std::string(sizes[dice_() % 10], char('a' + dice_() % 26));
    }
    void hold(const std::string& key, const std::optional<protocol::Grant>& grant) {
        if (!grant) return;
        const Bytes bytes = read(cache_, *grant);
        if (!alive(cache_, *grant)) return violation("a grant of what is not live");
        if (bytes.guard.generation() != grant->generation) violation("a grant of another generation");
        if (grant->capacity < grant->length) violation("a slot shorter than its item");
        held_.push_back({key, *grant, now_});
    }
    void delete_prefix() {
        const std::string prefix = "key" + std::to_string(1 + dice_() % 9);
        if (!cache_.prefixes().remove(prefix, now_)) violation("a delete by prefix was refused");
        std::erase_if(stored_, [&](const auto& one) { return one.first.starts_with(prefix); });
        check();  // before a lookup removes items that it meets
        for (int i = 0; i < 300; i++)
            if (const std::string k = "key" + std::to_string(i); k.starts_with(prefix) && is_there(cache_, k, now_))
                violation(k + " was deleted by its prefix and is there");
        if (dice_() % 2 == 0) return;
        const uint64_t order = cache_.prefixes().unswept();
        for (uint64_t page = 0; page < cache_.pages().count(); page++) cache_.pages().sweep(page, now_);
        cache_.prefixes().swept(order);
    }
    void step() {
        const std::string k = key();
        switch (dice_() % 40) {
            case 0: now_ += dice_() % 3; return;
            case 1: remove(cache_, k, now_); stored_.erase(k); return;
            case 3:
                if (dice_() % 10 == 1) return delete_prefix();
                if (dice_() % 40 != 0) return;
                cache_.flush_all(now_);
                stored_.clear();
                return;
            case 2: {
                const NodeSeconds exptime = dice_() % 2 ? now_ + 2 : never_expires;
                const bool expired = stored_.contains(k) && has_expired(stored_[k].exptime, now_);
                const auto grant = get(cache_, k, now_, exptime);
                if (!expired && stored_.contains(k)) stored_[k].exptime = exptime;
                return hold(k, grant);
            }
            case 4: case 5: case 6: case 7: case 8: case 9: case 10: case 11: case 12: {
                const NodeSeconds exptime = dice_() % 4 == 0 ? now_ + 1 + dice_() % 8 : never_expires;
                const std::string fresh = value();
                const protocol::StoreReply reply = set(cache_, k, fresh, now_, exptime);
                if (reply.status != Status::stored) violation("a set was refused");
                stored_[k] = {fresh, exptime};
                return hold(k, reply.grant);
            }
            default: return hold(k, get(cache_, k, now_));
        }
    }
    void check() {
        std::erase_if(held_, [&](const Held& held) {
            return now_ > held.from + (held.grant.term_ms + config_.lease.grace_ms + 999) / 1000;
        });
        std::map<std::string, uint64_t> live;
        for (const Held& held : held_) look_at(held, live);
        if (const std::string wrong = wrong_in(cache_, now_, false); !wrong.empty()) violation(wrong);
    }
    // Checks the bytes of a slot whose lease runs, as a proxy may find them.
    void look_at(const Held& held, std::map<std::string, uint64_t>& live) {
        const char* at = cache_.view().base + held.grant.offset;
        layout::ItemHeader header;
        std::memcpy(&header, at, sizeof header);
        const std::string_view key(at + sizeof header, header.key_len);
        if (key != held.key) return violation("memory of " + held.key + " was reused under a lease");
        const layout::Guard guard{header.guard};
        if (guard.state() != layout::GuardState::live) return;
        if (guard.generation() < held.grant.generation) violation("a generation of " + held.key + " came back");
        const auto [other, first] = live.try_emplace(held.key, held.grant.offset);
        if (!first && other->second != held.grant.offset) violation("two live slots of " + held.key);
        const auto now_stored = stored_.find(held.key);
        if (has_expired(header.exptime, now_)) return;  // that goes to the node
        if (now_stored == stored_.end()) return violation(held.key + " is gone, and its guard is live");
        if (header.exptime != now_stored->second.exptime) violation("another expiry time than that of " + held.key);
        if (std::string_view(key.data() + key.size(), header.value_len) != now_stored->second.value)
            violation("another value than that of " + held.key);
        const uint64_t bytes = layout::item_bytes(header.key_len, header.value_len);
        if (header.check != layout::item_check(at, bytes, cache_.check_secret(), guard.generation(), held.grant.offset))
            violation("the check of " + held.key + " does not match");
    }

    const node::Config config_;
    node::Node cache_;
    std::mt19937_64 dice_;
    NodeSeconds now_ = at_start;
    std::vector<Held> held_;
    std::map<std::string, Stored> stored_;
    uint64_t granted_ = 0;
};

uint64_t histories(PolicyKind policy, uint64_t from, uint64_t to, int steps) {
    uint64_t granted = 0;
    for (uint64_t seed = from; seed <= to; seed++) {
        node::Config config = with_leases(seed % 2 ? 4 : 8, seed % 3 ? 4000 : 30'000);
        config.policy = policy;
        config.evict = seed != 6;
        if (!config.evict) config.memory_bytes = UINT64_C(256) << 20;
        History history(seed, config);
        history.run(steps);
        granted += history.granted();
    }
    return granted;
}

// The histories of a broken build: fewer, in one run.
void all_as_one() {
    histories(PolicyKind::clock, 1, 1, 4000);
    node::Config config = with_leases(8, 256'000);
    node::Node cache(config);
    for (int i = 0; i < 40'000; i++) {
        const std::string key = std::to_string(i);
        set(cache, key, std::string(100, 's'), at_start);
        get(cache, key, at_start);
    }
    for (int i = 0; i < 3; i++)
        if (set(cache, "l" + std::to_string(i), std::string(900'000, 'l'), at_start).status != Status::stored)
            violation("a set was refused because of leases");
}

}  // namespace

int main() {
    if (broken::must_catch()) {
        all_as_one();
        tap::ok(violations > 0, "the broken rule is caught");
        return tap::done();
    }
    grants();
    terms_change();
    refusals();
    dead_share();
    sparse_slots();
    hidden_items_are_not_moved("flush_all", [](node::Node& c, NodeSeconds now) { c.flush_all(now); });
    hidden_items_are_not_moved("a delete by prefix", [](node::Node& c, NodeSeconds now) { c.prefixes().remove("k", now); });
    rewritten_in_place();
    mutations_flip_and_keep();
    for (const PolicyKind policy : {PolicyKind::clock, PolicyKind::pdla, PolicyKind::s3fifo}) sets_never_fail(policy);
    const uint64_t granted = histories(PolicyKind::clock, 1, 6, 20'000);
    tap::ok(granted > 1000, "histories with thousands of leases");
    for (size_t i = 1; i < policy_names.size(); i++) {
        const PolicyKind policy = PolicyKind(i);
        const uint64_t some = histories(policy, i, i, 18'000);
        tap::ok(may_lease(policy) ? some > 100 : some == 0, "leases, or none, under " + std::string(name_of(policy)));
    }
    tap::is(violations, 0, "and no violation of a safety rule");
    all_as_one();
    tap::is(violations, 0, "nor where a broken build shows one");
    return tap::done();
}
