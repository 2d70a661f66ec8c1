// SPDX-License-Identifier: BSD-3-Clause
// Items whose keys moved to another node (HiddenItems, F3): got by get_moved() alone, only if they moved late enough, and not after
// a flush. And the marks of the node that the keys moved to (TouchedKeys).
#include <memory>
#include <string>

#include "base/check.h"
#include "fabric/local_read.h"
#include "node/keys/touched_keys.h"
#include "node/store/node.h"
#include "node/store/pages.h"
#include "node/store/prefix_deletes.h"
#include "node/store/shared_keys.h"
#include "protocol/op.h"
#include "t/lib/tap.h"

using namespace farcached;
using protocol::StoreReply;

namespace {

constexpr NodeSeconds now = 1000;

struct Cache {
    node::Node node;

    Cache() : node(config()) {}
    static node::Config config() {
        node::Config config;
        config.memory_bytes = 32 << 20;
        config.workers = 1;
        config.item_bytes_max = 4 << 20;
        return config;
    }
    StoreReply store(const std::string& key, std::string_view value, auto change) {
        protocol::StoreOp op;
        op.key = node.key(key);
        op.value = value;
        change(op);
        return node.store(op, now);
    }
    void set(const std::string& key, std::string_view value, NodeSeconds exptime = never_expires) {
        CHECK(store(key, value, [&](auto& op) { op.exptime = exptime, op.flags = 7; }).status == StoreReply::Status::stored);
    }
    // "-": a miss.
    std::string get(const std::string& key, std::optional<uint64_t> moved_since = {}, bool lease = false, NodeSeconds at = now) {
        protocol::GetOp op;
        op.key = node.key(key);
        op.moved_since = moved_since;
        op.lease = lease;
        std::string value;
        const auto sink = [&](const protocol::ItemMeta& meta) {
            value.resize(meta.value_len);
            return value.data();
        };
        const protocol::GetReply reply =
            moved_since.has_value() ? node.shared_keys().get_moved(op, at, sink) : node.get(op, at, sink);
        const bool hit = reply.status == protocol::GetReply::Status::hit;
        CHECK(!hit || reply.meta.flags == 7);
        return hit ? value : "-";
    }
    bool reads(const std::string& key) {
        const protocol::Key k = node.key(key);
        fabric::Found found;
        std::string value;
        const auto sink = [&](const fabric::ReadMeta& meta) {
            value.resize(meta.value_len);
            return value.data();
        };
        return fabric::local_read(node.view(), key, k.hash, now, false, sink, found, fabric::no_steps) == fabric::Outcome::hit;
    }
    // Keys move away at that epoch: those that leave `remainder` stay.
    void move(uint64_t epoch, uint32_t remainder, uint32_t modulus = 2) {
        protocol::OwnedKeys keys;
        keys.modulus = modulus;
        keys.remainder = remainder;
        auto kept = std::make_shared<const protocol::KeptKeys>(protocol::KeptKeys{{keys}});
        stays = kept;
        node::PartialFlush flush{{}, kept, {epoch, now + node::PartialFlush::moved_kept_s}};
        CHECK(node.prefixes().begin(flush));
        while (!node.prefixes().go_on(flush, 1, now)) {
        }
    }
    void sweep(NodeSeconds at = now) {
        const uint64_t order = node.prefixes().unswept();
        for (uint64_t page = 0; page < node.pages().count(); page++) node.pages().sweep(page, at);
        if (order != 0) node.prefixes().swept(order);
    }
    std::string mark(const std::string& key, uint64_t since = 20) {
        const auto reply = store(key, {}, [&](auto& op) {
            op.mode = protocol::StoreOp::Mode::cas;
            op.cas_compare = 0;
            op.moved_since = since;
        });
        if (reply.status != StoreReply::Status::not_found) return "there";
        return reply.cas == protocol::mark_bit ? "none" : "mark";
    }

