// SPDX-License-Identifier: BSD-3-Clause
// Reads that bypass the node and appear only in the counters of its items. Read items are not evicted first under any
// policy; no counter's value stops a store; a reused slot's count starts again. Built again with S6 broken on purpose
// (t/faulty/node_reads), the test must find a violation, and reports it by its one check.
#include <cstdio>
#include <string>
#include <string_view>

#include "base/broken.h"
#include "node/store/impl.h"
#include "node/store/node.h"
#include "t/lib/tap.h"

using namespace farcached;

namespace {

constexpr NodeSeconds now = 100;
int violations = 0;

void violation(const std::string& what) {
    if (violations++ < 5) std::printf("# violation: %s\n", what.c_str());
}

struct Cache {
    explicit Cache(PolicyKind policy, bool counts = true) : cache(config(policy, counts)) {}

    static node::Config config(PolicyKind policy, bool counts) {
        node::Config config;
        config.memory_bytes = UINT64_C(4) << 20;
        config.item_bytes_max = 256 << 10;
        config.partitions = 1;
        config.policy = policy;
        config.count_reads = counts;
        return config;
    }
    bool set(const std::string& key, size_t value_bytes = 1000) {
        const std::string value(value_bytes, 'v');
        protocol::StoreOp op;
        op.key = cache.key(key);
        op.value = value;
        return cache.store(op, now).status == protocol::StoreReply::Status::stored;
    }
    void remove(const std::string& key) {
        protocol::DeleteOp op;
        op.key = cache.key(key);
        (void)cache.remove(op, now);
    }
    // Looks up a key without counting an access.
    protocol::GetReply peek(const std::string& key) {
        protocol::GetOp op;
        op.key = cache.key(key);
        op.peek = true;
        return cache.get(op, now, [](const protocol::ItemMeta&) -> char* { return nullptr; });
    }
    // The same, but the node does not read the counter.
    bool stored(const std::string& key) {
        return cache.impl().partitions[0].items().locate(cache.key(key)).slot != nullptr;
    }
    std::string value_of(const std::string& key) {
        protocol::GetOp op;
        op.key = cache.key(key);
        std::string value;
        (void)cache.get(op, now, [&](const protocol::ItemMeta& meta) {
            value.resize(meta.value_len);
            return value.data();
        });
        return value;
    }
    bool has(const std::string& key) { return peek(key).status == protocol::GetReply::Status::hit; }
    uint64_t& counter_at(uint64_t arena_offset) {
        return cache.impl().arena.read_counters()->words()[layout::counter_of(arena_offset)];
    }
    uint64_t offset_of(const std::string& key) {
        node::Node::Impl& impl = cache.impl();
        return impl.arena.offset(impl.partitions[0].items().locate(cache.key(key)).ref);
    }
    // As a proxy's device does.
    void read(const std::string& key, uint64_t times = 1) { counter_at(offset_of(key)) += times; }
    uint64_t evicted() {
        uint64_t sum = 0;
        for (const node::ClassStats& one : cache.stats(now).classes) sum += one.evicted;
        return sum;
    }

    node::Node cache;
};

std::string hot(int i) { return "hot:" + std::to_string(i); }
std::string cold(int i) { return "cold:" + std::to_string(i); }

constexpr int hot_count = 50;  // fewer than a policy gives chances in turn
constexpr int capacity = 64 * 60;  // a little more than there is room for

// The number of the first items that are left, after as many others came as should evict them all.
int survivors(Cache& cache, bool read_them) {
    for (int i = 0; i < hot_count; i++) cache.set(hot(i));
    for (int i = 0; i < 3 * capacity; i++) {
        if (read_them && i % 500 == 0)
            for (int k = 0; k < hot_count; k++)
                if (cache.stored(hot(k))) cache.read(hot(k), 2);
        cache.set(cold(i));
    }
    int left = 0;
    for (int i = 0; i < hot_count; i++) left += cache.has(hot(i)) ? 1 : 0;
    return left;
}

void what_is_read_stays(PolicyKind policy, const std::string& name) {
    Cache read(policy), unread(policy), uncounted(policy, false);
    tap::is(survivors(read, true), hot_count, name + ": what is read stays");
    tap::ok(read.cache.stats(now).reads_counted > 0, name + ": because its counters are looked at");
    tap::is(survivors(unread, false), 0, name + ": what is not goes");
    tap::is(unread.cache.stats(now).reads_counted, 0u, name + ": no counter moved");
    tap::is(survivors(uncounted, false), 0, name + ": so it does where there are none");
    tap::ok(uncounted.cache.impl().arena.read_counters() == nullptr, name + ": which takes no memory");
}

// A proxy that can add to a counter can add any value.
void all_are_read(PolicyKind policy, const std::string& name) {
    Cache cache(policy);
    for (int i = 0; i < 2 * capacity; i++) cache.set(cold(i));
    const uint64_t before = cache.evicted();
    const node::ReadCounters& counters = *cache.cache.impl().arena.read_counters();
    int refused = 0;
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < counters.bytes() / layout::counter_bytes; i++) counters.words()[i] += UINT64_MAX / 3;
        for (int i = 0; i < 100; i++) refused += cache.set(hot(100 * round + i)) ? 0 : 1;
    }
    tap::is(refused, 0, name + ": when all was read, stores find room all the same");
    tap::ok(cache.evicted() >= before + 1900, name + ": one has to go for each");
    tap::ok(cache.cache.stats(now).pages_used <= cache.cache.stats(now).pages_limit, name + ": within the limit");
}

