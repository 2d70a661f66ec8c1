// SPDX-License-Identifier: BSD-3-Clause
// A slot belongs to its key (S1): mutations in place, and dead slots that stay with their key. The effects on leases
// (S2, S3), flushes (S11) and expiry (S13). Each rule is shown on the node, and on its memory as a reader sees it while
// a mutation is stopped half-way. Built again with a rule broken on purpose (t/faulty/broken_rules.py), the test must
// find a violation, and reports it by its one check.
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/broken.h"
#include "fabric/local_read.h"
#include "node/store/impl.h"
#include "protocol/layout_hash.h"
#include "t/lib/tap.h"
#include "t/unit/node/invariants.h"

using namespace farcached;

namespace {

constexpr NodeSeconds at_start = 1000;
int violations = 0;

void expect(bool holds, const std::string& what) {
    if (!holds && violations++ < 8) std::printf("# violation: %s\n", what.c_str());
}

using Mode = protocol::StoreOp::Mode;
using Status = protocol::StoreReply::Status;
using Granted = std::optional<protocol::Grant>;

node::Config config_of(bool leases = true) {
    node::Config config;
    config.memory_bytes = 4 << 20;
    config.partitions = 1;
    config.lease.enabled = leases;
    return config;
}

class Cache {
  public:
    explicit Cache(const node::Config& config = config_of()) : node(config) {}

    protocol::StoreReply store(const std::string& key, const std::string& value, Mode mode = Mode::set,
                               NodeSeconds exptime = never_expires) {
        protocol::StoreOp op;
        op.key = node.key(key);
        op.value = value;
        op.mode = mode;
        op.exptime = exptime;
        op.lease = true;
        const protocol::StoreReply reply = node.store(op, now);
        if (reply.status == Status::stored && mode == Mode::set) stored[key] = value;
        return reply;
    }
    Granted set(const std::string& key, const std::string& value) { return store(key, value).grant; }
    Granted get(const std::string& key, std::optional<NodeSeconds> touch = std::nullopt) {
        protocol::GetOp op;
        op.key = node.key(key);
        op.lease = true;
        op.touch = touch;
        got.reset();
        auto sink = [&](const protocol::ItemMeta& meta) {
            got.emplace(meta.value_len, '\0');
            return got->data();
        };
        return node.get(op, now, sink).grant;
    }
    // Stored and read, so that it is leased.
    protocol::Grant leased(const std::string& key, const std::string& with) {
        set(key, with);
        const Granted grant = get(key);
        expect(grant.has_value(), key + " is leased");
        return grant.value_or(protocol::Grant());
    }
    void remove(const std::string& key, bool invalidate = false) {
        protocol::DeleteOp op;
        op.key = node.key(key);
        op.invalidate = invalidate;
        node.remove(op, now);
        if (!invalidate) stored.erase(key);
    }
    uint64_t kept_s() const { return node::lease_kept_s(node.config().lease.term_ms, node.config().lease.grace_ms); }
    // Other keys, which take what is free in the lease zone, too.
    void fill(int count, size_t bytes = 100) {
        for (int i = 0; i < count; i++) {
            const std::string key = "f" + std::to_string(filled++);
            set(key, std::string(bytes, 'x'));
            get(key);
        }
    }
    node::Partition& partition() { return node.impl().partitions[0]; }

    node::Node node;
    NodeSeconds now = at_start;
    std::optional<std::string> got;  // the value of the last get
    std::map<std::string, std::string> stored;
    int filled = 0;
};

struct Slot {
    layout::ItemHeader header;
    std::string key, value;

