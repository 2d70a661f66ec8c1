// SPDX-License-Identifier: BSD-3-Clause
// Items of former owners: a node gives each away once, hidden from all other requests, and stores one of another node only if no
// mutation of its key was executed since the list of nodes changed.
#include <memory>
#include <string>
#include <string_view>

#include "base/check.h"
#include "node/store/changed_keys.h"
#include "node/store/node.h"
#include "protocol/owned_keys.h"
#include "t/lib/tap.h"

using namespace farcached;

namespace {

using Status = protocol::StoreReply::Status;
using protocol::StoreOp;
using Kept = std::shared_ptr<const protocol::KeptKeys>;

constexpr NodeSeconds at_start = 1000;
constexpr uint64_t change = 7;
constexpr NodeSeconds open_s = 60;

struct Cache {
    Cache() : node(config()) {}
    static node::Config config() {
        node::Config config;
        config.memory_bytes = 16 << 20;
        config.workers = 1;
        config.partitions = 1;
        config.takes_over = true;
        return config;
    }

    void told(uint64_t which = change, uint64_t ago_ms = 0) { node.list_changed(which, ago_ms, open_s, now); }
    protocol::StoreReply arrive(std::string_view key, uint64_t which = change, uint64_t cas = 0) {
        StoreOp op;
        op.key = node.key(key);
        op.mode = StoreOp::Mode::add;
        op.value = "old";
        op.arrival = true;
        op.cas_compare = which;
        if (cas != 0) op.cas_set = cas;
        return node.store(op, now);
    }
    bool arrives(std::string_view key, uint64_t which = change) { return arrive(key, which).status == Status::stored; }
    void set(std::string_view key, std::string_view value = "new") {
        StoreOp op;
        op.key = node.key(key);
        op.value = value;
        op.flags = 5;
        op.exptime = now + 100;
        CHECK(node.store(op, now).status == Status::stored);
    }
    void remove(std::string_view key) {
        protocol::DeleteOp gone;
        gone.key = node.key(key);
        node.remove(gone, now);
    }
    // "-": a miss.
    std::string get(std::string_view key, bool take = false) {
        std::string value;
        protocol::GetOp op;
        op.key = node.key(key);
        op.take = take;
        const auto sink = [&](const protocol::ItemMeta& meta) {
            value.resize(meta.value_len);
            return value.data();
        };
        last = node.get(op, now, sink);
        return last.status == protocol::GetReply::Status::hit ? value : "-";
    }
    std::string take(std::string_view key) { return get(key, true); }
    // Keeps the keys whose place leaves `remainder`.
    void keep(const Kept& kept) {
        node::Node::PartialFlush flush{{}, kept};
        CHECK(node.begin(flush, now));
        while (!node.go_on(flush, 8, now)) {
        }
    }
    void sweep() {
        const uint64_t order = node.prefix_order();
        for (uint64_t page = 0; page < node.page_count(); page++) node.sweep_page(page, now);
        if (order != 0) node.prefixes_swept(order);
    }

