// SPDX-License-Identifier: BSD-3-Clause
// Replies that stand in slots (fabric::Channel::expect_replies(), looks()): a link reports them as due from before a frame leaves
// until its last answer, and only then.
#include <array>
#include <string>

#include "t/unit/proxy/link_fixture.h"

using namespace link_test;

namespace {

proxy::LinkConfig reporting() {
    proxy::LinkConfig config = link_config();
    config.report_interval_ns = 10 * second;
    config.ping_ns = 0;
    config.seed = 0;
    return config;
}

void requests() {
    World world;
    world.link->start(world.now_ns);
    tap::ok(!world.wire->due, "a connection that is not made yet awaits nothing");
    world.pump();
    tap::ok(world.link->up() && world.wire->due_ever == 0, "nor does a greeting: its welcome is sent");
    const uint64_t greeting = world.wire->sent_while_not_due;
    world.get_unanswered(1, "k");
    tap::ok(world.wire->due, "a request awaits a reply");
    tap::ok(world.wire->sent_while_due == 1 && world.wire->sent_while_not_due == greeting,
            "which the channel knows before the frame leaves");
    world.get_unanswered(2, "j");
    const uint64_t times = world.wire->due_ever;
    world.node.hold = false;
    world.node.serve(*world.wire, world.now_ns);
    tap::ok(world.wire->due, "until the link has taken it");
    world.link->ready(world.now_ns);
    tap::ok(!world.wire->due && world.sink.has(1) && world.sink.has(2), "then no longer");
    tap::is(world.wire->due_ever, times, "and were due all the time");

    world.node.hold = true;
    world.get(3, "k", second);
    world.link->flush(world.now_ns);
    world.advance(2 * second);
    world.link->flush(world.now_ns);
    tap::ok(world.sink.failed_as(3, proxy::AskFailure::timed_out) && world.wire->due, "a timeout leaves the reply due");
    world.node.hold = false;
    world.pump();
    tap::ok(!world.wire->due, "until it comes");

    world.node.hold = true;
    world.get(4, "k", second);
    world.link->flush(world.now_ns);
    const auto wire = world.wire;
    wire->end = fabric::ChannelEnd::reset;
    world.link->ready(world.now_ns);
    tap::ok(!world.link->up(), "after the end of a connection");
    world.link->flush(world.now_ns);
    tap::is(wire->told_after_end, 0u, "its channel gets no further call");
    world.node.hold = false;
}

void reads() {
    World world;
    world.start();
    world.hold_pointer("k", "value");
    const uint64_t times = world.wire->due_ever;
    world.get(1, "k");
    world.link->flush(world.now_ns);
    tap::is(world.wire->posted.size(), 1u, "a GET by a pointer");
    tap::ok(!world.wire->due && world.link->only_reads(), "awaits no reply");
    world.pump();
    tap::ok(world.sink.has(1) && world.wire->due_ever == times, "from its beginning to its end");
    tap::ok(!world.link->only_reads(), "an idle link has no READ under way");
    world.wire->looks = true;
    tap::ok(world.link->only_reads(), "unless its channel looks for replies");
    world.get_unanswered(2, "other");
    tap::ok(world.link->only_reads(), "also while a request awaits one");
    world.wire->looks = false;
    tap::ok(!world.link->only_reads(), "a channel that does not look need not be polled for it");
    world.node.hold = false;
    world.pump();
}

// The node sends what it replies to a report, and what it says by itself.
void reports_and_pings() {
    World world(reporting());
    world.start();
    world.hold_pointer("k", "value");
    world.fetch("k");
    const uint64_t times = world.wire->due_ever;
    world.node.hold_reports = true;
    for (int ticks = 0; ticks < 20 && world.node.reports == 0; ticks++) {
        world.advance(second);
        world.pump();
    }
    tap::ok(world.node.reports == 1 && !world.wire->due, "a report without an answer awaits no reply in a slot");
    OutBuffer out;
    protocol::append_reported(out, world.node.report_number, 0, std::array<uint32_t, 1>{world.node.term_ms});
    world.hear(out);
    tap::ok(world.wire->due_ever == times && world.link->up(), "nor does its answer");

    proxy::LinkConfig config = link_config();
    World pinging(config, false);
    pinging.start();
    pinging.advance(config.ping_ns);
    pinging.link->flush(pinging.now_ns);
    tap::ok(pinging.wire->due, "a ping awaits its pong");
    pinging.pump();
    tap::ok(pinging.node.pings == 1 && !pinging.wire->due, "until it comes");
    pinging.hear_goodbye(protocol::Goodbye::stopping, "going");
    tap::ok(!pinging.wire->due, "a goodbye awaits nothing");
}

}  // namespace

int main() {
    requests();
    reads();
    reports_and_pings();
    return tap::done();
}