    layout::Guard guard() const { return {header.guard}; }
    bool live() const { return guard().state() == layout::GuardState::live; }
};

Slot slot_at(Cache& cache, uint64_t offset) {
    const char* at = cache.node.view().base + offset;
    Slot slot;
    std::memcpy(&slot.header, at, sizeof slot.header);
    slot.key.assign(at + sizeof slot.header, slot.header.key_len);
    slot.value.assign(at + sizeof slot.header + slot.header.key_len, slot.header.value_len);
    return slot;
}

bool check_matches(Cache& cache, uint64_t offset) {
    const Slot slot = slot_at(cache, offset);
    const uint64_t bytes = layout::item_bytes(slot.header.key_len, slot.header.value_len);
    return slot.header.check == layout::item_check(cache.node.view().base + offset, bytes, cache.node.check_secret(),
                                                   slot.guard().generation(), offset);
}

// Live in the same place as a newer generation with that value.
void expect_in_place(Cache& cache, const protocol::Grant& before, const Granted& after, const std::string& value,
                     const std::string& what) {
    const Slot slot = slot_at(cache, before.offset);
    expect(slot.live() && slot.value == value, what + ": the item is where it was");
    expect(slot.guard().generation() > before.generation, what + ": as a newer generation");
    expect(check_matches(cache, before.offset), what + ": with its check");
    if (after)
        expect(after->offset == before.offset && after->generation == slot.guard().generation(), what + ": and the reply has it");
    const std::string wrong = wrong_in(cache.node, cache.now);
    expect(wrong.empty(), what + ": " + wrong);
}

// ---- in place ---------------------------------------------------------------------------------------

void mutations_in_place() {
    Cache cache;
    const std::string old = "12345";
    const auto once = [&](const std::string& what, const std::string& after, const std::function<Granted()>& mutate) {
        cache.now += 20;
        const protocol::Grant before = cache.leased("key", old);
        expect_in_place(cache, before, mutate(), after, what);
        cache.get("key");
        expect(cache.got == after, what + ": the value that a get returns");
        cache.now += 20;
        cache.remove("key");
    };
    once("set", "B", [&] { return cache.set("key", "B"); });
    once("replace", "C", [&] { return cache.store("key", "C", Mode::replace).grant; });
    once("append", "12345tail", [&] { return cache.store("key", "tail", Mode::append).grant; });
    once("prepend", "head12345", [&] { return cache.store("key", "head", Mode::prepend).grant; });
    once("prepend by less than it moves", "ab12345", [&] { return cache.store("key", "ab", Mode::prepend).grant; });
    once("cas", "D", [&] {
        protocol::StoreOp op;
        op.key = cache.node.key("key");
        op.mode = Mode::cas;
        op.value = "D";
        op.cas_compare = slot_at(cache, cache.get("key")->offset).header.cas;
        op.lease = true;
        return cache.node.store(op, cache.now).grant;
    });
    once("incr", "12346", [&] {
        protocol::ArithOp op;
        op.key = cache.node.key("key");
        op.lease = true;
        return cache.node.arith(op, cache.now).grant;
    });
    once("decr to fewer digits", "12336", [&] {
        protocol::ArithOp op;
        op.key = cache.node.key("key");
        op.decrement = true;
        op.delta = 9;
        op.lease = true;
        return cache.node.arith(op, cache.now).grant;
    });
    once("touch", old, [&] { return cache.get("key", cache.now + 500); });
    once("a stale mark", old, [&] {
        cache.remove("key", /* invalidate= */ true);
        return Granted();
    });
    once("a value that fits the slot of another class", "v", [&] {
        cache.remove("key");
        cache.now += 20;
        cache.leased("key", std::string(800, 'l'));
        cache.set("key", "w");
        const protocol::Grant at = *cache.get("key");
        expect(at.capacity > 800, "under a lease an item keeps a slot that is larger than it needs");
        expect_in_place(cache, at, cache.set("key", "v"), "v", "less in a large slot");
        cache.now += 20;
        cache.remove("key");
        cache.leased("key", old);
        return cache.set("key", "v");
    });
    std::string digits;
    for (int i = 0; digits.size() < 90; i++) digits += std::to_string(i);
    const protocol::Grant before = cache.leased("key", digits);
    expect_in_place(cache, before, cache.store("key", "0123456789", Mode::prepend).grant, "0123456789" + digits,
                    "prepend to many bytes");
    const node::LeaseStats leases = cache.node.stats(cache.now).leases;
    expect(leases.in_place >= 10, "mutations in place are counted");
}

void without_leases() {
    Cache cache(config_of(/* leases= */ false));
    cache.set("key", "old value");
    const auto ref_of = [&] { return cache.partition().items().locate(cache.node.key("key")).ref; };
    const node::Ref before = ref_of();
    const node::Stats stats = cache.node.stats(cache.now);
    cache.set("key", "new value");
    expect(ref_of() == before, "an item of the slot's class is written in place without a lease, too");
    expect(cache.node.stats(cache.now).items_total == stats.items_total + 1, "and is one more that was stored");
    cache.set("key", std::string(1000, 'l'));
    expect(ref_of() != before, "one of another class is not");
    const std::string run(200'000, 'r');
    cache.set("key", run);
    const node::Ref run_ref = ref_of();
    cache.get("key", cache.now + 500);
    cache.get("key", cache.now + 50);
    cache.get("key");
    expect(ref_of() == run_ref && cache.got == run, "the header of a run of pages is written in place");
    cache.set("key", run);
    expect(ref_of() != run_ref, "and its value is not");
    expect(wrong_in(cache.node, cache.now).empty(), "and nothing is counted wrong: " + wrong_in(cache.node, cache.now));
}

// Live slots match their checks at any moment, and a key has at most one.
struct Stopped {
    Cache* cache;
    uint64_t offsets[2];
};

void look(void* argument) {
    const Stopped& at = *static_cast<Stopped*>(argument);
    int live = 0;
    for (const uint64_t offset : at.offsets) {
        if (offset == 0 || !slot_at(*at.cache, offset).live()) continue;
        live++;
        expect(check_matches(*at.cache, offset), "bytes change while the guard is live");
    }
    expect(live <= 1, "two live slots of one key");
}

void stopped_half_way() {
    for (const size_t size : {size_t(5), size_t(20), size_t(700)}) {
        Cache cache;
        const protocol::Grant first = cache.leased("key", "12345");
        Stopped stopped{&cache, {first.offset, 0}};
        cache.partition().test_hook() = {look, &stopped};
        const Granted second = cache.set("key", std::string(size, 's'));  // in place, or outgrown
        if (second && second->offset != first.offset) stopped.offsets[1] = second->offset;
        cache.get("key");
        cache.now++;
        cache.store("key", "t", Mode::prepend);
        cache.set("key", "u");
        cache.partition().test_hook() = {};
    }
}

// ---- dead slots -------------------------------------------------------------------------------------

void revived() {
    const std::pair<const char*, void (*)(Cache&)> deaths[] = {
        {"deleted", [](Cache& c) { c.remove("key"); }},
        {"flushed", [](Cache& c) { c.node.flush_all(c.now); }},
        {"deleted by prefix", [](Cache& c) { c.node.prefixes().remove("ke", c.now); }},
        {"refused", [](Cache& c) { c.node.forget(c.node.key("key"), c.now); }},
        {"expired", [](Cache& c) {
             c.get("key", c.now + 1);
             c.now += 2;
             c.get("key");
         }},
    };
    for (const auto& [name, die] : deaths) {
        Cache cache;
        const protocol::Grant before = cache.leased("key", "value");
        die(cache);
        expect(!slot_at(cache, before.offset).live(), std::string(name) + ": the guard is dead");
        cache.fill(2000, 5);
        expect(slot_at(cache, before.offset).key == "key", std::string(name) + ": no other key gets the slot");
        const Granted after = cache.set("key", "again");
        expect_in_place(cache, before, after, "again", std::string(name) + " and stored again");
        expect(after && after->term_ms <= before.term_ms, std::string(name) + ": the lease is no longer than it was");
        expect(cache.node.stats(cache.now).leases.revived == 1, std::string(name) + ": which is counted");
        cache.now += NodeSeconds(cache.kept_s()) + 1;
        cache.remove("key");
        cache.fill(2000, 5);
        cache.set("key", "new");
        expect(cache.node.stats(cache.now).leases.revived == 1, std::string(name) + ": not after the lease has ended");
    }
}

// A key that outgrew its slot comes back to it.
void outgrown_and_back() {
    Cache cache;
    const protocol::Grant small = cache.leased("key", "small");
    const Granted large = cache.set("key", std::string(700, 'l'));
    expect(!slot_at(cache, small.offset).live(), "a slot that was outgrown is dead");
    const uint64_t large_at = large ? large->offset : 0;
    cache.fill(500, 5);
    // A value without a lease goes where its size belongs: to the key's earlier slot.
    const Granted back = cache.set("key", "back");
    if (large) {
        expect(back && back->offset == large_at, "a slot under a lease is kept");
    } else {
        expect_in_place(cache, small, back, "back", "outgrown and back");
    }
    cache.remove("key");
    const Granted again = cache.set("key", "again");
    expect(again.has_value(), "and after a delete the key has a slot under its lease");
    expect_in_place(cache, small, again, "again", "the smallest dead slot that fits");
    Stopped stopped{&cache, {small.offset, large_at}};
    cache.partition().test_hook() = {look, &stopped};
    cache.set("key", std::string(700, 'm'));
    cache.set("key", "n");
    cache.partition().test_hook() = {};
}

// Large items: two runs in turns while a lease runs.
void runs_in_turns() {
    Cache cache;
    const std::string value(200'000, 'r');
    const protocol::Grant first = cache.leased("key", value);
    cache.set("key", value + "1");
    expect(!slot_at(cache, first.offset).live(), "a large item goes out of place");
    const Granted second = cache.get("key");
    expect(second && second->offset != first.offset, "and is leased where it is");
    Stopped stopped{&cache, {first.offset, second ? second->offset : 0}};
    cache.partition().test_hook() = {look, &stopped};
    expect_in_place(cache, first, cache.set("key", value + "2"), value + "2", "then back to the dead run");
    cache.partition().test_hook() = {};
}

// In a run of pages that a reader may look at, only the header may change.
void large_numbers_and_headers() {
    node::Config config = config_of();
    config.memory_bytes = 64 << 20;
    config.item_bytes_max = 8 << 20;
    Cache cache(config);
    const std::string number = "41" + std::string(70'000, ' ');
    const protocol::Grant before = cache.leased("number", number);
    protocol::ArithOp op;
    op.key = cache.node.key("number");
    op.delta = 1;
    op.lease = true;
    expect(cache.node.arith(op, cache.now).value == 42u, "a number in a large item is counted");
    expect(!slot_at(cache, before.offset).live(), "elsewhere");
    cache.get("number");
    expect(cache.got == "42" + std::string(70'000, ' '), "and has its length");
    const std::string huge(5 << 20, 'h');
    cache.set("huge", huge);
    expect(!cache.get("huge") && !cache.get("huge"), "an item above 4 MiB is not leased");
    cache.get("huge", cache.now + 100);
    cache.get("huge");
    expect(cache.got == huge, "touched, it is what it was");
}

// A key that is vivified takes its dead slot back, and the reply shows it.
void vivified() {
    Cache cache;
    const protocol::Grant before = cache.leased("key", "value");
    cache.remove("key");
    protocol::GetOp op;
    op.key = cache.node.key("key");
    op.lease = true;
    op.vivify = cache.now + 100;
    const protocol::GetReply reply = cache.node.get(op, cache.now, [](const protocol::ItemMeta&) { return nullptr; });
    expect(reply.vivified && reply.grant && reply.grant->offset == before.offset, "a vivified item is where the key was");
}

// Threads read the clock one after the other and take the lock in another order: a lease that was over stays so.
void clocks_of_two_threads() {
    Cache cache;
    cache.leased("grows", std::string(50, 'g'));
    cache.leased("dies", "value");
    const NodeSeconds end = at_start + NodeSeconds(cache.kept_s());
    cache.now = end + 1;
    cache.set("grows", std::string(60, 'g'));
    cache.now = end;
    cache.set("grows", std::string(55, 'g'));
    cache.remove("dies");
    expect(cache.node.stats(end).leases.dead_slots == 0, "what dies after its lease leaves no dead slot");
    const std::string wrong = wrong_in(cache.node, end + 1);
    expect(wrong.empty(), "two clocks: " + wrong);
}

void flush_revive_flush() {
    Cache cache;
    const protocol::Grant before = cache.leased("key", "value");
    cache.node.flush_all(cache.now);
    protocol::StoreOp op;  // by a client that cannot read one-sided: no grant
    op.key = cache.node.key("key");
    op.value = "again";
    cache.node.store(op, cache.now);
    expect(slot_at(cache, before.offset).live(), "a set without a grant revives the slot");
    cache.node.flush_all(cache.now);
    expect(!slot_at(cache, before.offset).live(), "and the next flush finds it");
    cache.set("key", "third");
    cache.node.prefixes().remove("k", cache.now);
    expect(!slot_at(cache, before.offset).live(), "so does a delete by prefix");
}

void dies_again_after_its_first_end() {
    Cache cache;
    const protocol::Grant before = cache.leased("key", "value");
    const NodeSeconds first_end = cache.now + NodeSeconds(cache.kept_s());
    cache.remove("key");
    cache.now += 2;
    cache.set("key", "again");
    cache.get("key");  // renews
    cache.now++;
    cache.remove("key");
    cache.now = first_end + 1;
    cache.fill(3000, 5);
    expect(slot_at(cache, before.offset).key == "key", "a slot that died again is kept until its last lease ends");
    cache.now += 3;
    cache.fill(3000, 5);
    expect(cache.node.stats(cache.now).leases.dead_slots == 0, "and then free");
}

void lease_end_stays() {
    Cache cache;
    const protocol::Grant before = cache.leased("key", "value");
    cache.set("key", "other");
    cache.remove("key");
    cache.fill(3000, 5);
    expect(slot_at(cache, before.offset).key == "key", "a slot written in place keeps its lease end");
}

void no_other_key() {
    Cache cache;
    std::vector<protocol::Grant> held;
    std::vector<std::string> keys;
    for (int i = 0; i < 300; i++) {
        keys.push_back("key" + std::to_string(i));
        held.push_back(cache.leased(keys.back(), "value"));
    }
    for (const std::string& key : keys) cache.remove(key);
    cache.fill(3000, 5);
    for (size_t i = 0; i < keys.size(); i++)
        expect(slot_at(cache, held[i].offset).key == keys[i], "a slot under a lease holds no other key");
    for (const std::string& key : keys) cache.set(key, "again");
    for (size_t i = 0; i < keys.size(); i++)
        expect(slot_at(cache, held[i].offset).key == keys[i], "nor after all are stored again");
}

// Between hiding and the flip of guards a set makes a newer item in the slot, which stays.
void prefix_delete_against_set() {
    Cache cache;
    const protocol::Grant old = cache.leased("key1", "value"), set = cache.leased("key2", "value");
    node::PartialFlush flush{"key", nullptr};
    expect(cache.node.prefixes().begin(flush), "a delete by prefix begins");
    const Granted after = cache.set("key2", "newer");
    while (!cache.node.prefixes().go_on(flush, 1, cache.now)) {
    }
    expect(!slot_at(cache, old.offset).live(), "an older item is dead for readers");
    expect(slot_at(cache, set.offset).live() && slot_at(cache, set.offset).value == "newer", "a newer one lives");
    cache.get("key2");
    expect(after && cache.got == "newer", "and is found");
}

// ---- expiry, and memory ----------------------------------------------------------------------------

// The header holds the expiry of an item under a lease, however often it changes.
void touched_past_the_first_end() {
    Cache cache;
    cache.store("key", "value", Mode::set, cache.now + 10);
    const Granted grant = cache.get("key");
    expect(grant.has_value(), "a lease on what expires");
    for (int i = 0; i < 10; i++) {
        cache.now += 5;
        const Granted touched = cache.get("key", cache.now + 10);
        expect(touched.has_value(), "a pointer from gat");
        if (!touched) return;
        expect(slot_at(cache, touched->offset).header.exptime == cache.now + 10, "whose header has the new expiry time");
    }
    // Without a lease a touch leaves the header, which the next grant sets right.
    Cache other;
    other.store("key", "value", Mode::set, other.now + 10);
    other.get("key", other.now + 100);
    const Granted late = other.get("key");
    expect(late && slot_at(other, late->offset).header.exptime == other.now + 100, "a grant holds the true expiry time");
    Cache mapped(config_of(/* leases= */ false));
    mapped.store("key", "value", Mode::set, mapped.now + 10);
    mapped.get("key", mapped.now + 100);
    mapped.now += 20;
    mapped.get("key");
    const node::Ref ref = mapped.partition().items().locate(mapped.node.key("key")).ref;
    expect(mapped.node.impl().arena.header(ref).exptime == at_start + 100, "so does the get of an expiry time that has passed");
}

// Items grow, shrink, die and come back under leases while the limit on memory changes.
void flood() {
    node::Config config = config_of();
    config.memory_bytes = 8 << 20;
    config.lease.term_ms = 60'000;
    Cache cache(config);
    uint64_t refused = 0;
    for (int i = 0; i < 30'000; i++) {
        if (i % 10'000 == 9999) cache.node.set_memory_limit(uint64_t(i % 20'000 == 9999 ? 7 : 9) << 20, cache.now);
        if (i % 100 == 0) cache.now++;
        const std::string key = "key" + std::to_string(i * 7919 % 3000);
        if (i % 11 == 0) {
            cache.remove(key);
            continue;
        }
        const size_t size = size_t(i) * 2654435761U % (i % 50 == 0 ? 100'000 : 2000);
        if (cache.store(key, std::string(size, 'f')).status != Status::stored) refused++;
        if (i % 3 != 0) cache.get(key);
        if (i % 500 == 0) {
            const std::string wrong = wrong_in(cache.node, cache.now, /* zone_is_fixed= */ false);
            expect(wrong.empty(), "flood: " + wrong);
        }
    }
    expect(refused == 0, "no set is refused");
    const node::Stats stats = cache.node.stats(cache.now);
    expect(stats.pages_used <= stats.pages_limit, "and the limit on memory holds");
    expect(stats.leases.in_place > 1000 && stats.leases.revived > 100, "by items in place and revived slots");
}

}  // namespace

int main() {
    mutations_in_place();
    without_leases();
    stopped_half_way();
    revived();
    outgrown_and_back();
    runs_in_turns();
    large_numbers_and_headers();
    vivified();
    clocks_of_two_threads();
    flush_revive_flush();
    dies_again_after_its_first_end();
    lease_end_stays();
    no_other_key();
    prefix_delete_against_set();
    touched_past_the_first_end();
    if (broken::must_catch()) {
        tap::ok(violations > 0, "the rule that was broken on purpose is caught");
        return tap::done();
    }
    flood();
    tap::is(violations, 0, "no violation of a safety rule");
    return tap::done();
}
