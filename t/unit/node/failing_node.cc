// SPDX-License-Identifier: BSD-3-Clause
// Every operation of node::Node handles failed allocations. It starts from a state that is built the same each time,
// and its nth allocation fails, for n = 1, 2, ... until it needs fewer. After each failure the books agree with the
// items, and each key holds its old or its new value. The next operations work, and all memory is freed at the end.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "node/store/impl.h"
#include "t/lib/refused_new.h"
#include "t/lib/tap.h"
#include "t/unit/node/invariants.h"

namespace {

struct {
    bool armed = false;
    uint64_t left = 0;  // until the one that fails; 0: none does
    uint64_t seen = 0, failed = 0;
} allocations;

}  // namespace

bool allocation_refused(size_t) {
    if (!allocations.armed) return false;
    allocations.seen++;
    if (allocations.left == 0 || --allocations.left != 0) return false;
    allocations.failed++;
    return true;
}

namespace {

using namespace farcached;
using Mode = protocol::StoreOp::Mode;

// The test's copy of a value; one for equal bytes, so that values are compared by their addresses. nullptr: no item.
using Value = const std::string*;
Value value_of(std::string_view bytes) {
    static std::unordered_set<std::string> all;
    return &*all.emplace(bytes).first;
}

constexpr NodeSeconds at_start = 1000;
constexpr size_t page_item = 40'000, run_item = 200'000;  // values of a slot in a page, and of a run of pages
int violations = 0;
std::string where;

void expect(bool holds, const std::string& what) {
    if (!holds && violations++ < 20) std::printf("# violation: %s: %s\n", where.c_str(), what.c_str());
}

node::Config config_of(PolicyKind policy, bool leases) {
    node::Config config;
    config.memory_bytes = 4 << 20;
    config.partitions = 2;
    config.policy = policy;
    config.lease.enabled = leases;
    config.seed = 7;
    config.count_reads = true;
    return config;
}

// Observes evictions, as a watcher does.
class World : public node::Observer {
  public:
    World(PolicyKind policy, bool leases) : node(config_of(policy, leases)) {
        node.observe(this);
        buffer.resize(1 << 20);
    }
    void evicted(std::string_view, const protocol::ItemMeta&, NodeSeconds) noexcept override { evictions++; }

    // Returns whether the call completed.
    template <class Call>
    bool call(Call&& body) {
        allocations.armed = inside;
        bool done = true;
        try {
            body();
        } catch (const std::bad_alloc&) {
            done = false;
        }
        allocations.armed = false;
        return done;
    }
    // Adds a value that a key may hold from here on, beside its earlier ones; a known outcome replaces them.
    void settle(const std::string& key, Value value, bool known) {
        Values& may = held[key];
        if (may.empty()) may.push_back(nullptr);
        if (known) may.clear();
        if (!contains(may, value)) may.push_back(value);
    }
    Value one_value(const std::string& key) {
        const auto at = held.find(key);
        return at == held.end() || at->second.size() != 1 ? nullptr : at->second.front();
    }

