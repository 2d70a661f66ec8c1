// SPDX-License-Identifier: BSD-3-Clause
// The safety rules of lock-free reads (S1, S4, S5, S7, S10, S11, S13), each shown on the node. Readers stop at every
// step while their item is overwritten, deleted, expired, flushed, or evicted and its page re-cut; then they go on.
// Built again with each rule broken on purpose (t/faulty/*), the test must find a violation, and reports it by its one
// check.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/broken.h"
#include "fabric/local_read.h"
#include "node/store/impl.h"
#include "t/lib/tap.h"

using namespace farcached;

namespace {

constexpr NodeSeconds at_start = 100;
int violations = 0;

void violation(const std::string& what) {
    if (violations++ < 5) std::printf("# violation: %s\n", what.c_str());
}

// One partition, so that the slot an item leaves is the next one taken.
node::Config small() {
    node::Config config;
    config.memory_bytes = 2 << 20;
    config.item_bytes_max = 1 << 20;
    config.partitions = 1;
    return config;
}

std::string pattern(char c, size_t size = 96) { return std::string(size, c); }

void set(node::Node& cache, std::string_view key, std::string_view value, NodeSeconds now = at_start,
         NodeSeconds exptime = never_expires) {
    protocol::StoreOp op;
    op.key = cache.key(key);
    op.value = value;
    op.exptime = exptime;
    protocol::StoreReply reply = cache.store(op, now);
    if (reply.status != protocol::StoreReply::Status::stored) violation("a set was refused");
}

struct Read {
    fabric::Outcome outcome;
    std::string value;
};

template <class Steps>
Read read(node::Node& cache, std::string_view key, NodeSeconds now, Steps&& steps) {
    Read result{fabric::Outcome::not_found, {}};
    fabric::Found found;
    auto sink = [&](const fabric::ReadMeta& meta) -> char* {
        if (meta.value_len > 1 << 20) {
            violation("an impossible length was accepted");
            return nullptr;
        }
        result.value.resize(meta.value_len);
        return result.value.data();
    };
    protocol::Key k = cache.key(key);
    result.outcome =
        fabric::local_read(cache.view(), key, k.hash, now, false, sink, found, steps);
    return result;
}

Read read(node::Node& cache, std::string_view key, NodeSeconds now = at_start) {
    return read(cache, key, now, fabric::no_steps);
}

struct Change {
    std::string name;
    std::function<void(node::Node&)> make;
    std::string after;  // what a GET begun afterwards may return; empty: only a miss
};

// Sets enough items of other sizes to evict and re-cut every page.
void recut(node::Node& cache) {
    for (int i = 0; i < 200; i++)
        set(cache, "big" + std::to_string(i), pattern('z', 20'000), at_start + 50);
}

void sweep_prefixes(node::Node& cache) {
    const uint64_t order = cache.prefixes().unswept();
    for (uint64_t page = 0; page < cache.pages().count(); page++) cache.pages().sweep(page, at_start);
    cache.prefixes().swept(order);
}

std::vector<Change> changes() {
    const std::string b = pattern('B'), longer = pattern('L', 200);
    auto refill = [](node::Node& cache) {  // takes the slot just freed
        for (int i = 0; i < 4; i++) set(cache, "next" + std::to_string(i), pattern('N'));
    };
    auto drop = [](node::Node& cache) {
        protocol::DeleteOp op;
        op.key = cache.key("key");
        cache.remove(op, at_start);
    };
    return {
        {"overwritten", [=](node::Node& c) { set(c, "key", b); }, b},
        {"overwritten, slot reused", [=](node::Node& c) { set(c, "key", b); refill(c); }, b},
        {"overwritten by a longer value", [=](node::Node& c) { set(c, "key", longer); refill(c); }, longer},
        {"deleted", [=](node::Node& c) { drop(c); }, ""},
        {"deleted, slot reused", [=](node::Node& c) { drop(c); refill(c); }, ""},
        {"deleted and stored again", [=](node::Node& c) { drop(c); set(c, "key", b); }, b},
        {"flushed", [=](node::Node& c) { c.flush_all(at_start); }, ""},
        {"flushed, slot reused",
         [=](node::Node& c) {
             c.flush_all(at_start);
             for (uint64_t p = 0; p < c.pages().count(); p++) c.pages().sweep(p, at_start);
             refill(c);
         }, ""},
        {"deleted by prefix", [=](node::Node& c) { c.prefixes().remove("ke", at_start); }, ""},
        {"deleted by prefix, swept",
         [=](node::Node& c) {
             c.prefixes().remove("ke", at_start);
             sweep_prefixes(c);
         }, ""},
        {"deleted by prefix, swept, slot reused",
         [=](node::Node& c) {
             c.prefixes().remove("ke", at_start);
             sweep_prefixes(c);
             refill(c);
         }, ""},
        {"deleted by prefix and stored again",
         [=](node::Node& c) {
             c.prefixes().remove("ke", at_start);
             set(c, "key", b);
             sweep_prefixes(c);
         }, b},
        {"touched to expire",
         [=](node::Node& c) {
             protocol::GetOp op;
             op.key = c.key("key");
             op.touch = long_expired;
             c.get(op, at_start, [](const protocol::ItemMeta&) -> char* { return nullptr; });
             refill(c);
         }, ""},
        {"evicted and its page re-cut", [=](node::Node& c) { recut(c); }, ""},
        {"evicted, re-cut, stored again", [=](node::Node& c) { recut(c); set(c, "key", b); }, b},
    };
}

// True when the reader had a step number `stop`.
bool stop_reader(const Change& change, int stop) {
    node::Node cache(small());
    set(cache, "before", pattern('b'));
    set(cache, "key", pattern('A'));
    int step = 0;
    bool stopped = false;
    Read seen = read(cache, "key", at_start, [&](fabric::Step) {
        if (step++ != stop) return;
        stopped = true;
        change.make(cache);
    });
    const std::string where = change.name + " at step " + std::to_string(stop);
    if (seen.outcome == fabric::Outcome::hit)
        if (seen.value != pattern('A') && seen.value != change.after)
            violation("a torn or foreign value: " + where);
    if (!stopped) return false;
    Read later = read(cache, "key");
    if (later.outcome == fabric::Outcome::hit)
        if (change.after.empty() || later.value != change.after)
            violation("an old value after the change was acknowledged: " + where);
    return true;
}

void readers_stopped_everywhere() {
    constexpr int steps_max = 200;
    for (const Change& change : changes()) {
        int stop = 0;
        while (stop < steps_max && stop_reader(change, stop)) stop++;
        if (stop == 0) violation("the reader has no steps");
    }
}

// S4: two keys with the same tag in the same bucket.
void colliding_keys() {
    node::Node cache(small());
    std::map<uint32_t, std::string> by_tag;
    for (int i = 0; i < 2'000'000; i++) {
        std::string key = "k" + std::to_string(i);
        auto [twin, fresh] = by_tag.try_emplace(layout::tag_of(cache.key(key).hash), key);
        if (fresh) continue;
        set(cache, key, pattern('A'));
        if (read(cache, twin->second).outcome == fabric::Outcome::hit)
            violation("the value of another key");
        return;
    }
    violation("no two keys with one tag were found");
}

// S7: a replacement stopped between its two stores. No reader may see the new value while a holder of the old place
// could still read the old one.
struct Halfway {
    node::Node* cache;
    const uint64_t* old_guard;
};

// The number of slots in the arena that hold the key, in the index or not. A reader by pointer, or with old words of
// the index, may reach any of them.
int live_items(node::Node& cache, std::string_view key) {
    const fabric::RegionView& view = cache.view();
    int live = 0;
    for (uint64_t offset = 0; offset < view.arena_bytes; offset += layout::stride_bytes) {
        const layout::PageEntry& page = view.pages[offset / layout::page_bytes];
        if (page.size_class == 0 || page.size_class >= layout::large_class) continue;
        const uint32_t slot_bytes = view.header->class_bytes[page.size_class];
        if (offset % layout::page_bytes % slot_bytes != 0) continue;
        const uint64_t* item = view.arena + offset / 8;
        const layout::Guard guard{words::load_acquire(item)};
        if (guard.state() != layout::GuardState::live) continue;
        live += words::equal(item, sizeof(layout::ItemHeader), key.data(), key.size());
    }
    return live;
}

void replacement_stopped_halfway() {
    node::Node cache(small());
    set(cache, "key", pattern('A'));
    protocol::Key key = cache.key("key");
    node::Partition& partition = cache.impl().partitions.of(key.hash);
    node::Ref old = partition.items().find(key, at_start).place.ref;
    Halfway halfway{&cache, cache.impl().arena.words(old)};
    partition.test_hook().argument = &halfway;
    partition.test_hook().call = [](void* argument) {
        auto& at = *static_cast<Halfway*>(argument);
        Read seen = read(*at.cache, "key");
        bool new_seen = seen.outcome == fabric::Outcome::hit && seen.value == pattern('B', 200);
        layout::Guard guard{words::load_acquire(at.old_guard)};
        if (new_seen && guard.state() == layout::GuardState::live)
            violation("the new value was seen while the old one was alive");
        if (live_items(*at.cache, "key") > 1) violation("two generations of a key live at once");
    };
    set(cache, "key", pattern('B', 200));  // of another class, so that it goes out of place
    if (live_items(cache, "key") != 1) violation("one generation of a key lives");
}

// S10: lengths in the region that cannot be.
void lengths_that_lie() {
    node::Node cache(small());
    set(cache, "key", pattern('A'));
    protocol::Key key = cache.key("key");
    node::Ref ref = cache.impl().partitions.of(key.hash).items().find(key, at_start).place.ref;
    layout::ItemHeader& header = cache.impl().arena.header(ref);
    const uint32_t length = header.value_len;
    for (uint32_t lie : {UINT32_MAX, UINT32_C(1) << 24, UINT32_C(1) << 21}) {
        header.value_len = lie;
        if (read(cache, "key").outcome == fabric::Outcome::hit) violation("a lying length was a hit");
    }
    header.value_len = length;
}

// S13: the header's expiry time is kept without the lock.
void expiry() {
    node::Node cache(small());
    set(cache, "key", pattern('A'), at_start, at_start + 10);
    if (read(cache, "key", at_start + 9).outcome != fabric::Outcome::hit) violation("expired early");
    if (read(cache, "key", at_start + 10).outcome == fabric::Outcome::hit) violation("an expired item");
}

}  // namespace

int main() {
    readers_stopped_everywhere();
    colliding_keys();
    replacement_stopped_halfway();
    lengths_that_lie();
    expiry();
    if (broken::must_catch()) {
        tap::ok(violations > 0, "the rule that was broken on purpose is caught");
        return tap::done();
    }
    tap::is(violations, 0, "no violation of a safety rule");
    return tap::done();
}