void used_again() {
    Cache cache(PolicyKind::clock);
    cache.set("first");
    const uint64_t at = cache.offset_of("first");
    tap::ok(!cache.peek("first").meta.fetched, "an unread item");
    cache.read("first");
    tap::ok(cache.peek("first").meta.fetched, "one that was read without asking");
    tap::is(cache.cache.stats(now).reads_counted, 1u, "is counted");
    for (const node::Partition& partition : cache.cache.impl().partitions) partition.lock.lock();
    tap::is(cache.cache.reads_counted(), 1u, "which shows while all partitions are locked");
    for (const node::Partition& partition : cache.cache.impl().partitions) partition.lock.unlock();
    tap::ok(cache.peek("first").meta.fetched && cache.cache.stats(now).reads_counted == 1, "once");
    cache.set("beside");  // its page stays
    cache.read("first");
    cache.remove("first");
    cache.set("second");
    tap::is(cache.offset_of("second"), at, "another item where one died that was read");
    tap::ok(!cache.peek("second").meta.fetched, "has not been read");
    cache.counter_at(at)++;
    tap::ok(cache.peek("second").meta.fetched, "but what comes late counts for it");
    cache.set("large", 150'000);
    tap::ok(!cache.peek("large").meta.fetched, "an item of several pages");
    cache.counter_at(cache.offset_of("large") + layout::page_bytes)++;
    tap::ok(!cache.peek("large").meta.fetched, "has the counter of its first,");
    cache.read("large");
    tap::ok(cache.peek("large").meta.fetched, "and no other");
}

void no_two_share() {
    int wrong = 0, classes_seen = 0;
    for (const uint32_t chunk : {1u, 8u, 25u, 48u, 100u, 1000u, 60'000u}) {
        for (const double factor : {1.01, 1.08, 1.25, 2.0}) {
            const node::SizeClasses classes(chunk, factor);
            for (uint8_t i = 1; i <= classes.count(); i++, classes_seen++) {
                if (classes.slot_bytes(i) < layout::slot_bytes_min) wrong++;
                uint64_t next = 7 * layout::counters_per_page;
                for (uint32_t slot = 0; slot < classes.slots(i); slot++) {
                    const uint64_t number =
                        layout::counter_of(7 * uint64_t(layout::page_bytes) + uint64_t(slot) * classes.slot_bytes(i));
                    if (number < next) wrong++;
                    next = number + 1;
                }
                if (next > 8 * layout::counters_per_page) wrong++;
            }
        }
    }
    tap::ok(classes_seen > 100, "size classes of all kinds");
    tap::is(wrong, 0, "no two items share a counter, and none has that of another page");
}

// S6: counting changes no byte of any item.
void bytes_stay() {
    Cache cache(PolicyKind::clock);
    const std::string value(1000, 'v');
    for (int i = 0; i < 300; i++) cache.set(cold(i));
    for (int i = 0; i < 300; i += 3) cache.read(cold(i));
    for (int i = 0; i < 300; i++)
        if (cache.value_of(cold(i)) != value) violation("the bytes of an item changed when it was counted");
}

}  // namespace

int main() {
    bytes_stay();
    if (broken::must_catch()) {
        tap::ok(violations > 0, "the broken rule is caught");
        return tap::done();
    }
    tap::is(violations, 0, "no violation of a safety rule");
    no_two_share();
    used_again();
    for (size_t i = 0; i < policy_names.size(); i++) {
        const PolicyKind policy = PolicyKind(i);
        what_is_read_stays(policy, std::string(name_of(policy)));
        all_are_read(policy, std::string(name_of(policy)));
    }
    return tap::done();
}