    bool store(const std::string& key, const std::string& value, Mode mode = Mode::set, node::Upload* upload = nullptr) {
        protocol::StoreOp op;
        op.key = node.key(key);
        op.value = upload != nullptr ? upload->value() : std::string_view(value);
        op.mode = mode;
        op.exptime = exptime;
        op.lease = true;
        protocol::StoreReply reply;
        reply.status = protocol::StoreReply::Status::no_memory;
        if (mode == Mode::cas) op.cas_compare = cas;
        const bool adds = mode == Mode::append || mode == Mode::prepend;
        const Value old = adds ? one_value(key) : nullptr;
        const bool done = call([&] { reply = node.store(op, now, upload); });
        const bool stored = done && reply.status == protocol::StoreReply::Status::stored;
        Value after = value_of(value);
        if (old != nullptr && mode == Mode::append) after = value_of(*old + value);
        if (old != nullptr && mode == Mode::prepend) after = value_of(value + *old);
        if (stored || !done || reply.status == protocol::StoreReply::Status::no_memory) settle(key, after, stored);
        return stored;
    }
    protocol::GetReply get(const std::string& key, const std::function<void(protocol::GetOp&)>& with = {},
                           BorrowedBytes* lent = nullptr, bool sink_allocates = false) {
        protocol::GetOp op;
        op.key = node.key(key);
        op.lease = true;
        if (with) with(op);
        size_t got = 0;
        std::unique_ptr<std::string> copy;
        const auto sink = [&](const protocol::ItemMeta& meta) {
            if (sink_allocates) copy = std::make_unique<std::string>(meta.value_len + 100, 'x');
            got = meta.value_len;
            return buffer.data();
        };
        protocol::GetReply reply;
        const bool done = call([&] { reply = node.get(op, now, sink, lent); });
        if (op.vivify.has_value() && (!done || reply.status != protocol::GetReply::Status::hit)) settle(key, value_of(""), false);
        if (done && reply.vivified) settle(key, value_of(""), true);
        if (done && reply.status == protocol::GetReply::Status::hit) {
            cas = reply.meta.cas;
            const bool is_lent = lent != nullptr && lent->size() != 0;
            const Value read = value_of(is_lent ? lent->bytes() : std::string_view(buffer.data(), got));
            if (!contains(held[key], read)) expect(false, key + " is neither the old nor the new value");
        }
        return reply;
    }
    bool remove(const std::string& key, const std::function<void(protocol::DeleteOp&)>& with = {}) {
        protocol::DeleteOp op;
        op.key = node.key(key);
        if (with) with(op);
        protocol::DeleteReply reply;
        const bool done = call([&] { reply = node.remove(op, now); });
        if (op.invalidate && !op.remove_value) return done;
        settle(key, op.remove_value ? value_of("") : nullptr, done);
        return done;
    }
    bool arith(const std::string& key, bool decrement, bool vivify = false) {
        protocol::ArithOp op;
        op.key = node.key(key);
        op.decrement = decrement;
        op.lease = true;
        if (vivify) op.vivify = never_expires;
        op.initial = 5;
        protocol::ArithReply reply;
        const Value old = one_value(key);
        const bool done = call([&] { reply = node.arith(op, now); });
        const bool answered = done && reply.status != protocol::ArithReply::Status::no_memory;
        if (answered && reply.status != protocol::ArithReply::Status::ok && reply.status != protocol::ArithReply::Status::vivified)
            return false;
        std::string number = old != nullptr ? std::to_string(std::stoull(*old) + (decrement ? -1 : 1)) : "5";
        if (old != nullptr && number.size() < old->size()) number.resize(old->size(), ' ');
        settle(key, value_of(number), answered);
        return answered;
    }
    std::unique_ptr<node::Upload> begin(const std::string& key, uint64_t bytes) {
        std::unique_ptr<node::Upload> upload;
        call([&] { upload = node.begin_upload(node.key(key), bytes, now); });
        return upload;
    }
    void gone(const std::string& prefix, bool known) {
        for (auto& [key, may] : held)
            if (key.starts_with(prefix)) {
                if (known) may.clear();
                if (!contains(may, nullptr)) may.push_back(nullptr);
            }
    }
    void fill(const std::string& prefix, int count, size_t bytes, bool reads) {
        for (int i = 0; i < count; i++) {
            const std::string key = prefix + std::to_string(i);
            store(key, std::string(bytes, char('a' + i % 26)));
            if (reads) get(key);
        }
    }

