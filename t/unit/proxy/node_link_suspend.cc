// SPDX-License-Identifier: BSD-3-Clause
// Hosts that are suspended, or stand still, while leases run (S3). Both sides use CLOCK_BOOTTIME, which goes on in a
// suspended host: an hour later every lease has ended at both. It stops in a halted guest. Such a guest takes its
// leases for too long; the check of the read itself then refuses the bytes (S4). No wall clock is used.
#include <string>

#include "node/store/pages.h"
#include "t/unit/proxy/link_fixture.h"

using namespace link_test;

namespace {

constexpr uint64_t hour = 3600 * second;

node::LeaseStats leases(World& world) { return world.node.cache->stats(world.node.now(world.now_ns)).leases; }

// Of a key: is it read one-sided, and right?
struct Fetched {
    std::string value;
    bool one_sided = false;
};
Fetched fetch(World& world, std::string_view key) {
    const uint64_t before = world.counters().get_onesided.get();
    Fetched fetched;
    fetched.value = world.fetch(key);
    fetched.one_sided = world.counters().get_onesided.get() != before;
    return fetched;
}

void settle(World& world) {
    for (uint64_t page = 0; page < world.node.cache->pages().count(); page++)
        world.node.cache->pages().sweep(page, world.node.now(world.now_ns));
}

void both_suspended() {
    World world;
    world.start();
    world.hold_pointer("k", "value");
    world.hold_pointer("gone", "dead");
    protocol::DeleteOp remove;
    remove.key = world.node.cache->key("gone");
    world.node.cache->remove(remove, world.node.now(world.now_ns));  // its slot is dead, and leased
    tap::ok(world.pointer("k") && leases(world).bytes != 0 && leases(world).dead_slots == 1, "leases are out");
    tap::ok(fetch(world, "k").one_sided, "and used");

    world.now_ns += hour;
    tap::ok(!world.pointer("k"), "an hour later no pointer is valid here");
    tap::is(leases(world).bytes, 0u, "nor a lease there");
    settle(world);
    tap::ok(leases(world).dead_slots == 0 && leases(world).dead_bytes == 0, "and the memory of dead slots is free");
    world.pump();
    Fetched now = fetch(world, "k");
    tap::ok(now.value == "value" && !now.one_sided, "the node is asked");
    now = fetch(world, "k");
    tap::ok(now.value == "value" && now.one_sided, "and grants a new lease");
    tap::ok(leases(world).bytes != 0, "that both know of");
}

// Either host's clock, and so both, may have gone on by an hour before a frame from the other arrives.
void one_after_the_other() {
    World world;
    world.start();
    world.hold_pointer("k", "value");
    world.node.zero_ns -= hour;  // the node is an hour ahead of what was known
    tap::is(leases(world).bytes, 0u, "a node that was suspended keeps nothing leased");
    world.now_ns += hour;
    world.node.zero_ns += hour;  // this side, too
    tap::is(fetch(world, "k").value, "value", "and serves a proxy suspended as long");
}

// This side's clock stood still for an hour: it takes pointers for valid whose memory was reused long ago.
void proxy_halted() {
    World world;
    world.start();
    int wrong = 0, refused_reads = 0;
    for (int i = 0; i < 40; i++) world.hold_pointer("k" + std::to_string(i), "value " + std::to_string(i));
    world.node.zero_ns -= hour;
    const NodeSeconds later = world.node.now(world.now_ns);
    for (int i = 0; i < 40; i++) {  // by others: changed, deleted, and all their memory used again
        const std::string key = "k" + std::to_string(i);
        protocol::StoreOp op;
        op.key = world.node.cache->key(key);
        op.value = "newer";
        if (i % 2 == 0) world.node.cache->store(op, later);
        protocol::DeleteOp remove;
        remove.key = op.key;
        if (i % 2 != 0) world.node.cache->remove(remove, later);
    }
    settle(world);
    for (int i = 0; i < 200'000; i++) {
        const std::string key = "filler" + std::to_string(i);
        protocol::StoreOp op;
        op.key = world.node.cache->key(key);
        op.value = "filled with";
        world.node.cache->store(op, later);
    }
    for (int i = 0; i < 40; i++) {
        const std::string key = "k" + std::to_string(i);
        const bool held = world.pointer(key).has_value();
        const Fetched now = fetch(world, key);
        if (held && !now.one_sided) refused_reads++;
        if (!now.value.empty() && (now.value != "newer" || i % 2 != 0)) wrong++;
    }
    tap::ok(refused_reads >= 20, "a halted proxy holds pointers, and refuses those to replaced items");
    tap::is(wrong, 0, "and gets the current values");
}

// The node's clock stood still: it keeps memory for longer than need be, and items live longer.
void node_halted() {
    World world;
    world.start();
    world.hold_pointer("k", "value");
    const uint32_t before = world.node.now(world.now_ns);
    world.now_ns += hour;
    world.node.zero_ns += hour;
    tap::is(world.node.now(world.now_ns), before, "a node that was halted");
    tap::ok(!world.pointer("k") && leases(world).bytes != 0, "keeps memory without readers");
    const Fetched now = fetch(world, "k");
    tap::ok(now.value == "value" && !now.one_sided, "and is asked");
}

// The estimate of the node's clock survives an hour of sleep on both sides, and is learned again after one side stood
// still.
void node_clock_estimate() {
    constexpr int64_t host_zero_ns = start_ns;
    proxy::NodeClockEstimate clock(host_zero_ns);
    const auto reading = [](uint64_t ns, uint64_t ahead_s) {
        return NodeReading{NodeSeconds(ns / second + ahead_s), uint32_t(ns % second / 1000)};
    };
    uint64_t now = start_ns + 10 * second;
    clock.greeted(reading(now, 40), now - ms, now + ms);
    const NodeSeconds moment = clock.to_node(7200);
    now += hour;
    tap::ok(clock.latest(now) >= now / second + 40, "after an hour's sleep its clock is not behind what it can be");
    tap::ok(clock.earliest(now) <= now / second + 40, "nor ahead");
    clock.saw(reading(now, 40), now - ms, now + ms);
    tap::is(clock.to_node(7200), moment, "if both slept, a moment there is the same as before");
    clock.saw(reading(now + second, 40 + 3600), now + second - ms, now + second + ms);
    now += second;
    const auto stands = [&](uint64_t ahead_s) {
        return clock.latest(now) >= now / second + ahead_s && clock.earliest(now) <= now / second + ahead_s &&
               clock.latest(now) - clock.earliest(now) <= 2;
    };
    tap::ok(stands(40 + 3600), "if this host stood still alone, the other's clock is learned at once");
    tap::is(clock.to_node(7200), moment + 3600, "and so are moments there");
    now += 20 * second;
    clock.saw(reading(now, 40), now - ms, now + ms);
    tap::ok(stands(40) && clock.to_node(7200) == moment, "if the other one did, too");
}

}  // namespace

int main() {
    both_suspended();
    one_after_the_other();
    proxy_halted();
    node_halted();
    node_clock_estimate();
    return tap::done();
}
