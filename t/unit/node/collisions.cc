// SPDX-License-Identifier: BSD-3-Clause
// A peer that knows the hash seed aims keys at one chain of the index. The work of each operation stays bounded, the oldest
// items of the chain are evicted, and no read is stale. Hashes by the private seed do not collide.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "fabric/local_read.h"
#include "node/store/impl.h"
#include "t/lib/tap.h"

using namespace farcached;

namespace {

constexpr NodeSeconds at_start = 100;
constexpr uint64_t seed_known = 0x1234567;
constexpr uint32_t aimed_bits = 12;  // of the bucket's number: as many as the index of these tests ever uses
constexpr size_t chain_items_max = size_t(node::chain_buckets_max) * layout::bucket_slots;
using Status = protocol::StoreReply::Status;

node::Config small(bool evict = true) {
    node::Config config;
    config.memory_bytes = 4 << 20;
    config.partitions = 1;
    config.seed = seed_known;
    config.evict = evict;
    config.policy = PolicyKind::fixed_lease;
    config.lease.enabled = true;
    return config;
}

// Keys whose hashes all name the bucket of the first.
std::vector<std::string> aimed_keys(node::Node& cache, size_t count) {
    std::vector<std::string> keys;
    constexpr uint64_t mask = (UINT64_C(1) << aimed_bits) - 1;
    const uint64_t bucket = cache.key("aim").hash & mask;
    char text[24];
    for (uint64_t i = 0; keys.size() < count; i++) {
        const int size = std::snprintf(text, sizeof text, "%" PRIx64, i);
        if ((cache.key({text, size_t(size)}).hash & mask) == bucket) keys.emplace_back(text, size_t(size));
    }
    return keys;
}

Status set(node::Node& cache, std::string_view key, std::string_view value, NodeSeconds now = at_start) {
    protocol::StoreOp op;
    op.key = cache.key(key);
    op.value = value;
    return cache.store(op, now).status;
}

// Empty: a miss.
std::string get(node::Node& cache, std::string_view key, NodeSeconds now = at_start, bool lease = false) {
    std::string value;
    protocol::GetOp op;
    op.key = cache.key(key);
    op.lease = lease;
    cache.get(op, now, [&](const protocol::ItemMeta& meta) {
        value.resize(meta.value_len);
        return value.data();
    });
    return value;
}

std::string read_lock_free(node::Node& cache, std::string_view key) {
    std::string value;
    fabric::Found found;
    const auto sink = [&](const fabric::ReadMeta& meta) {
        value.resize(meta.value_len);
        return value.data();
    };
    const auto outcome = fabric::local_read(cache.view(), key, cache.key(key).hash, at_start, false, sink, found, fabric::no_steps);
    return outcome == fabric::Outcome::hit ? value : std::string();
}

// Buckets of the longest chain: what one operation looks at, at most.
uint32_t longest_chain(node::Node& cache) {
    const fabric::RegionView& view = cache.view();
    const fabric::IndexShape& shape = view.shapes[0];
    uint32_t longest = 0;
    for (uint32_t i = 0; i < fabric::detail::bucket_count(view.partitions[0], shape); i++) {
        uint32_t length = 1;
        for (uint64_t link = fabric::detail::bucket_at(view, shape.buckets_offset, i)->overflow; link != 0; length++)
            link = fabric::detail::bucket_at(view, shape.overflow_offset, link - 1)->overflow;
        longest = std::max(longest, length);
    }
    return longest;
}

void aimed_sets() {
    node::Node cache(small());
    const std::vector<std::string> keys = aimed_keys(cache, 2000);
    int refused = 0, stale = 0, differ = 0;
    size_t found = 0;
    for (int round = 0; round < 3; round++)
        for (const std::string& key : keys) {
            refused += set(cache, key, "v" + std::to_string(round)) != Status::stored;
            stale += get(cache, key) != "v" + std::to_string(round);
        }
    tap::is(refused, 0, "2000 keys that are aimed at one chain, three times over: each is stored");
    tap::is(stale, 0, "and found with its last value at once");
    const uint32_t longest = longest_chain(cache);
    tap::ok(longest <= node::chain_buckets_max, "no chain has more buckets than there may be");
    std::printf("# longest chain: %u buckets\n", longest);
    for (const std::string& key : keys) {
        const std::string value = get(cache, key);
        found += !value.empty();
        stale += !value.empty() && value != "v2";
        differ += read_lock_free(cache, key) != value;
    }
    tap::is(found, chain_items_max, "the chain is full of the last ones");
    tap::is(stale, 0, "none of them is stale");
    tap::is(differ, 0, "and a reader without the lock finds the same");
    tap::is(cache.stats(at_start).overflow_evictions, 3 * keys.size() - chain_items_max, "the others were evicted, and counted");
    for (const std::string& key : keys) {
        protocol::DeleteOp op;
        op.key = cache.key(key);
        cache.remove(op, at_start);
    }
    tap::is(cache.stats(at_start).items, 0u, "a delete of each leaves nothing");
    set(cache, "aim", "again");
    tap::ok(get(cache, "aim") == "again" && longest_chain(cache) <= node::chain_buckets_max, "and the chain can be used again");
}

void oldest_first() {
    node::Node cache(small());
    const std::vector<std::string> keys = aimed_keys(cache, 2 * chain_items_max);
    for (size_t i = 0; i < chain_items_max; i++) set(cache, keys[i], "old", at_start);
    for (size_t i = 0; i < chain_items_max; i += 2) get(cache, keys[i], at_start + 5);
    const size_t others = chain_items_max / 2;
    for (size_t i = 0; i < others; i++) set(cache, keys[chain_items_max + i], "new", at_start + 6);
    size_t read = 0, unread = 0, fresh = 0;
    for (size_t i = 0; i < chain_items_max; i++) (i % 2 == 0 ? read : unread) += !get(cache, keys[i], at_start + 6).empty();
    for (size_t i = 0; i < others; i++) fresh += !get(cache, keys[chain_items_max + i], at_start + 6).empty();
    tap::is(read, (chain_items_max + 1) / 2, "what was read lately stays in a full chain");
    tap::is(unread, 0u, "what was not goes first");
    tap::is(fresh, others, "and what is stored stays");
}

void without_evictions() {
    node::Node cache(small(/* evict= */ false));
    const std::vector<std::string> keys = aimed_keys(cache, 200);
    size_t stored = 0, kept = 0;
    for (const std::string& key : keys) stored += set(cache, key, "v") == Status::stored;
    for (const std::string& key : keys) kept += get(cache, key) == "v";
    tap::is(stored, chain_items_max, "with -M a store into a full chain is refused");
    tap::is(kept, chain_items_max, "and what was stored stays");
    tap::ok(set(cache, keys[0], "w") == Status::stored && get(cache, keys[0]) == "w", "an item there can be replaced");
    tap::is(cache.stats(at_start).overflow_evictions, 0u, "nothing was evicted");
}

// Evicted under a lease, an item leaves a dead slot, which is found by a hash of another seed.
void leased_ones() {
    node::Node cache(small());
    const std::vector<std::string> keys = aimed_keys(cache, 500);
    for (const std::string& key : keys) {
        set(cache, key, "v0");
        for (int i = 0; i < 3; i++) get(cache, key, at_start, /* lease= */ true);
    }
    const node::Stats stats = cache.stats(at_start);
    tap::ok(stats.leases.granted > 0 && stats.leases.dead_slots > 0, "leased items of the chain are evicted, and leave dead slots");
    node::Arena& arena = cache.impl().arena;
    std::set<uint32_t> buckets;
    for (uint64_t page = 0; page < cache.pages().count(); page++)
        for (uint32_t slot = 0; slot < arena.page(page).fresh; slot++) {
            const node::Descriptor& item = arena.descriptor(node::make_ref(page, slot));
            if (item.state == node::SlotState::dead) buckets.insert(item.hash_bits & ((1u << aimed_bits) - 1));
        }
    tap::ok(buckets.size() > 1 && buckets.size() > stats.leases.dead_slots / 2, "which do not collide");
    int stale = 0;
    for (const std::string& key : keys) {
        set(cache, key, "v1");
        stale += get(cache, key, at_start, /* lease= */ true) != "v1";
    }
    tap::is(stale, 0, "a key that comes back has its new value");
}

}  // namespace

int main() {
    aimed_sets();
    oldest_first();
    without_evictions();
    leased_ones();
    return tap::done();
}
