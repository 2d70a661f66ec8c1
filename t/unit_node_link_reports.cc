// SPDX-License-Identifier: BSD-3-Clause
// Reports: the node hears of one-sided hits every interval though it is not asked anything, of those that matter, in so
// many bytes; and of each access once.
#include <algorithm>
#include <map>
#include <string>

#include "t/link_fixture.h"

using namespace farcached;
using namespace link_test;

namespace {

constexpr uint64_t interval = 10 * second;

proxy::LinkConfig reporting() {
    proxy::LinkConfig config = link_config();
    config.report_interval_ns = interval;
    config.ping_ns = 0;
    config.seed = 0;
    return config;
}

// How often each item was accessed, as the node heard since it was asked last.
std::map<uint64_t, uint32_t> heard(World& world) {
    std::map<uint64_t, uint32_t> counts;
    for (const protocol::AccessRecord& record : world.node.accesses) counts[record.hash] += record.count;
    world.node.accesses.clear();
    return counts;
}

// As long as the link wants to be called before then, at the times that it wants.
void upto(World& world, uint64_t at_ns) {
    for (int calls = 0; calls < 20 && world.link->next_tick_ns() <= at_ns; calls++) {
        world.advance(std::max(world.link->next_tick_ns(), world.now_ns) - world.now_ns);
        world.pump();
    }
    world.advance(at_ns - world.now_ns);
    world.pump();
}

// The next report is made then.
void upto_report(World& world, uint64_t at_ns) {
    upto(world, at_ns - 1);
    tap::is(world.node.accesses.size(), 0u, "no report before its time");
    tap::is(world.link->next_tick_ns(), at_ns, "it is to come");
    upto(world, at_ns);
}

void told_unasked() {
    World world(reporting());
    world.start();
    const uint64_t up_ns = world.now_ns;
    tap::is(world.link->next_tick_ns(), UINT64_MAX, "nothing was read: there is nothing to do, ever");
    world.hold_pointer("k", "value");
    world.hold_pointer("j", "other");
    for (int i = 0; i < 7; i++) world.fetch("k");
    world.fetch("j");
    const uint64_t frames = world.node.frames;
    tap::is(world.counters().get_onesided.get(), 8u, "one-sided hits");
    world.store("other", "value");
    tap::is(world.node.accesses.size(), 0u, "are not told with requests");
    upto_report(world, up_ns + interval);
    tap::is(world.node.frames, frames + 1, "but one interval after the greeting, with no request");
    const auto first = heard(world);
    tap::ok(first.size() == 2 && first.at(world.hash("k")) == 7 && first.at(world.hash("j")) == 1,
            "it hears of each item, and how often");
    tap::is(world.node.bad_frames, 0u, "in good frames");
    const proxy::LinkCounters& c = world.counters();
    tap::is(c.reports_sent.get(), 1u, "reports_sent");
    tap::is(c.report_items.get(), 2u, "report_items");
    tap::is(c.report_bytes.get(), sizeof(protocol::FrameHeader) + 2 * sizeof(protocol::AccessRecord), "report_bytes");
    tap::is(c.accesses_sent.get(), 8u, "accesses_sent");
    tap::ok(c.arc_t1.get() == 1 && c.arc_t2.get() == 1 && c.arc_b1.get() + c.arc_b2.get() == 0, "arc_t1, arc_t2");

    tap::is(world.link->next_tick_ns(), UINT64_MAX, "then there is nothing to tell");
    upto(world, up_ns + 2 * interval - second);
    tap::is(world.counters().reports_sent.get(), 1u, "and nothing is told");
    world.fetch("k");  // its lease is over, and granted anew
    world.store("j", "another");
    world.fetch("k");
    upto_report(world, up_ns + 2 * interval);
    tap::ok(heard(world) == std::map<uint64_t, uint32_t>{{world.hash("k"), 1}}, "only of what was accessed since");
    tap::is(c.arc_t2.get(), 1u, "a gauge");
}

// By whoever maps the region; more items than a report holds.
void bounded() {
    World world(reporting());
    world.start();
    world.hold_pointer("k", "value");
    const fabric::RemotePtr at = world.pointer("k")->ptr;
    const uint64_t many = 1000, up_ns = world.now_ns;
    tap::ok(world.link->note_access(1, at.generation, at.offset, 0), "the first says that there is something to report");
    for (uint64_t i = 2; i <= many; i++)
        if (world.link->note_access(i, at.generation, at.offset, 0)) tap::ok(false, "the others do not");
    const uint64_t each = (8192 - sizeof(protocol::FrameHeader)) / sizeof(protocol::AccessRecord);
    std::map<uint64_t, uint32_t> all;
    for (uint64_t report = 1; report * each < many; report++) {
        upto_report(world, up_ns + report * interval);
        const auto now = heard(world);
        tap::is(now.size(), each, "as many as fit into 8 KiB");
        tap::ok(now.rbegin()->first == many - (report - 1) * each, "the most recent");
        all.insert(now.begin(), now.end());
    }
    upto_report(world, up_ns + (many / each + 1) * interval);
    all.merge(heard(world));
    tap::is(all.size(), many, "in the end each was told of");
    tap::ok(world.counters().report_bytes.get() <= 8192 * world.counters().reports_sent.get(), "in 8 KiB each at most");
    tap::is(world.counters().accesses_sent.get(), many, "once");
}

// Neither a transport that takes nothing nor the end of a connection lets an access be told twice, or uncounted.
void troubled() {
    proxy::LinkConfig config = reporting();
    config.unsent_bytes_max = 1;
    config.silence_ns = 100 * second;
    World world(config);
    world.start();
    const uint64_t up_ns = world.now_ns;
    world.hold_pointer("k", "value");
    world.fetch("k");
    world.hold_pointer("j", "value");
    world.wire->takes_bytes = 0;
    world.get(1, "none", 100 * second);
    world.link->flush(world.now_ns);
    upto(world, up_ns + interval);
    tap::is(world.counters().reports_sent.get(), 0u, "no report is put behind what the transport does not take");
    world.wire->takes_bytes = SIZE_MAX;
    world.pump();
    upto_report(world, up_ns + 2 * interval);
    tap::is(world.counters().reports_sent.get(), 1u, "it is put off, and made when there is room");

    for (const char* key : {"k", "j"}) world.fetch(key);  // which grants j a new lease; the report renewed k's
    for (const char* key : {"k", "k", "j"}) world.fetch(key);
    const uint64_t dropped = world.counters().accesses_dropped.get();
    protocol::DeleteOp remove;
    remove.key = {"j", 0};
    world.link->ask(remove, world.options(2), world.sink);
    world.pump();
    tap::is(world.counters().accesses_dropped.get(), dropped + 1, "what is deleted is not reported");
    world.wire->end = fabric::ChannelEnd::reset;
    world.link->ready(world.now_ns);
    tap::is(world.counters().accesses_dropped.get(), dropped + 4, "nor what is untold when the connection ends");
    tap::is(world.counters().arc_t1.get() + world.counters().arc_t2.get(), 0u, "it is forgotten");
    const proxy::LinkCounters& c = world.counters();
    tap::is(c.accesses_sent.get() + c.accesses_dropped.get(), c.get_onesided.get(), "each is counted once");
}

void not_at_once() {
    std::map<uint64_t, int> firsts;
    for (uint64_t seed = 0; seed < 8; seed++) {
        proxy::LinkConfig config = reporting();
        config.seed = seed * 1'234'567'890'123'457;
        World world(config);
        world.start();
        world.hold_pointer("k", "value");
        world.fetch("k");
        const uint64_t up_ns = world.now_ns;
        upto(world, up_ns + interval / 2 - 1);
        tap::is(world.node.accesses.size(), 0u, "no first report too early");
        firsts[world.link->next_tick_ns() - up_ns]++;
        upto(world, up_ns + interval);
        tap::is(world.node.accesses.size(), 1u, "but in time");
    }
    tap::is(firsts.size(), 8u, "links do not report all at once");
}

}  // namespace

int main() {
    told_unasked();
    bounded();
    troubled();
    not_at_once();
    return tap::done();
}
