// SPDX-License-Identifier: BSD-3-Clause
// A link with a shortcut to its node: it is used only if the expected run of the node answers there (W5); else the link connects
// without it at once.
#include <string>

#include "t/unit/proxy/link_fixture.h"

using namespace link_test;
using proxy::LinkDown;

namespace {

void expect_node(World& world) {
    world.has_shortcut = true;
    world.shortcut.name = "one";
    world.shortcut.incarnation = world.node.incarnation;
}

void the_expected_node() {
    World world;
    expect_node(world);
    world.start();
    tap::ok(world.link->up() && world.shortcut.taken, "the expected node is up, over the shortcut");
    tap::is(world.connections, 1, "by one connection");
    tap::ok(world.store("k", "value") && world.fetch("k") == "value", "and serves");
    world.node.restart();
    world.wire->end = fabric::ChannelEnd::reset;
    world.pump();
    world.advance(100 * ms);
    world.pump();
    tap::ok(world.link->up() && !world.shortcut.taken, "another run of it is up without the shortcut");
    tap::is(world.connections, 3, "which was tried first");
    tap::is(world.link->welcome().incarnation, world.node.incarnation, "that run is used");
    world.shortcut.incarnation = world.node.incarnation;
    world.wire->end = fabric::ChannelEnd::reset;
    world.pump();
    world.advance(100 * ms);
    world.pump();
    tap::ok(world.link->up() && world.shortcut.taken, "once it is the expected run, the next connection takes the shortcut");
}

// Another node is there, or it does not connect, or does not answer.
void another_node() {
    for (const bool other_name : {false, true}) {
        World world;
        expect_node(world);
        if (other_name) world.shortcut.name = "two";
        else world.shortcut.incarnation++;
        world.start();
        const std::string what = other_name ? "another name: " : "another incarnation: ";
        tap::ok(world.link->up() && !world.shortcut.taken, what + "the node is up without the shortcut");
        tap::is(world.connections, 2, what + "at once");
        tap::is(world.downs.size(), 0u, what + "no failure of the node is reported");
        tap::is(world.failed_shortcuts.size(), 1u, what + "but one of the shortcut");
        tap::is(world.watching, 1, what + "one descriptor is watched");
        tap::is(world.ups, 1, what + "it came up once");
        tap::ok(world.store("k", "value") && world.fetch("k") == "value", what + "the node serves");
    }
    World closed;
    expect_node(closed);
    closed.prepare = [&](Wire& wire) {
        if (closed.shortcut.taken) wire.end = fabric::ChannelEnd::refused;
    };
    closed.start();
    tap::ok(closed.link->up() && closed.connections == 2 && closed.failed_shortcuts.size() == 1, "a shortcut that refuses is left");
    World silent;
    expect_node(silent);
    silent.node.mute = true;
    silent.start();
    silent.advance(link_config().connect_timeout_ns - ms);
    tap::ok(silent.connections == 1 && silent.failed_shortcuts.empty(), "one that is silent has the time of a connection");
    silent.node.mute = false;
    silent.advance(ms);
    silent.pump();
    tap::ok(silent.link->up() && silent.connections == 2 && silent.downs.empty(), "then it is left, too");
}

// Each way fails: the link waits as for any node, and tries both again.
void no_node() {
    World world;
    expect_node(world);
    world.node.refuse = {protocol::Refusal::layout_mismatch, "node one has item layout version 1"};
    world.start();
    tap::is(world.connections, 4, "a node that refuses each version is asked twice on each way");
    tap::ok(world.downs.size() == 1 && world.downs[0].first == LinkDown::mismatch, "and is a mismatch");
    tap::is(world.failed_shortcuts.size(), 1u, "the shortcut failed once");
    World full;
    expect_node(full);
    full.no_channel = true;
    full.start();
    tap::ok(full.downs.size() == 1 && full.downs[0].first == LinkDown::no_channel, "without descriptors the link is down");
    full.no_channel = false;
    full.advance(100 * ms);
    full.pump();
    tap::ok(full.link->up() && full.shortcut.taken, "later it tries the shortcut again");
    World stopped;
    expect_node(stopped);
    stopped.node.mute = true;
    stopped.start();
    stopped.link->stop(stopped.now_ns);
    tap::ok(stopped.connections == 1 && stopped.watching == 0, "a link that is stopped leaves the shortcut");
}

// An older node is expected there, too.
void older_node() {
    World world;
    expect_node(world);
    world.node.of_before = true;
    world.start();
    tap::ok(world.link->up() && world.shortcut.taken && world.connections == 2, "a node of the version before is up over it");
    tap::ok(world.link->mapped_region() == nullptr, "and is not read");
}

}  // namespace

int main() {
    the_expected_node();
    another_node();
    no_node();
    older_node();
    return tap::done();
}
