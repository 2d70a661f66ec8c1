// SPDX-License-Identifier: BSD-3-Clause
// Holds: copies of another node's items (replicas). A copy is stored only if nothing else has changed its key since the hold began.
// Built again with S20_ORDER broken (t/faulty/broken_rules.py), the test must find a copy that is older than the item.
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "base/broken.h"
#include "base/check.h"
#include "node/keys/holds.h"
#include "node/store/node.h"
#include "node/store/prefix_deletes.h"
#include "node/store/shared_keys.h"
#include "t/lib/tap.h"

using namespace farcached;

namespace {

using Status = protocol::StoreReply::Status;
using protocol::StoreOp;

constexpr NodeSeconds now = 1000;
constexpr uint32_t seconds = 60;

// ---- the table ----------------------------------------------------------------------------------------

void alone_or_not() {
    node::Holds holds;
    const uint64_t one = holds.begin(1, seconds, now);
    tap::ok(protocol::is_hold(one) && protocol::is_mark(one), "a hold is a word that no unique and no mark is");
    tap::ok(holds.end(1, one, now) && !holds.end(1, one, now), "alone it ends with a copy, once");
    tap::is(holds.keys(), size_t(0), "and leaves nothing");
    const uint64_t first = holds.begin(1, seconds, now), second = holds.begin(1, seconds, now);
    const uint64_t third = holds.begin(2, seconds, now);
    tap::ok(!holds.end(1, second, now) && !holds.end(1, first, now), "of two at a time none does");
    tap::ok(holds.end(2, third, now), "another key's does");
    const uint64_t spoiled = holds.begin(1, seconds, now), other = holds.begin(2, seconds, now);
    holds.spoil(1);
    tap::ok(!holds.end(1, spoiled, now) && holds.end(2, other, now), "nor does one whose key was changed");
    const uint64_t flushed = holds.begin(1, seconds, now);
    holds.spoil_all();
    tap::ok(!holds.end(1, flushed, now), "nor does any after a flush");
    node::Holds another;
    const uint64_t theirs = another.begin(1, seconds, now);
    holds.begin(1, seconds, now);
    tap::ok(!holds.end(1, theirs, now), "a hold of another node is not known");
}

void expiry() {
    node::Holds holds;
    const uint64_t left = holds.begin(1, seconds, now);
    const uint64_t during = holds.begin(1, seconds, now + seconds);
    tap::ok(!holds.end(1, during, now + seconds), "a hold that nobody ends spoils others until its seconds have passed");
    const uint64_t after = holds.begin(1, seconds, now + seconds + 1);
    tap::ok(!holds.end(1, left, now + seconds + 1) && holds.end(1, after, now + seconds + 1), "then it has ended");
    const uint64_t brief = holds.begin(3, 1, now), longer = holds.begin(3, seconds, now + 2);
    tap::ok(!holds.end(3, brief, now + 2) && holds.end(3, longer, now + 2), "a late end has no effect on the next hold");
    const uint64_t late = holds.begin(3, seconds, now);
    tap::ok(!holds.end(3, late, now + seconds + 1) && holds.keys() == 0, "nor has it a copy, though no other hold has come");
    holds.close(now + 15);
    const uint64_t closed = holds.begin(1, seconds, now);
    holds.close(0);
    tap::ok(!holds.end(1, closed, now), "while the node is closed none begins that ends with a copy");
    const uint64_t before = holds.begin(1, seconds, now);
    holds.close(now + 15);
    tap::ok(!holds.end(1, before, now), "nor does one from before");
    const uint64_t later = holds.begin(1, seconds, now + 15);
    tap::ok(holds.end(1, later, now + 15), "the node opens by itself");
}

void full() {
    node::Holds holds;
    for (uint64_t hash = 0; hash < node::Holds::keys_max; hash++) holds.begin(hash, seconds, now);
    const uint64_t unnoted = holds.begin(node::Holds::keys_max, seconds, now), noted = holds.begin(0, seconds, now);
    tap::is(holds.keys(), node::Holds::keys_max, "the table is bounded");
    tap::ok(!holds.end(node::Holds::keys_max, unnoted, now) && !holds.end(0, noted, now), "beyond that none ends with a copy");
    const NodeSeconds later = now + seconds + 2;
    const uint64_t next = holds.begin(node::Holds::keys_max, seconds, later);
    tap::ok(holds.end(node::Holds::keys_max, next, later), "until those have ended that are not noted");
    tap::is(holds.keys(), size_t(0), "which frees the table");
}

// ---- a node -------------------------------------------------------------------------------------------

struct Cache {
    Cache() : node(config()) {}
    static node::Config config() {
        node::Config config;
        config.memory_bytes = 16 << 20;
        config.workers = 1;
        return config;
    }
    uint64_t hold(std::string_view key) { return node.shared_keys().hold({node.key(key), seconds, 0}, now).cas; }
    Status copy(std::string_view key, uint64_t hold, std::string_view value = "copy", uint64_t cas = 77) {
        StoreOp op;
        op.key = node.key(key);
        op.mode = StoreOp::Mode::cas;
        op.cas_compare = hold;
        op.cas_set = cas;
        op.value = value;
        return node.store(op, now).status;
    }
    protocol::StoreReply set(std::string_view key) {
        StoreOp op;
        op.key = node.key(key);
        op.value = "set";
        return node.store(op, now);
    }
    std::string get(std::string_view key, std::optional<NodeSeconds> touch = {}) {
        protocol::GetOp op;
        op.key = node.key(key);
        op.touch = touch;
        std::string value;
        const protocol::GetReply reply = node.get(op, now, [&](const protocol::ItemMeta& meta) {
            value.resize(meta.value_len);
            return value.data();
        });
        return reply.status == protocol::GetReply::Status::hit ? value : "-";
    }
    void remove(std::string_view key) {
        protocol::DeleteOp op;
        op.key = node.key(key);
        node.remove(op, now);
    }

