// SPDX-License-Identifier: BSD-3-Clause
// The node by its public surface: the index grows, memory stays within its limit, sizes shift, and walks see all items.
// Threads that read and write at once never see a byte that was not stored under the key.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "fabric/local_read.h"
#include "node/service/node_stats.h"
#include "node/store/node.h"
#include "node/store/pages.h"
#include "t/lib/tap.h"

using namespace farcached;

namespace {

constexpr NodeSeconds now = 100;

node::Config with_memory(uint64_t mebibytes) {
    node::Config config;
    config.memory_bytes = mebibytes << 20;
    return config;
}

protocol::StoreReply::Status set(node::Node& cache, std::string_view key, std::string_view value) {
    protocol::StoreOp op;
    op.key = cache.key(key);
    op.value = value;
    return cache.store(op, now).status;
}

bool get(node::Node& cache, std::string_view key, std::string& value) {
    protocol::GetOp op;
    op.key = cache.key(key);
    auto sink = [&](const protocol::ItemMeta& meta) {
        value.resize(meta.value_len);
        return value.data();
    };
    return cache.get(op, now, sink).status == protocol::GetReply::Status::hit;
}

bool read(node::Node& cache, std::string_view key, std::string& value) {
    fabric::Found found;
    auto sink = [&](const fabric::ReadMeta& meta) {
        value.resize(meta.value_len);
        return value.data();
    };
    return fabric::local_read(cache.view(), key, cache.key(key).hash, now, false, sink, found,
                              fabric::no_steps) == fabric::Outcome::hit;
}

// Items of pages that go to another class count as evicted only if they are live.
void what_expired_is_reclaimed() {
    node::Node cache(with_memory(8));
    constexpr uint64_t expiring = 5000, others = 6000;
    uint64_t stored = 0;
    for (uint64_t i = 0; i < expiring + others; i++) {
        const bool expires = i < expiring;
        const std::string key = std::to_string(i), value(expires ? 1000 : 3000, 'v');
        protocol::StoreOp op;
        op.key = cache.key(key);
        op.value = value;
        if (expires) op.exptime = now + 10;
        stored += cache.store(op, expires ? now : now + 100).status == protocol::StoreReply::Status::stored ? 1 : 0;
    }
    const node::Stats stats = cache.stats(now + 100);
    uint64_t reclaimed = 0, evicted = 0;
    for (const node::ClassStats& c : stats.classes) {
        reclaimed += c.reclaimed;
        evicted += c.evicted;
    }
    tap::is(stored, expiring + others, "all are stored");
    tap::is(reclaimed, expiring, "what expired is reclaimed when another class takes its pages");
    tap::is(evicted, others - stats.items, "and counts as no eviction");
}

// A sweep counts expired items that are next to go as reclaimed and the rest as crawled. A get counts neither.
void what_expired_is_counted() {
    for (const bool tails : {false, true}) {
        node::Node cache(with_memory(8));
        constexpr uint64_t expiring = 500;
        const auto store = [&](const std::string& key, NodeSeconds exptime) {
            protocol::StoreOp op;
            op.key = cache.key(key);
            op.value = "value";
            op.exptime = exptime;
            cache.store(op, now);
        };
        for (uint64_t i = 0; i < expiring; i++) store("short:" + std::to_string(i), now + 10);
        for (uint64_t i = 0; i < 100; i++) store("long:" + std::to_string(i), never_expires);
        protocol::GetOp get;
        get.key = cache.key("short:0");
        cache.get(get, now + 20, [](const protocol::ItemMeta&) -> char* { return nullptr; });
        for (uint64_t page = 0; page < cache.pages().count(); page++) cache.pages().sweep(page, now + 20, tails);
        const node::Stats stats = cache.stats(now + 20);
        uint64_t reclaimed = 0, crawled = 0, unfetched = 0;
        for (const node::ClassStats& c : stats.classes) {
            reclaimed += c.reclaimed;
            crawled += c.crawler_reclaimed;
            unfetched += c.expired_unfetched;
        }
        const std::string how = tails ? "a sweep that begins with the tails" : "a sweep";
        tap::is(tails ? reclaimed : crawled, expiring - 1, how + ": all that expired");
        tap::is(tails ? crawled : reclaimed, 0u, how + ": and nothing is the other's");
        tap::is(unfetched, expiring - 1, how + ": all but what a get met is unfetched");
    }
}

void index_grows() {
    node::Node cache(with_memory(64));
    constexpr int count = 200'000;
    for (int i = 0; i < count; i++) set(cache, "key:" + std::to_string(i), std::to_string(i));
    int locked = 0, lock_free = 0;
    std::string value;
    for (int i = 0; i < count; i++) {
        std::string key = "key:" + std::to_string(i), want = std::to_string(i);
        if (get(cache, key, value) && value == want) locked++;
        if (read(cache, key, value) && value == want) lock_free++;
    }
    tap::is(locked, count, "every item is found under the lock");
    tap::is(lock_free, count, "and without it");
    node::Stats stats = cache.stats(now);
    tap::is(stats.items, uint64_t(count), "and counted");
    tap::ok(stats.index_buckets > count / 7, "the index grew with them");
    uint64_t walked = 0;
    for (uint64_t page = 0; page < cache.pages().count(); page++)
        cache.pages().visit(page, now, [&](const node::ItemView&) { walked++; });
    tap::is(walked, uint64_t(count), "a walk sees each once");
    cache.flush_all(now);
    tap::ok(!read(cache, "key:1", value), "a flush is seen without the lock");
    uint64_t removed = 0;
    for (uint64_t page = 0; page < cache.pages().count(); page++)
        removed += cache.pages().sweep(page, now).removed;
    tap::is(removed, uint64_t(count), "and a sweep removes what it left");
    tap::is(cache.stats(now).pages_used, UINT64_C(0), "whose pages are free then");
}

void sizes_shift() {
    node::Node cache(with_memory(16));
    int refused = 0;
    auto fill = [&](int count, size_t size) {
        const std::string value(size, 'v');
        for (int i = 0; i < count; i++)
            if (set(cache, std::to_string(size) + ":" + std::to_string(i), value) !=
                protocol::StoreReply::Status::stored)
                refused++;
    };
    fill(200'000, 100);
    fill(4'000, 10'000);
    fill(100, 900'000);
    fill(200, 70'000);
    fill(200'000, 100);
    tap::is(refused, 0, "no set is refused while the sizes of values shift");
    node::Stats stats = cache.stats(now);
    tap::ok(stats.pages_used <= stats.pages_limit, "and the limit on memory holds");
    tap::ok(stats.pages_moved > 0, "because whole pages were moved");
}

// The item that an append, a replace or a cas builds on is not evicted to make room for the result.
void what_finds_no_room_may_forget() {
    node::Config config = with_memory(2);
    config.evict = false;
    node::Node cache(config);
    std::string value;
    set(cache, "key", "old");
    for (int i = 0; i < 100; i++) set(cache, "other:" + std::to_string(i), std::string(100'000, 'x'));
    const std::string large(100'000, 'y');
    protocol::StoreOp op;
    op.key = cache.key("key");
    op.value = large;
    tap::ok(cache.store(op, now).status == protocol::StoreReply::Status::no_memory, "a set without room");
    tap::ok(get(cache, "key", value) && value == "old", "leaves the old item");
    op.forget = true;
    cache.store(op, now);
    tap::ok(!get(cache, "key", value), "unless it is to be forgotten");
}

void what_is_changed_is_kept() {
    node::Config config = with_memory(8);
    config.item_bytes_max = 4 << 20;
    node::Node cache(config);
    std::string got;
    int lost = 0;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 30; i++) set(cache, "filler" + std::to_string(i), std::string(200'000, 'f'));
        set(cache, "large", std::string(1'500'000, 'x'));
        protocol::StoreOp op;
        op.key = cache.key("large");
        op.mode = protocol::StoreOp::Mode::append;
        op.value = "tail";
        if (cache.store(op, now).status != protocol::StoreReply::Status::stored) lost++;
        op.mode = protocol::StoreOp::Mode::replace;
        const std::string other(1'600'000, 'y');
        op.value = other;
        if (cache.store(op, now).status != protocol::StoreReply::Status::stored) lost++;
        if (!get(cache, "large", got) || got != other) lost++;
    }
    tap::is(lost, 0, "a large item is not evicted by its own append or replace");
}

// A full cache that does not evict can still change items in place.
void changes_in_place_when_full() {
    node::Config config = with_memory(4);
    config.evict = false;
    node::Node cache(config);
    set(cache, "n", "1000");
    set(cache, "large", std::string(200'000, 'l'));
    for (int i = 0; i < 100'000; i++) set(cache, "k" + std::to_string(i), std::string(size_t(i % 300), 'v'));
    for (int i = 0; i < 100; i++) set(cache, "l" + std::to_string(i), std::string(60'000, 'v'));
    protocol::ArithOp add;
    add.key = cache.key("n");
    protocol::ArithReply counted = cache.arith(add, now);
    tap::ok(counted.status == protocol::ArithReply::Status::ok && counted.value == 1001,
            "a number is counted up in a full cache");
    protocol::DeleteOp stale;
    stale.key = cache.key("large");
    stale.invalidate = true;
    cache.remove(stale, now);
    protocol::GetOp op;
    op.key = cache.key("large");
    op.win_tokens = true;
    auto sink = [](const protocol::ItemMeta&) -> char* { return nullptr; };
    const protocol::GetReply reply = cache.get(op, now, sink);
    tap::ok(reply.status == protocol::GetReply::Status::hit && reply.meta.stale && reply.meta.win,
            "a large item is marked stale there");
}

void nothing_is_evicted_with_dash_m() {
    node::Config config = with_memory(4);
    config.evict = false;
    node::Node cache(config);
    const std::string value(1000, 'v');
    int stored = 0;
    while (stored < 100'000 && set(cache, "k" + std::to_string(stored), value) ==
                                   protocol::StoreReply::Status::stored)
        stored++;
    tap::ok(stored > 2'000, "a cache that does not evict takes what fits");
    tap::ok(stored < 4'100, "and no more");
    int kept = 0;
    std::string got;
    for (int i = 0; i < stored; i++)
        if (get(cache, "k" + std::to_string(i), got)) kept++;
    tap::is(kept, stored, "and loses nothing");
}

std::string stamped(int key, int round) {
    std::string stamp = std::to_string(key) + "/" + std::to_string(round) + ";";
    std::string value;
    const int repeats = 1 + (key * 31 + round * 7) % 60;
    for (int i = 0; i < repeats; i++) value += stamp;
    return value;
}

// A whole number of equal stamps that begin with the key's number.
bool is_stamped(const std::string& value, int key) {
    size_t end = value.find(';');
    if (end == std::string::npos) return false;
    const std::string stamp = value.substr(0, end + 1);
    if (stamp.rfind(std::to_string(key) + "/", 0) != 0) return false;
    if (value.size() % stamp.size() != 0) return false;
    for (size_t at = 0; at < value.size(); at += stamp.size())
        if (value.compare(at, stamp.size(), stamp) != 0) return false;
    int round = std::stoi(stamp.substr(stamp.find('/') + 1));
    return value == stamped(key, round);
}

void threads_never_see_foreign_bytes() {
    node::Config config = with_memory(4);  // small: evictions and page moves all the time
    node::Node cache(config);
    constexpr int threads = 4, keys = 3'000, rounds = 60'000;
    std::atomic<int> wrong{0}, hits{0};
    auto work = [&](int seed) {
        uint64_t state = uint64_t(seed) * 2654435761u + 1;
        std::string value;
        for (int i = 0; i < rounds; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            const int key = int(state >> 33) % keys;
            const std::string name = "key" + std::to_string(key);
            const int what = int(state >> 20) % 100;
            if (what < 30) {
                set(cache, name, stamped(key, i));
            } else if (what < 33) {
                protocol::DeleteOp op;
                op.key = cache.key(name);
                cache.remove(op, now);
            } else if (what == 33 && i % 64 == 0) {
                cache.flush_all(now);
            } else if (what < 90) {
                if (!read(cache, name, value)) continue;
                hits++;
                if (!is_stamped(value, key)) wrong++;
            } else if (get(cache, name, value)) {
                if (!is_stamped(value, key)) wrong++;
            }
        }
    };
    std::vector<std::thread> all;
    for (int i = 0; i < threads; i++) all.emplace_back(work, i + 1);
    for (std::thread& one : all) one.join();
    tap::is(wrong.load(), 0, "no thread sees a byte that was not stored under its key");
    tap::ok(hits.load() > 1'000, "while lock-free reads do hit");
}

// A sample of keys ends with all pages, with a thousand keys, or with its time: a thread that serves others takes it.
void keys_are_sampled() {
    node::Node cache(with_memory(64));
    const auto number = [](const std::string& text, const std::string& name) {
        const size_t at = text.find("\n" + name + " ");
        return at == text.npos ? ~UINT64_C(0) : std::stoull(text.substr(at + name.size() + 2));
    };
    const auto sample = [&](auto... us_max) {
        std::string text = "\n";
        node::append_key_sample(cache, now, text, us_max...);
        return text;
    };
    const auto keys = [](const std::string& text) {
        size_t count = 0;
        for (size_t at = 0; (at = text.find("\nkey k", at)) != text.npos; at++) count++;
        return count;
    };
    for (int i = 0; i < 100; i++) set(cache, "k" + std::to_string(i), "v");
    const std::string all = sample(UINT32_MAX);
    tap::is(number(all, "pages_seen"), number(all, "pages"), "a sample of few keys sees all pages");
    tap::is(keys(all), 100u, "and has all keys");
    const std::string cut = sample(0u);
    tap::ok(number(cut, "pages_seen") >= node::key_sample_pages && number(cut, "pages_seen") < number(all, "pages"),
            "one without time ends early");
    tap::is(number(cut, "pages"), number(all, "pages"), "and shows that");
    for (int i = 0; i < 100'000; i++) set(cache, "k" + std::to_string(i), "v");
    const std::string some = sample(UINT32_MAX);
    tap::ok(keys(some) >= 1000 && number(some, "pages_seen") < number(some, "pages"),
            "one of many keys ends with enough");
    tap::is(number(some, "items"), 100'000u, "with their number");
    node::Node large(with_memory(4096));
    for (int i = 0; i < 100; i++) set(large, "k" + std::to_string(i), "v");
    std::string of_large = "\n";
    node::append_key_sample(large, now, of_large, 1'000'000);
    tap::is(keys(of_large), 100u, "one of a large node with few keys has them");
}

}  // namespace

int main() {
    index_grows();
    keys_are_sampled();
    what_expired_is_reclaimed();
    what_expired_is_counted();
    sizes_shift();
    nothing_is_evicted_with_dash_m();
    what_finds_no_room_may_forget();
    what_is_changed_is_kept();
    changes_in_place_when_full();
    threads_never_see_foreign_bytes();
    return tap::done();
}