    node::Node node;
    NodeSeconds now = at_start;
    protocol::GetReply last;
};

Kept half(uint32_t remainder) {
    protocol::OwnedKeys keys;
    keys.place = {KeyHash::fnv1a_64, 0, 0};
    keys.modulus = 2;
    keys.remainder = remainder;
    return std::make_shared<const protocol::KeptKeys>(protocol::KeptKeys{{keys}});
}

// One that the other half has.
std::string key_outside(const Kept& kept) {
    for (int i = 0;; i++)
        if (const std::string key = "key" + std::to_string(i); !kept->keeps(key)) return key;
}

void changes() {
    Cache cache;
    tap::ok(!cache.arrives("a"), "no change was told of: nothing arrives");
    cache.told();
    tap::ok(cache.arrives("b") && cache.get("b") == "old", "an item arrives");
    tap::ok(!cache.arrives("b"), "once");
    tap::ok(!cache.arrives("c", change + 1), "not by another change");
    cache.set("d"), cache.remove("d");
    tap::ok(!cache.arrives("d"), "not if its key was mutated");
    cache.remove("e");
    tap::ok(!cache.arrives("e"), "even if the mutation found nothing");
    cache.now += open_s - 2;
    cache.told();
    tap::ok(cache.arrives("f"), "while the change is open");
    cache.now += 2;
    cache.told();
    tap::ok(!cache.arrives("g"), "the first proxy's time counts");
    Cache young;
    young.told(change, 3'600'000);
    tap::ok(!young.arrives("a"), "a node that is younger than the new list takes nothing");
    young.told();
    tap::ok(!young.arrives("a"), "from any proxy");
    Cache flushed;
    flushed.told();
    flushed.node.flush_all(flushed.now);
    tap::ok(!flushed.arrives("a"), "nothing arrives after a flush");
    flushed.told(change + 1);
    flushed.now++;
    CHECK(flushed.node.delete_prefix("x", flushed.now));
    tap::ok(!flushed.arrives("a", change + 1), "nor after a delete by prefix");
}

void earlier_mutations() {
    Cache cache;
    const auto pass = [&](NodeSeconds seconds) {
        cache.now += seconds;
        cache.set("other");
    };
    cache.set("a"), cache.remove("a");
    pass(node::ChangedKeys::turn_s);
    pass(node::ChangedKeys::turn_s);
    cache.set("b"), cache.remove("b");
    pass(node::ChangedKeys::earlier_s - 1);
    cache.told();
    tap::ok(!cache.arrives("b"), "a mutation shortly before the change counts: proxies may have had the list before");
    tap::ok(cache.arrives("a"), "one long before does not");
    cache.set("c"), cache.remove("c");
    for (int i = 0; i < 3; i++) pass(node::ChangedKeys::turn_s / 4);
    tap::ok(!cache.arrives("c"), "one since the change is remembered");
}

void uniques() {
    Cache cache;
    cache.told();
    cache.set("mine");
    cache.get("mine");
    const uint64_t mine = cache.last.meta.cas;
    tap::is(cache.arrive("k", change, mine + 1'000'000).cas, mine + 1'000'000, "an item keeps its unique");
    for (int i = 0; i < 64; i++) cache.set("k" + std::to_string(i));
    cache.set("k");
    cache.get("k");
    tap::ok(cache.last.meta.cas > mine + 1'000'000, "the key's later ones are larger");
    tap::ok(cache.arrive("far", change, UINT64_MAX).cas < UINT64_MAX, "one that is too large to go on from is replaced");
}

void takes() {
    Cache cache;
    cache.set("k");
    tap::is(cache.take("k"), "new", "a take has the value");
    tap::ok(cache.last.meta.flags == 5 && cache.last.meta.exptime == at_start + 100, "with client flags and expiry time");
    tap::is(cache.take("k") + cache.get("k"), "--", "and the item is gone");
    cache.set("k");
    protocol::DeleteOp stale;
    stale.key = cache.node.key("k");
    stale.invalidate = true;
    cache.node.remove(stale, cache.now);
    tap::is(cache.take("k"), "-", "a stale item stays");
    tap::is(cache.get("k"), "new", "where it is");
}

void leavings() {
    const Kept kept = half(0), other = half(1);
    const std::string gone = key_outside(kept), stays = key_outside(other);
    const auto moved = [&](Cache& cache) {
        cache.set(gone), cache.set(stays);
        cache.told();
        cache.keep(kept);
    };
    Cache cache;
    moved(cache);
    cache.keep(kept);  // of a second proxy
    cache.sweep();
    tap::is(cache.take(gone), "new", "an item that was hidden as its key moved is taken");
    tap::is(cache.get(stays), "new", "the others stay");
    tap::is(cache.take(gone), "-", "once");
    Cache read;
    moved(read);
    tap::is(read.get(gone), "-", "a get does not find it");
    tap::is(read.take(gone), "-", "and ends it");
    Cache stored;
    moved(stored);
    stored.set(gone);
    stored.keep(kept);
    tap::is(stored.take(gone), "-", "what was stored after the change is not taken after the next proxy's");
    Cache changed;
    moved(changed);
    changed.keep(other);
    tap::is(changed.take(gone), "-", "the next change ends the takes");
    changed.keep(kept);
    tap::is(changed.take(gone), "-", "for good");
    Cache flushed;
    moved(flushed);
    flushed.node.flush_all(flushed.now);
    tap::is(flushed.take(gone), "-", "a flush removes it");
    Cache prefix;
    moved(prefix);
    CHECK(prefix.node.delete_prefix("key", prefix.now));
    tap::is(prefix.take(gone), "-", "a delete by prefix, too");
    Cache late;
    moved(late);
    late.sweep();
    late.now += open_s;
    late.sweep();
    tap::is(late.take(gone), "-", "a sweep removes it when the change has ended");
    Cache plain;
    plain.set(gone);
    plain.keep(kept);
    tap::is(plain.take(gone), "-", "without a change nothing is kept");
}

}  // namespace

int main() {
    changes();
    earlier_mutations();
    uniques();
    takes();
    leavings();
    return tap::done();
}