    node::Node node;
};

void in_a_node() {
    Cache cache;
    cache.set("k");
    const uint64_t hold = cache.hold("k");
    tap::is(cache.get("k"), "-", "a hold removes the copy");
    tap::ok(cache.copy("k", hold) == Status::stored && cache.get("k") == "copy", "its end stores the next one");
    tap::ok(cache.copy("k", hold) == Status::exists, "once");
    const uint64_t first = cache.set("other").cas, ahead = first + 1'000'000;
    CHECK(cache.copy("n", cache.hold("n"), "copy", ahead) == Status::stored);
    tap::ok(cache.set("n").cas > ahead, "later uniques are above the copy's");
    CHECK(cache.copy("n", cache.hold("n"), "copy", UINT64_C(1) << 62) == Status::stored);
    tap::ok(cache.set("n").cas < UINT64_C(1) << 60, "but not above one that only a client can have chosen");
    const uint64_t released = cache.hold("k");
    cache.node.shared_keys().hold({cache.node.key("k"), 0, released}, now);
    tap::ok(cache.copy("k", released) == Status::not_found && cache.get("k") == "-", "a released hold stores nothing");
    const uint64_t too_large = cache.hold("k");
    tap::ok(cache.copy("k", too_large, std::string(2 << 20, 'v')) == Status::too_large, "too large a copy is refused");
    tap::ok(cache.copy("k", cache.hold("k")) == Status::stored, "and its hold has ended");
}

// The store of a copy may need several attempts: its hold ends with the first.
void without_memory() {
    Cache cache;
    const std::string value(200'000, 'v');
    uint64_t stored = 0;
    for (int i = 0; i < 400; i++) {
        const std::string key = "key" + std::to_string(i);
        stored += cache.copy(key, cache.hold(key), value) == Status::stored && cache.get(key) == value;
    }
    tap::is(stored, 400u, "copies are stored where others must go first");
    tap::is(cache.get("key0"), "-", "and others went");
}

void after_a_mutation() {
    struct Mutation {
        const char* name;
        std::function<void(Cache&)> execute;
    };
    const Mutation all[] = {
        {"a set and a delete", [](Cache& cache) { cache.set("k"), cache.remove("k"); }},
        {"a delete that finds nothing", [](Cache& cache) { cache.remove("k"); }},
        {"a touch that finds nothing", [](Cache& cache) { cache.get("k", now + 9); }},
        {"an incr that finds nothing", [](Cache& cache) {
             protocol::ArithOp op;
             op.key = cache.node.key("k");
             cache.node.arith(op, now);
         }},
        {"another hold", [](Cache& cache) { cache.hold("k"); }},
        {"another hold that has ended", [](Cache& cache) { cache.copy("k", cache.hold("k")), cache.remove("k"); }},
        {"a flush", [](Cache& cache) { cache.node.flush_all(now); }},
        {"a delete by prefix", [](Cache& cache) { CHECK(cache.node.prefixes().remove("k", now)); }},
        {"the node's closing",
         [](Cache& cache) {
             cache.node.shared_keys().close_copies(now, 15, 7);
             cache.node.shared_keys().open_copies(now, 7);
         }},
    };
    for (const Mutation& one : all) {
        Cache cache;
        const uint64_t hold = cache.hold("k");
        one.execute(cache);
        tap::ok(cache.copy("k", hold) == Status::not_found && cache.get("k") == "-", std::string(one.name) + ": no copy is stored");
    }
    Cache cache;
    cache.node.shared_keys().close_copies(now, 15, 1);
    cache.node.shared_keys().close_copies(now, 15, 2);
    cache.node.shared_keys().open_copies(now, 1);
    cache.node.shared_keys().open_copies(now, 1);
    cache.node.shared_keys().open_copies(now, 3);
    tap::ok(cache.copy("k", cache.hold("k")) != Status::stored,
            "two flushes: the first one's end does not open the node, nor does that of another");
    const uint64_t while_closed = cache.hold("k");
    tap::ok(cache.copy("k", while_closed, std::string(2 << 20, 'v')) == Status::too_large, "a hold ends there all the same");
    cache.node.shared_keys().open_copies(now, 2);
    tap::ok(cache.copy("k", cache.hold("k")) == Status::stored, "the second one's does");
    Cache twice;
    twice.node.shared_keys().close_copies(now, 15, 1);
    twice.node.shared_keys().close_copies(now + 10, 15, 2);
    twice.node.shared_keys().open_copies(now + 11, 2);
    tap::ok(twice.copy("k", twice.hold("k")) != Status::stored, "a flush whose end never comes keeps it closed");
    twice.node.shared_keys().open_copies(now + 16, 2);
    twice.node.shared_keys().close_copies(now + 16, 15, 3);
    twice.node.shared_keys().open_copies(now + 16, 3);
    tap::ok(twice.copy("k", twice.hold("k")) == Status::stored, "but not for longer because of later ones");
}

// ---- all orders of three mutations ----------------------------------------------------------------------

struct World {
    Cache cache;
    uint64_t primary = 0;  // version there; 0: none
    std::array<uint64_t, 3> holds{}, versions{};
    std::array<int, 3> steps{};
    uint64_t next = 1;
    int violations = 0;
    std::array<int, 3> dies = {3, 3, 3};  // before this step of the writer

    // Each takes a hold, changes the primary, and stores the copy. The last one deletes instead.
    void step(size_t writer) {
        if (steps[writer] >= dies[writer]) return;
        switch (steps[writer]++) {
            case 0: holds[writer] = cache.hold("k"); break;
            case 1: primary = versions[writer] = writer == 2 ? 0 : next++; break;
            default:
                if (writer == 2)
                    cache.node.shared_keys().hold({cache.node.key("k"), 0, holds[writer]}, now);
                else
                    cache.copy("k", holds[writer], std::to_string(versions[writer]));
        }
        const std::string copy = cache.get("k");
        if (copy != "-" && copy != std::to_string(primary)) violations++;  // it would be read if the primary died now
    }
};

int orders() {
    int count = 0, violations = 0;
    std::vector<size_t> order;
    const std::function<void()> go_on = [&] {
        std::array<int, 3> used{};
        for (size_t writer : order) used[writer]++;
        if (order.size() == 9) {
            for (int dies = 1; dies <= 3; dies++) {
                World world;
                world.dies[0] = dies;
                for (size_t writer : order) world.step(writer);
                violations += world.violations;
                count++;
            }
            return;
        }
        for (size_t writer = 0; writer < 3; writer++) {
            if (used[writer] == 3) continue;
            order.push_back(writer);
            go_on();
            order.pop_back();
        }
    };
    go_on();
    CHECK(count == 3 * 1680);
    return violations;
}

}  // namespace

int main() {
    const int violations = orders();
    if (broken::must_catch()) {
        tap::ok(violations > 0, "the rule that was broken on purpose is caught");
        return tap::done();
    }
    tap::is(violations, 0, "in no order of two sets and a delete a copy is older than the item, whenever a writer dies");
    alone_or_not();
    expiry();
    full();
    in_a_node();
    without_memory();
    after_a_mutation();
    return tap::done();
}