    node::Node node;
    NodeSeconds now = at_start, exptime = never_expires;
    using Values = std::vector<Value>;  // that a key may hold
    static bool contains(const Values& may, Value value) { return std::ranges::find(may, value) != may.end(); }
    std::unordered_map<std::string, Values> held;
    std::string buffer;
    uint64_t cas = 0, evictions = 0;
    bool inside = false;  // an operation that is tried: its allocations count
};

struct Operation {
    std::string name;
    std::function<void(World&)> prepare, act;
};

void none(World&) {}
node::Access seen(World& world, const std::string& key) {
    const protocol::Key at = world.node.key(key);
    node::Partition& partition = world.node.impl().partitions.of(at.hash);
    const node::Ref ref = partition.items().locate(at).ref;
    const uint8_t size_class = world.node.impl().arena.page(node::page_of(ref)).size_class;
    const layout::Slot slot = layout::Slot::make(layout::tag_of(at.hash), size_class,
                                                 world.node.impl().arena.offset(ref));
    return {slot.word, world.node.impl().arena.header(ref).guard, at.hash, 1};
}

using Operations = std::vector<Operation>;

void add_stores(Operations& all) {
    for (const size_t bytes : {size_t(10), page_item, run_item}) {
        const std::string of = " of " + std::to_string(bytes), value(bytes, 'n');
        const auto old = [bytes](World& world) { world.store("k", std::string(bytes, 'o')), world.get("k"), world.get("k"); };
        all.push_back({"set new" + of, none, [=](World& world) { world.store("k", value); }});
        all.push_back({"set over" + of, old, [=](World& world) { world.store("k", value); }});
        all.push_back({"set smaller" + of, old, [=](World& world) { world.store("k", "small"); }});
        all.push_back({"add" + of, none, [=](World& world) { world.store("k", value, Mode::add); }});
        all.push_back({"replace" + of, old, [=](World& world) { world.store("k", value, Mode::replace); }});
        all.push_back({"append" + of, old, [=](World& world) { world.store("k", "tail", Mode::append); }});
        all.push_back({"prepend" + of, old, [=](World& world) { world.store("k", std::string(5000, 'h'), Mode::prepend); }});
        all.push_back({"cas" + of, old, [=](World& world) { world.store("k", value, Mode::cas); }});
        all.push_back({"set into the dead slot" + of, [=](World& world) { old(world), world.remove("k"); },
                       [=](World& world) { world.store("k", value), world.get("k"); }});
        all.push_back({"set after a flush" + of, [=](World& world) {
                           old(world), world.node.flush_all(world.now), world.gone("", true);
                       },
                       [=](World& world) { world.store("k", value), world.get("k"), world.get("k"); }});
        all.push_back({"upload" + of, old, [=](World& world) {
                           std::unique_ptr<node::Upload> upload = world.begin("k", bytes);
                           if (upload == nullptr) return;
                           upload->append(value);
                           world.store("k", value, Mode::set, upload.get());
                       }});
        all.push_back({"upload to a dead slot" + of, [=](World& world) { old(world), world.remove("k"); }, [=](World& world) {
                           std::unique_ptr<node::Upload> upload = world.begin("k", bytes);
                           if (upload == nullptr) return;
                           upload->append(value);
                           world.store("k", value, Mode::set, upload.get());
                       }});
        all.push_back({"upload dropped" + of, old, [=](World& world) { world.begin("k", bytes); }});
    }
}

void add_reads(Operations& all) {
    for (const size_t bytes : {size_t(10), page_item, run_item}) {
        const std::string of = " of " + std::to_string(bytes);
        const auto old = [bytes](World& world) { world.exptime = at_start + 500, world.store("k", std::string(bytes, 'o')); };
        all.push_back({"get, copied" + of, old, [](World& world) { world.get("k", {}, nullptr, true), world.get("k"); }});
        all.push_back({"get, lent twice" + of, old, [](World& world) {
                           BorrowedBytes first, second;
                           world.get("k", {}, &first), world.get("k", {}, &second);
                       }});
        all.push_back({"set and delete while lent" + of, old, [bytes](World& world) {
                           BorrowedBytes lent;
                           world.get("k", {}, &lent);
                           world.store("k", std::string(bytes, 'n'));
                           world.remove("k");
                           if (lent.size() != 0) expect(lent.bytes() == std::string(bytes, 'o'), "a lent value changed");
                       }});
        all.push_back({"touch" + of, [=](World& world) { old(world), world.get("k"); }, [](World& world) {
                           world.get("k", [](protocol::GetOp& op) { op.touch = at_start + 100; });
                           world.get("k", [](protocol::GetOp& op) { op.touch = at_start + 900; });
                       }});
        all.push_back({"recache" + of, old, [](World& world) {
                           const auto soon = [](protocol::GetOp& op) { op.win_tokens = true, op.recache_before = at_start + 900; };
                           world.get("k", soon), world.get("k", soon);
                       }});
        all.push_back({"lease granted, renewed, moved to the zone" + of,
                       [=](World& world) { world.fill("f", 300, 500, false), old(world); },
                       [](World& world) {
                           for (int i = 0; i < 4; i++, world.now += 2) world.get("k");
                       }});
        all.push_back({"delete" + of, [=](World& world) { old(world), world.get("k"); }, [](World& world) { world.remove("k"); }});
        all.push_back({"md I" + of, old, [](World& world) {
                           world.remove("k", [](protocol::DeleteOp& op) { op.invalidate = true; });
                       }});
        all.push_back({"md x" + of, old, [](World& world) {
                           world.remove("k", [](protocol::DeleteOp& op) { op.remove_value = true; });
                       }});
        all.push_back({"md x while lent" + of, old, [](World& world) {
                           BorrowedBytes lent;
                           world.get("k", {}, &lent);
                           world.remove("k", [](protocol::DeleteOp& op) { op.remove_value = true; });
                       }});
        all.push_back({"forget" + of, old, [](World& world) {
                           world.call([&] { world.node.forget(world.node.key("k"), world.now); });
                           world.settle("k", nullptr, true);
                       }});
        all.push_back({"record and renew" + of, [=](World& world) { old(world), world.get("k"); }, [](World& world) {
                           const node::Access access = seen(world, "k");
                           const std::vector<node::Access> many(300, access);
                           world.call([&] { world.node.record(many, world.now); });
                           world.now += 3;
                           world.call([&] { world.node.renew(access, world.now, UINT64_MAX); });
                       }});
    }
    all.push_back({"vivify", none, [](World& world) { world.get("k", [](protocol::GetOp& op) { op.vivify = never_expires; }); }});
    all.push_back({"vivify, the reply without memory", none, [](World& world) {
                       world.get("k", [](protocol::GetOp& op) { op.vivify = never_expires; }, nullptr, true);
                   }});
    all.push_back({"vivify of a dead slot", [](World& world) { world.store("k", "v"), world.get("k"), world.remove("k"); },
                   [](World& world) { world.get("k", [](protocol::GetOp& op) { op.vivify = never_expires; }); }});
}

void add_numbers(Operations& all) {
    for (const std::string& number : {std::string("10"), "10" + std::string(3000, ' '), "10" + std::string(run_item, ' ')}) {
        const std::string of = " of " + std::to_string(number.size());
        const auto old = [number](World& world) { world.store("k", number), world.get("k"); };
        all.push_back({"incr" + of, old, [](World& world) { world.arith("k", false); }});
        all.push_back({"decr" + of, old, [](World& world) { world.arith("k", true); }});
        all.push_back({"incr while lent" + of, old, [](World& world) {
                           BorrowedBytes lent;
                           world.get("k", {}, &lent);
                           world.arith("k", false);
                       }});
    }
    all.push_back({"ma vivify", none, [](World& world) { world.arith("k", false, true); }});
}

void delete_in_parts(World& world, const std::string& prefix) {
    node::PartialFlush flush{prefix, nullptr};
    bool begun = false;
    world.call([&] { begun = world.node.prefixes().begin(flush); });
    world.gone(prefix, false);
    if (!begun) return;
    for (int tries = 0; tries < 1000; tries++) {
        bool over = false;
        world.call([&] { over = world.node.prefixes().go_on(flush, 1, world.now); });  // std::bad_alloc: try again
        if (!over) continue;
        world.gone(prefix, true);
        return;
    }
    expect(false, "a delete by prefix ends");
}

void sweep_all(World& world) {
    const uint64_t order = world.node.prefixes().unswept();
    for (uint64_t page = 0; page < world.node.pages().most(); page++)
        world.call([&] { world.node.pages().sweep(page, world.now); });
    if (order != 0) world.call([&] { world.node.prefixes().swept(order); });
}

void add_walks(Operations& all) {
    const auto some = [](World& world) { world.fill("a", 300, 500, true), world.fill("b", 20, 30'000, true); };
    all.push_back({"flush_all, then stores and leases", some, [](World& world) {
                       world.call([&] { world.node.flush_all(world.now); });
                       world.gone("", true);
                       world.fill("a", 100, 500, true);
                   }});
    all.push_back({"delete_prefix", some, [](World& world) {
                       bool done = false;
                       world.call([&] { done = world.node.prefixes().remove("a", world.now); });
                       world.gone("a", done);
                   }});
    all.push_back({"delete_prefix in parts", some, [](World& world) { delete_in_parts(world, "a1"); }});
    all.push_back({"many prefixes, then a sweep", some, [](World& world) {
                       for (int i = 1; i < 30; i++) delete_in_parts(world, "a" + std::to_string(i));
                       sweep_all(world);
                   }});
    all.push_back({"limit down and up", some, [](World& world) {
                       for (const uint64_t megabytes : {3, 6, 4}) {
                           world.call([&] { world.node.set_memory_limit(megabytes << 20, world.now); });
                           world.fill("c", 50, 5000, true);
                       }
                   }});
    all.push_back({"sweep of what expired", [=](World& world) { world.exptime = at_start + 5, some(world), world.now += 300; },
                   [](World& world) { world.gone("", true), sweep_all(world); }});
    all.push_back({"visit", some, [](World& world) {
                       for (uint64_t page = 0; page < world.node.pages().count(); page++) {
                           std::vector<std::string> keys;  // of the visitor, which may throw
                           world.call([&] {
                               world.node.pages().visit(page, world.now,
                                                     [&](const node::ItemView& item) { keys.emplace_back(item.key); });
                           });
                       }
                   }});
    all.push_back({"stats", some, [](World& world) { world.call([&] { (void)world.node.stats(world.now); }); }});
    all.push_back({"lease terms and a scheduled flush", some, [](World& world) {
                       world.call([&] { world.node.set_lease_terms(5000, 1000, 9000); });
                       world.call([&] { world.node.announce_flush(world.now + 3); });
                       world.fill("a", 50, 500, true);
                   }});
}

void add_floods(Operations& all) {
    const auto full = [](World& world) { world.fill("e", 2000, 2000, false), world.gone("", false); };
    all.push_back({"eviction", full, [](World& world) { world.fill("n", 1500, 2000, true); }});
    all.push_back({"eviction of what was evicted before", full, [](World& world) {
                       for (int round = 0; round < 3; round++) world.fill("e", 800, 2000, round == 1);
                   }});
    all.push_back({"page moves", full, [](World& world) {
                       world.fill("n", 200, 30'000, false), world.now += 5, world.fill("m", 800, 300, true);
                   }});
    all.push_back({"runs", full, [](World& world) { world.fill("n", 40, run_item, true); }});
    all.push_back({"uploads into a full node", full, [](World& world) {
                       for (int i = 0; i < 30; i++) {
                           const std::string key = "n" + std::to_string(i), value(page_item, 'u');
                           std::unique_ptr<node::Upload> upload = world.begin(key, value.size());
                           if (upload == nullptr) continue;
                           upload->append(value);
                           world.store(key, value, Mode::set, upload.get());
                       }
                   }});
    all.push_back({"leases that fill the zone, and drains", full, [](World& world) {
                       for (int round = 0; round < 4; round++, world.now += 2) {
                           world.fill("a", 400, 3000, true), world.fill("b", 100, 12'000, true), world.fill("c", 500, 700, true);
                       }
                   }});
    all.push_back({"leases that die, and revive", full, [](World& world) {
                       world.fill("a", 400, 3000, true);
                       for (int i = 0; i < 400; i++) world.remove("a" + std::to_string(i));
                       world.fill("a", 400, 2500, true);
                       world.now += 100;
                       world.fill("a", 400, 2600, true);
                   }});
}

void look(World& world, const std::string& when) {
    const std::string wrong = node::wrong_in(world.node, world.now, /* zone_is_fixed= */ false);
    expect(wrong.empty(), when + ": " + wrong);
}

// Every key, the next operations, and the memory.
void look_after(World& world, bool evicts) {
    look(world, "after it");
    for (const auto& [key, may] : world.held) {  // a get of a known key adds no other
        if (world.get(key).status == protocol::GetReply::Status::hit) continue;
        if (!evicts && world.evictions == 0 && !World::contains(may, nullptr)) expect(false, key + " is gone");
    }
    world.exptime = never_expires;
    for (const std::string& key : {std::string("k"), std::string("next")}) {
        expect(world.store(key, "next value"), key + " is stored");
        expect(world.get(key).status == protocol::GetReply::Status::hit, key + " is found");
        world.remove(key);
        expect(world.get(key).status == protocol::GetReply::Status::miss, key + " is deleted");
    }
    look(world, "after the next operations");
    world.now += 2000;
    world.node.flush_all(world.now);
    sweep_all(world);
    const node::Stats stats = world.node.stats(world.now);
    expect(stats.items == 0 && stats.pages_used == 0, "the memory is back");
    expect(stats.bytes_lent == 0 && stats.bytes_arriving == 0 && stats.leases.dead_slots == 0, "nothing is held");
    look(world, "at the end");
}

uint64_t operations_run = 0, runs = 0, failures = 0;

void try_all_allocations(const Operation& operation, PolicyKind policy, bool leases) {
    operations_run++;
    for (uint64_t n = 1;; n++) {
        where = operation.name + " (" + std::string(name_of(policy)) + (leases ? ", leases" : "") + ", allocation " +
                std::to_string(n) + ")";
        World world(policy, leases);
        operation.prepare(world);
        const bool evicted_before = world.evictions != 0;
        allocations = {};
        allocations.left = n;
        world.inside = true;
        operation.act(world);
        world.inside = false;
        const uint64_t failed = allocations.failed;
        allocations = {};
        look_after(world, evicted_before);
        runs++;
        if (failed == 0) return;
        failures += failed;
    }
}

}  // namespace

int main() {
    Operations all;
    add_stores(all), add_reads(all), add_numbers(all), add_walks(all), add_floods(all);
    for (size_t i = 0; i < policy_names.size(); i++) {
        const PolicyKind policy = PolicyKind(i);
        const int before = violations;
        const uint64_t failures_before = failures;
        for (const bool leases : {false, true}) {
            if (leases && !may_lease(policy)) continue;
            for (const Operation& operation : all) try_all_allocations(operation, policy, leases);
        }
        tap::ok(violations == before && failures > failures_before,
                std::string(policy_names[i]) + ": each allocation of each operation fails once, and nothing is lost");
    }
    std::printf("# %zu operations, %llu with policies and leases; %llu allocations failed in %llu runs\n", all.size(),
                (unsigned long long)operations_run, (unsigned long long)failures, (unsigned long long)runs);
    return tap::done();
}
