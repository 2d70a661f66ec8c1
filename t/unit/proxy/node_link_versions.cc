// SPDX-License-Identifier: BSD-3-Clause
// A link to a node of an older version: served two-sided (S18), until the node is updated.
#include <string>
#include <vector>

#include "t/unit/proxy/link_fixture.h"

using namespace link_test;
using proxy::LinkDown;

namespace {

// A node from before writes in place: greeted in its version, asked for every key, sent no reports (S18).
void node_of_before() {
    proxy::LinkConfig config = link_config();
    config.probe_index = true;
    config.report_interval_ns = second;
    World world(config);
    world.node.of_before = true;
    world.start();
    tap::ok(world.link->up(), "a node of the version before is up");
    tap::is(world.node.greetings_refused, 1u, "though it refused the newest versions first");
    tap::is(world.connections, 2, "over a second connection");
    tap::is(world.downs.size(), 0u, "and no failure is reported");
    tap::is(world.watching, 1, "one descriptor is watched");
    tap::is(world.link->welcome().version, 3u, "its version is in use");
    tap::ok(world.link->welcome().regions.empty(), "its regions are ignored");
    tap::ok(world.link->mapped_region() == nullptr, "nor mapped");
    tap::ok(world.store("k", "value") && world.store("large", std::string(300'000, 'l')), "values are stored there");
    for (int i = 0; i < 5; i++) tap::is(world.fetch("k"), "value", "and read");
    tap::is(world.fetch("large"), std::string(300'000, 'l'), "whatever their size");
    protocol::ArithOp number;
    world.store("n", "5");
    number.key = {"n", 0};
    number.delta = 2;
    number.lease = true;
    world.link->requests().ask(number, world.options(1), world.sink);
    world.pump();
    tap::is(world.sink.reply<protocol::ArithReply>(1).value, 7u, "a number is counted");
    world.advance(3 * second);
    world.pump();
    tap::is(world.counters().get_onesided.get() + world.counters().get_index.get(), 0u, "nothing was read one-sided");
    tap::is(world.counters().lease_granted.get(), 0u, "no lease was taken,");
    tap::is(world.node.grants_wanted, 0u, "none asked for,");
    tap::is(world.node.accesses.size() + world.node.reports, 0u, "nothing reported");
    tap::is(world.node.bad_frames, 0u, "and no frame that it does not know");
    world.node.of_before = false;
    world.node.restart();
    world.wire->end = fabric::ChannelEnd::reset;
    world.pump();
    world.advance(100 * ms);
    world.pump();
    tap::is(world.link->welcome().version, protocol::protocol_version, "updated, it is greeted as what it is at once");
    world.hold_pointer("k", "value");
    tap::is(world.fetch("k"), "value", "a key is there");
    tap::ok(world.counters().get_onesided.get() + world.counters().get_index.get() > 0, "and read one-sided");

    World slow;
    slow.node.of_before = true;
    slow.start();
    slow.node.mute = true;
    slow.wire->end = fabric::ChannelEnd::reset;
    slow.pump();
    slow.advance(100 * ms);
    slow.pump();
    slow.advance(link_config().connect_timeout_ns);
    tap::ok(slow.downs.size() == 2 && slow.downs[1].first == LinkDown::connect_timeout,
            "both greetings together have the time that one has");

    World stranger;
    stranger.node.refuse = {protocol::Refusal::layout_mismatch, "node one has item layout version 1"};
    stranger.start();
    tap::is(stranger.connections, 2, "a node that refuses both is not asked a third time");
    tap::ok(stranger.downs.size() == 1 && stranger.downs[0].first == LinkDown::mismatch, "and is a mismatch");
}

// A node names the epoch of a newer list, from a version on.
void newer_list() {
    OutBuffer out;
    protocol::append_epoch(out, 17);
    World world;
    world.start();
    world.hear(out);
    tap::ok(world.newer_lists == std::vector<uint64_t>{17} && world.link->up(), "a node names the epoch of a newer list");
    World older;
    older.node.version = protocol::version_with_newest_epoch - 1;
    older.start();
    tap::is(older.link->welcome().version, older.node.version, "a node of an earlier version is up");
    protocol::append_epoch(out, 17);
    older.hear(out);
    tap::ok(older.newer_lists.empty() && older.downs.size() == 1 && older.downs[0].first == LinkDown::bad_frame,
            "if that one sends an epoch, the connection ends");
}

}  // namespace

int main() {
    node_of_before();
    newer_list();
    return tap::done();
}
