// SPDX-License-Identifier: BSD-3-Clause
// How a link reports its READs. It counts them at the node where the channel can, or reports them in front of the next
// requests. Statistics account for each posted READ.
#include <string>

#include "t/unit/proxy/link_fixture.h"

using namespace farcached;
using namespace link_test;

namespace {

proxy::LinkConfig counting(bool probe_index) {
    proxy::LinkConfig config = link_config();
    config.count_reads = true;
    config.probe_index = probe_index;
    return config;
}

// A get of a key that can be read, and which of its READs were to be counted: a letter for each.
std::string counted_of_get(World& world, std::string_view key, bool no_bump = false) {
    std::string counted;
    protocol::GetOp op = World::get_op(key);
    op.no_bump = no_bump;
    const uint64_t ticket = world.tickets++;
    proxy::AskOptions with = world.options(ticket);
    with.one_sided = true;
    world.link->requests().get(op, with, world.sink, world.now_ns);
    for (int round = 0; round < 8 && !world.sink.has(ticket); round++) {
        for (const fabric::ReadRequest& one : world.wire->posted) counted += one.count ? 'c' : '-';
        world.complete_all();
        world.link->ready(world.now_ns);
    }
    tap::ok(world.sink.has(ticket) && world.sink[ticket].one_sided, "a get that is answered one-sided");
    return counted;
}

void told_or_counted() {
    World counts(counting(false));
    counts.prepare = [](Wire& wire) { wire.counts = true; };
    counts.start();
    counts.hold_pointer("k", "value");
    tap::is(counted_of_get(counts, "k"), "c", "a READ by a pointer is counted at the node");
    tap::is(counted_of_get(counts, "k", true), "-", "unless it is to leave no trace");
    counts.store("other", "value");
    tap::is(counts.node.accesses.size(), 0u, "and no report repeats it");
    tap::is(counts.counters().accesses_sent.get(), 0u, "accesses_sent");

    World index(counting(true));
    index.prepare = [](Wire& wire) { wire.counts = true; };
    index.start();
    index.store("k", "value");
    index.table().forget(index.hash("k"), index.node.incarnation);
    const std::string first = counted_of_get(index, "k");
    tap::ok(first.ends_with("-c") && first.find('c') == first.size() - 1, "by the index, only the item's is");
    tap::note("%s", first.c_str());

    World cannot(counting(false));
    cannot.start();
    cannot.hold_pointer("k", "value");
    tap::is(counted_of_get(cannot, "k"), "-", "a channel that cannot is not asked to");
    cannot.store("other", "value");
    tap::is(cannot.node.accesses.size(), 1u, "then the node gets a report");

    World never;
    never.prepare = [](Wire& wire) { wire.counts = true; };
    never.start();
    never.hold_pointer("k", "value");
    tap::is(counted_of_get(never, "k"), "-", "nor is one that can, without the option");
    never.store("other", "value");
    tap::is(never.node.accesses.size(), 1u, "the node gets a report");
}

uint64_t over(const proxy::LinkCounters& c) {
    return c.reads_completed.get() + c.reads_failed_transport.get() + c.reads_failed_owner.get() +
           c.reads_failed_lost.get();
}

void accounted() {
    World world(counting(false));
    world.start();
    for (const char* key : {"a", "b", "c", "d", "e"}) world.hold_pointer(key, "value");
    const proxy::LinkCounters& c = world.counters();
    tap::ok(c.reads_posted.get() == over(c), "nothing is under way");
    const uint64_t before = c.reads_posted.get(), completed = c.reads_completed.get();
    for (const char* key : {"a", "b", "c", "d", "e"}) world.get(world.tickets++, key, 10 * second);
    tap::is(c.reads_posted.get(), before + 5, "reads_posted");
    tap::is(c.reads_posted.get() - over(c), world.wire->posted.size(), "what is not over is under way");
    world.complete(0);
    world.complete(0, fabric::ReadStatus::failed);
    world.complete(0, fabric::ReadStatus::owner_dead);
    world.link->ready(world.now_ns);
    tap::is(c.reads_completed.get(), completed + 1, "reads_completed");
    tap::is(c.reads_failed_transport.get(), 1u, "reads_failed_transport");
    tap::is(c.reads_failed_owner.get(), 1u, "reads_failed_owner");
    tap::is(c.reads_posted.get() - over(c), 2u, "two are under way");
    world.advance(500 * ms);
    world.wire->end = fabric::ChannelEnd::reset;
    world.pump();
    tap::is(c.reads_failed_lost.get(), 2u, "reads_failed_lost");
    tap::is(c.reads_posted.get(), over(c), "posted = completed + failed");
}

}  // namespace

int main() {
    told_or_counted();
    accounted();
    return tap::done();
}