    std::shared_ptr<const protocol::KeptKeys> stays;
};

std::string name(int i) { return "key" + std::to_string(i); }
std::string value(int i) { return i % 10 == 3 ? std::string(200'000, 'l') + name(i) : "value of " + name(i); }

// Wrong answers: since, gets of moved items with that bound.
int wrong(Cache& cache, uint64_t since, bool found) {
    int count = 0;
    for (int i = 0; i < 60; i++) {
        const bool moved = !cache.stays->keeps(name(i));
        count += cache.get(name(i), since) != (moved && found ? value(i) : "-");
        count += moved && cache.reads(name(i));
    }
    return count;
}

void moves(bool leased, bool swept) {
    const std::string how = std::string(leased ? "leased" : "plain") + (swept ? ", swept: " : ": ");
    Cache cache;
    for (int i = 0; i < 60; i++) cache.set(name(i), value(i));
    for (int turn = 0; turn < 3 && leased; turn++)
        for (int i = 0; i < 60; i++) CHECK(cache.get(name(i), {}, true) == value(i));
    cache.move(20, 0);
    if (swept) cache.sweep();
    tap::is(wrong(cache, 20, true) + wrong(cache, 15, true), 0, how + "items that moved are found");
    tap::is(wrong(cache, 21, false), 0, how + "not those that moved before");
    int there = 0;
    for (int i = 0; i < 60; i++)
        if (cache.stays->keeps(name(i))) there += cache.get(name(i)) == value(i);
    tap::ok(there > 10, how + "the others stay");
    cache.move(30, 0, 4);
    if (swept) cache.sweep();
    int early = 0, late = 0;
    for (int i = 0; i < 60; i++) {
        early += cache.get(name(i), 15) == value(i);
        late += cache.get(name(i), 25) == value(i);
    }
    tap::ok(late > 3 && late < early, how + "more keys move: each item has the epoch of its own move");
    cache.move(25, 1, 4);
    tap::ok(cache.get(name(3), 31) == "-", how + "a late one makes none newer");
    CHECK(cache.node.prefixes().remove("key1", now));
    tap::is(cache.get(name(1), 0) + cache.get(name(11), 0), "--", how + "deleted by prefix, they are gone");
    cache.node.flush_all(now);
    early = 0;
    for (int i = 0; i < 60; i++) early += cache.get(name(i), 0) != "-";
    tap::is(early, 0, how + "flushed, all are");
}

void ends() {
    Cache cache;
    for (int i = 0; i < 60; i++) cache.set(name(i), value(i), i % 2 == 0 ? now + 50 : never_expires);
    cache.move(20, 1, 1000);
    tap::ok(cache.get(name(2), 20) != "-" && cache.get(name(2), 20, false, now + 50) == "-", "an expired item does not move");
    const std::string met = cache.get(name(1));
    tap::is(met + cache.get(name(1), 20), "--", "what a common get has met is gone");
    cache.set(name(5), "new");
    tap::is(cache.get(name(5), 0) + cache.get(name(5)), "-new", "a new item of the key has not moved");
    cache.sweep();
    cache.sweep(now + 100);
    tap::ok(cache.get(name(7), 20, false, now + 100) == value(7) && cache.node.stats(now).items < 50, "a sweep keeps them");
    cache.sweep(now + node::PartialFlush::moved_kept_s);
    tap::is(cache.node.stats(now).items, uint64_t(1), "for ten minutes");
    Cache unknown;
    unknown.set(name(1), value(1));
    unknown.move(0, 1, 1000);
    tap::is(unknown.get(name(1), 0), "-", "nor does one that moved by a list without an epoch");
}

void marks() {
    Cache cache;
    tap::is(cache.mark("a"), "none", "a node that joined no fleet gives no mark of an untouched key");
    cache.node.shared_keys().note_touched(now);
    tap::is(cache.mark("a"), "none", "nor does one that is about to join");
    cache.node.shared_keys().joined(15, now);
    tap::is(cache.mark("a") + cache.mark("a"), "markmark", "one that has joined does, again and again");
    tap::is(cache.mark("a", 14), "none", "not to a proxy that means an earlier record");
    cache.set("a", "v");
    tap::is(cache.mark("a"), "there", "if there is no item");
    protocol::DeleteOp remove;
    remove.key = cache.node.key("a");
    CHECK(cache.node.remove(remove, now).status == protocol::DeleteReply::Status::deleted);
    tap::is(cache.mark("a"), "none", "a key that was changed has none");
    remove.key = cache.node.key("b");
    cache.node.remove(remove, now);
    tap::is(cache.mark("b") + cache.mark("c"), "nonemark", "nor one that was deleted before it was there");
    const auto refused = cache.store("e", "v", [](auto& op) {
        op.mode = protocol::StoreOp::Mode::cas;
        op.cas_compare = 7;
    });
    CHECK(refused.status == StoreReply::Status::not_found);
    tap::is(cache.mark("e") + cache.mark("c"), "nonemark", "nor one of which a client's cas has learned that there is no item");
    CHECK(cache.node.prefixes().remove("x", now));
    tap::is(cache.mark("c"), "none", "none has any after a delete by prefix");
    const auto joins = [&](uint64_t revision) {
        cache.node.shared_keys().note_touched(now);
        cache.set("d", "v");
        cache.node.shared_keys().joined(revision, now);
        remove.key = cache.node.key("d");
        CHECK(cache.node.remove(remove, now).status == protocol::DeleteReply::Status::deleted);
    };
    joins(16);
    tap::is(cache.mark("c") + cache.mark("d"), "marknone", "until it joins again; what is changed before that is known counts");
    cache.node.shared_keys().joined(17, now);
    tap::is(cache.mark("c"), "none", "a record that it did not prepare for ends that");
    joins(18);
    NodeSeconds at = now;
    for (int i = 0; i < 10; i++) cache.node.shared_keys().looked(30, at += node::TouchedKeys::span_s - 1);
    tap::is(cache.mark("c", 18) + cache.mark("d", 18), "marknone", "it does so for long after it has joined");
    cache.node.flush_all(now);
    tap::is(cache.mark("c", 18), "none", "and so does a flush");
}

// Of a node that has been there for long, and gets more keys.
void later_changes() {
    using node::TouchedKeys;
    Cache cache;
    NodeSeconds at = now;
    uint64_t revision = 20;
    const auto looks = [&](uint32_t seconds) { cache.node.shared_keys().looked(revision, at += seconds); };
    cache.node.shared_keys().joined(15, at);
    tap::is(cache.mark("a", 15), "none", "a node that kept its items over a restart gives no mark at first");
    cache.set("a", "v");
    looks(1);
    protocol::DeleteOp remove;
    remove.key = cache.node.key("a");
    CHECK(cache.node.remove(remove, at).status == protocol::DeleteReply::Status::deleted);
    tap::is(cache.mark("b", 20), "none", "nor one for changes that etcd had when it was asked");
    tap::is(cache.mark("b", 21) + cache.mark("a", 21), "marknone", "but for those after it, of untouched keys");
    revision = 30;
    looks(TouchedKeys::span_s);
    tap::is(cache.mark("b", 21) + cache.mark("a", 31), "marknone", "what was touched before the change may count, too");
    looks(1);
    tap::is(cache.mark("b", 21) + cache.mark("a", 31) + cache.mark("a", 30), "markmarknone", "until a later look at etcd");
    revision = 40;
    cache.set("k", "v");
    cache.move(40, 1, 1000);  // the list changes
    for (uint32_t i = 0; i < 5; i++) looks(TouchedKeys::span_s);
    tap::is(cache.mark("b", 40) + cache.mark("a", 40), "markmark", "marks are given for long after the list has changed");
    tap::is(cache.mark("a", 30), "none", "for that change");
    looks(node::PartialFlush::moved_kept_s);
    for (uint32_t i = 0; i < 2; i++) looks(TouchedKeys::span_s);
    tap::is(cache.mark("b", 40), "none", "but not for ever");
    revision = 5;
    cache.node.shared_keys().joined(5, at);
    looks(1);
    tap::is(cache.mark("b", 40) + cache.mark("b", 41), "nonemark",
            "in another history of etcd only changes above all earlier ones");
}

// Of the node that the keys moved away from.
void forgets() {
    for (const bool swept : {false, true}) {
        Cache cache;
        cache.set(name(1), value(1));
        cache.move(20, 1, 1000);
        if (swept) cache.sweep();
        tap::is(cache.get(name(1), 20), value(1), "an item moved");
        cache.node.shared_keys().joined(5, now);
        tap::is(cache.get(name(1), 4), "-", "after another registration it may be of another history of etcd");
    }
    Cache cache;
    cache.set(name(1), value(1));
    cache.move(20, 1, 1000);
    cache.node.announce_flush(now + 100);
    tap::is(cache.get(name(1), 20), "-", "none moves while a flush is scheduled");
    CHECK(cache.node.prefixes().remove("key", now));
    cache.sweep();
    tap::is(cache.node.stats(now).items, uint64_t(0), "and a sweep does not keep what was deleted");
}

void keys() {
    node::TouchedKeys touched;
    tap::ok(!touched.is_untouched(1, 9), "before it begins all keys are touched");
    touched.begin(1 << 16, now);
    touched.joined(1 << 16, 9, now, now + 600);
    uint32_t untouched = 0;
    for (uint64_t i = 0; i < 1000; i++) touched.note(i << 40 | 5);
    for (uint64_t i = 0; i < 1000; i++) CHECK(!touched.is_untouched(i << 40 | 5, 9));
    for (uint64_t i = 1000; i < 2000; i++) untouched += touched.is_untouched(i << 40 | 5, 9);
    tap::ok(untouched > 950, "few others are taken for touched");
    touched.end();
    tap::ok(!touched.is_untouched(1, 9), "at the end all are");
}

}  // namespace

int main() {
    for (const bool leased : {false, true})
        for (const bool swept : {false, true}) moves(leased, swept);
    ends();
    marks();
    later_changes();
    forgets();
    keys();
    return tap::done();
}
