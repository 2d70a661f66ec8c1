// SPDX-License-Identifier: BSD-3-Clause
// The connection between one worker and one node: greeting and refusals, every operation, values in pieces both ways,
// timeouts, back-pressure, reconnecting. Faults of nodes are in t/unit/proxy/node_link_ends.cc, one-sided reads in
// t/unit/proxy/node_link_reads.cc.
#include <string>

#include "t/unit/proxy/link_fixture.h"

using namespace link_test;
using proxy::AskResult;
using proxy::AskFailure;
using proxy::LinkDown;
using proxy::LinkState;

namespace {

void greeting() {
    World world;
    tap::ok(world.get(1, "k") == AskResult::down, "before it is started nothing can be asked");
    world.start();
    tap::ok(world.link->up(), "a node that greets is up");
    tap::is(world.ups, 1, "which is reported once");
    tap::is(world.watching, 1, "its descriptor is watched");
    tap::is(world.link->welcome().name, "one", "its facts are known");
    world.link->stop(world.now_ns);
    tap::is(world.watching, 0, "and is not after the stop");
    tap::is(world.node.goodbyes, 0u, "(the goodbye is on its way)");
    world.node.serve(*world.wire, world.now_ns);
    tap::is(world.node.goodbyes, 1u, "the node received the goodbye");
    world.start();
    tap::ok(world.link->up(), "it can be started again");
}

void mismatch() {
    World world;
    world.node.refuse = {protocol::Refusal::protocol_mismatch, "node one speaks 7, proxy speaks 1"};
    world.start();
    tap::ok(world.link->state() == LinkState::waiting, "a node that refuses is not up");
    const uint64_t first = world.link->next_tick_ns() - world.now_ns;
    tap::ok(first >= 30 * second && first <= 60 * second, "it is tried again after a long time only");
    for (int i = 0; i < 5; i++) {
        world.now_ns = world.link->next_tick_ns();
        world.link->tick(world.now_ns);
        world.pump();
    }
    tap::is(world.connections, 12, "it was tried again, each time as of this version and of the one before,");
    tap::is(world.downs.size(), 1u, "and its message reported once");
    tap::is(world.downs[0].second, "node one speaks 7, proxy speaks 1", "in the node's words");
    tap::ok(world.downs[0].first == LinkDown::mismatch, "under its name");
    world.node.refuse.reset();
    world.advance(60 * second);
    world.pump();
    tap::ok(world.link->up(), "until it agrees");

    World other;
    other.node.layout_version = 99;
    other.start();
    tap::ok(other.downs.size() == 1 && other.downs[0].first == LinkDown::mismatch,
            "a welcome to another layout is a mismatch too");
    World full;
    full.node.refuse = {protocol::Refusal::full, ""};
    full.start();
    tap::ok(full.downs.size() == 1 && full.downs[0].first == LinkDown::refused, "a full node refuses");
    tap::ok(full.link->next_tick_ns() - full.now_ns <= 50 * ms, "and is tried again soon");
}

void reconnecting() {
    proxy::LinkConfig config = link_config();
    World world(config);
    world.prepare = [](Wire& wire) { wire.end = fabric::ChannelEnd::refused; };
    world.start();
    bool within = true;
    uint64_t longest = config.reconnect.first_ns;
    for (int i = 0; i < 12; i++) {
        const uint64_t wait = world.link->next_tick_ns() - world.now_ns;
        within = within && wait >= longest / 2 && wait <= longest;
        longest = std::min(2 * longest, config.reconnect.longest_ns);
        world.now_ns = world.link->next_tick_ns() - 1;
        world.link->tick(world.now_ns);
        if (world.connections != i + 1) within = false;
        world.advance(1);
        world.pump();
    }
    tap::ok(within, "the time between two tries doubles up to a bound, with a random part");
    tap::is(world.connections, 13, "each try is exactly then");
    tap::is(world.downs.size(), 1u, "an unchanged reason is reported once");
    tap::is(world.counters().downs[size_t(LinkDown::channel_ended)].get(), 13u, "and counted always");
    world.prepare = nullptr;
    world.advance(2 * second);
    world.pump();
    tap::ok(world.link->up(), "it comes up when it can");
    tap::is(world.counters().node_reconnects.get(), 0u, "which is no reconnect: it never was");
    world.advance(6 * second);
    world.wire->end = fabric::ChannelEnd::reset;
    world.pump();
    tap::ok(world.link->next_tick_ns() - world.now_ns <= config.reconnect.first_ns,
            "after it was up for a while, the next failure is the first");
    tap::is(world.downs.size(), 2u, "and reported");
    world.advance(100 * ms);
    world.pump();
    tap::is(world.counters().node_reconnects.get(), 1u, "now it is a reconnect");

    World silent;
    silent.node.mute = true;
    silent.start();
    silent.advance(config.connect_timeout_ns - 1);
    tap::ok(silent.link->state() == LinkState::greeting, "a node has time to greet,");
    silent.advance(1);
    tap::ok(silent.downs.size() == 1 && silent.downs[0].first == LinkDown::connect_timeout, "not forever");
    World none;
    none.no_channel = true;
    none.start();
    tap::ok(none.downs.size() == 1 && none.downs[0].second == "no more descriptors", "no channel: reported");
    none.no_channel = false;
    none.advance(second);
    none.pump();
    tap::ok(none.link->up(), "and tried again");
}

void operations() {
    World world(link_config(), /* one_sided= */ false);
    world.start();
    tap::ok(world.store("k", "value"), "set");
    tap::is(world.fetch("k"), "value", "get");
    tap::is(world.sink[1'000'001].one_sided, false, "two-sided without a table");
    world.link->requests().ask(World::get_op("none"), world.options(1), world.sink);
    protocol::StoreOp add = World::set_op("k", "other");
    add.mode = protocol::StoreOp::Mode::add;
    world.link->requests().ask(add, world.options(2), world.sink);
    world.store("n", "41");
    protocol::ArithOp incr;
    incr.key = {"n", 0};
    world.link->requests().ask(incr, world.options(3), world.sink);
    protocol::DeleteOp remove;
    remove.key = {"k", 0};
    world.link->requests().ask(remove, world.options(4), world.sink);
    world.link->requests().ask(World::get_op("k"), world.options(5), world.sink);
    world.link->requests().ask(protocol::ForgetOp{{"n", 0}}, world.options(6), world.sink);
    world.link->requests().ask(World::get_op("n"), world.options(7), world.sink);
    world.link->requests().ask(protocol::StatsOp{"some"}, world.options(8), world.sink);
    world.link->requests().ask(protocol::StatsOp{"none"}, world.options(9), world.sink);
    const uint64_t frames = world.node.frames;
    world.pump();
    tap::is(world.node.frames, frames + 1, "what a tick asks goes in one frame");
    using protocol::Miss;
    tap::ok(world.sink.reply<protocol::GetReply>(1).why == Miss::absent, "a miss");
    tap::ok(world.sink.reply<protocol::StoreReply>(2).status == protocol::StoreReply::Status::not_stored,
            "add of what exists");
    tap::is(world.sink.reply<protocol::ArithReply>(3).value, 42u, "incr");
    tap::ok(world.sink.reply<protocol::DeleteReply>(4).status == protocol::DeleteReply::Status::deleted,
            "delete");
    tap::ok(world.sink.reply<protocol::GetReply>(5).status == protocol::GetReply::Status::miss,
            "in the order of the requests");
    tap::ok(world.sink.reply<protocol::GetReply>(7).status == protocol::GetReply::Status::miss, "forget");
    tap::is(world.sink[8].value, std::string(20, 's'), "stats");
    tap::ok(world.sink.failed_as(9, AskFailure::refused), "stats that there are not: refused");
    tap::ok(world.sink[9].why.refusal == protocol::RequestRefusal::stats_unknown, "with the reason");

    world.store("f", "value");
    world.link->requests().ask(protocol::FlushOp{}, world.options(10), world.sink);
    world.pump();
    tap::ok(std::holds_alternative<protocol::DoneReply>(world.sink[10].op), "flush");
    tap::is(world.fetch("f"), "", "flushes");
    bool once = true;
    for (const auto& [ticket, told] : world.sink.by_ticket) once = once && told.times == 1;
    tap::ok(once, "each was answered once");
}

// Requests that a node before version 3 does not know.
void deletes_by_prefix() {
    World world;
    world.start();
    for (const char* key : {"pk", "k"}) world.link->requests().ask(World::set_op(key, "value"), world.options(1), world.sink);
    world.pump();
    tap::ok(world.link->requests().ask(protocol::FlushOp{std::nullopt, "p"}, world.options(2), world.sink) ==
                AskResult::accepted,
            "a delete by prefix");
    world.pump();
    tap::ok(std::holds_alternative<protocol::DoneReply>(world.sink[2].op), "is done");
    tap::ok(world.fetch("pk").empty() && world.fetch("k") == "value", "to what begins so");
    World older;
    older.node.version = protocol::version_with_prefix_deletes - 1;
    older.start();
    tap::ok(older.link->requests().ask(protocol::FlushOp{std::nullopt, "p"}, older.options(1), older.sink) == AskResult::down,
            "a node that does not know it is not asked");
    tap::is(older.counters().node_too_old.get(), 1u, "which is counted");
    tap::ok(older.link->requests().ask(protocol::FlushOp{}, older.options(2), older.sink) == AskResult::accepted,
            "but a flush it knows");
    older.pump();
}

// A time at a node of this version; the clocks are 1134.3 seconds apart.
void times(uint32_t version) {
    World world(link_config(), false);
    world.node.version = version;
    world.start();
    tap::is(world.link->welcome().version, version, "a node of version " + std::to_string(version));
    const NodeSeconds offset = world.link->clock().to_node(100) - 100;
    tap::is(offset, 1135u, "how far ahead it is, rounded up");
    const NodeSeconds host_now = 100;  // link_config: this process's clock reads it at start_ns
    protocol::StoreOp op = World::set_op("k", "value");
    op.exptime = host_now + 50;
    world.link->requests().ask(op, world.options(1), world.sink);
    world.pump();
    tap::is(world.sink.reply<protocol::StoreReply>(1).exptime, host_now + 50, "a time comes back as it went");
    protocol::GetOp get = World::get_op("k");
    get.touch = host_now + 70;
    world.link->requests().ask(get, world.options(2), world.sink);
    world.pump();
    tap::is(world.sink.reply<protocol::GetReply>(2).meta.exptime, host_now + 70, "of a touch too");
    world.link->requests().ask(protocol::FlushOp{host_now + 9}, world.options(3), world.sink);
    world.pump();
    const uint64_t flush_ns = world.node.zero_ns + *world.node.flushed_at * second;
    const uint64_t meant_ns = uint64_t(link_config().host_zero_ns) + (host_now + 9) * second;
    const uint64_t late_ns = (version == 1 ? 2 : 1) * second;
    tap::ok(flush_ns >= meant_ns && flush_ns < meant_ns + late_ns, "at the node it is the same moment");
    op.exptime = long_expired;
    world.link->requests().ask(op, world.options(4), world.sink);
    world.pump();
    tap::is(world.fetch("k"), "", "long ago stays long ago");
    op.exptime = never_expires;
    world.link->requests().ask(op, world.options(5), world.sink);
    world.pump();
    world.advance(100'000 * second);
    world.pump();
    tap::is(world.sink.reply<protocol::StoreReply>(5).exptime, never_expires, "and never, never");
}

void pieces() {
    World world(link_config(), false);
    world.node.frame_bytes_max = 8192;
    world.start();
    std::string large(1'000'000, 'x');
    for (size_t i = 0; i < large.size(); i++) large[i] = char('a' + i % 23);
    tap::ok(world.store("large", large), "a value of many frames is stored");
    tap::ok(world.fetch("large") == large, "and comes back");
    tap::ok(world.sink[1'000'001].owned, "in memory that the receiver may own");
    tap::is(world.counters().values_sent.get(), 1u, "counted on its way there");
    tap::is(world.counters().values_received.get(), 1u, "and back");
    world.link->requests().ask(protocol::StatsOp{"long"}, world.options(1), world.sink);
    world.pump();
    tap::is(world.sink[1].value.size(), 300'000u, "so is a long text");

    // A transport that takes little at a time; small requests go between the pieces.
    world.wire->takes_bytes = 5000;
    world.set(2, "large", large);
    world.link->flush(world.now_ns);
    tap::ok(world.link->requests().bytes_under_way() < large.size() + 4 * 8192, "no more is copied than two frames");
    world.set(3, "small", "s");
    world.pump();
    tap::ok(world.sink.has(2) && world.sink.has(3), "both are answered");
    const auto& order = world.sink.by_ticket;
    tap::ok(!order.at(2).failed && !order.at(3).failed, "and stored");
    tap::ok(world.fetch("large") == large, "whole");

    // Requests that could overtake a value in pieces wait.
    world.set(4, "large", std::string(50'000, 'n'));
    tap::ok(world.get(5, "large") == AskResult::ordered, "a get of its key waits");
    tap::ok(world.set(5, "large", "x") == AskResult::ordered, "a set too");
    tap::ok(world.link->requests().ask(protocol::FlushOp{}, world.options(5), world.sink) == AskResult::ordered, "a flush too");
    tap::ok(world.get(6, "small") == AskResult::accepted, "another key does not");
    const int rooms = world.rooms;
    world.pump();
    tap::ok(world.rooms > rooms, "a waiting request is notified after it");
    tap::is(world.fetch("large"), std::string(50'000, 'n'), "and gets the new value");
}

// Values that the node READs.
void lent_values() {
    World world(link_config(), false);
    world.node.frame_bytes_max = 8192;
    world.prepare = [](Wire& wire) { wire.lends = 200'000; };
    world.start();
    std::string large(150'000, 'x');
    for (size_t i = 0; i < large.size(); i++) large[i] = char('a' + i % 23);
    tap::ok(world.store("k", large) && world.fetch("k") == large, "a large value is stored by a READ of the node's");
    tap::is(world.node.lents.size(), size_t(1), "announced in one frame");
    tap::is(world.counters().values_lent.get(), 1u, "and counted");
    tap::is(world.lending().lent_bytes(), size_t(0), "its buffer is back");
    tap::ok(world.store("k", std::string(200'001, 'y')) && world.node.lents.size() == 1, "a longer one goes in pieces");
    tap::is(world.fetch("k"), std::string(200'001, 'y'), "whole");

    world.node.reads_lent = false;
    tap::ok(world.store("k", large) && world.fetch("k") == large, "what the node does not READ goes in pieces");
    tap::is(world.counters().values_unlent.get(), 1u, "which is counted");
    world.node.reads_lent = true;

    // There are only two buffers of 256 KiB.
    world.node.hold_lent = true;
    world.node.lents.clear();
    for (uint64_t i = 1; i <= 3; i++) world.set(i, "k" + std::to_string(i), large);
    world.pump();
    tap::ok(world.node.lents.size() == 2 && world.sink.has(3), "what finds no buffer goes in pieces");
    tap::ok(world.set(5, "k1", "x") == AskResult::ordered, "what could overtake a lent value waits");
    const size_t lent = world.lending().lent_bytes();
    world.advance(2 * second);
    world.pump();
    tap::ok(world.sink[1].failed && world.sink[2].failed, "requests that wait too long fail");
    tap::ok(lent > 0 && world.lending().lent_bytes() == lent, "and the node may READ all the same");
    OutBuffer out;
    const auto [sequence, record] = world.node.lents[0];
    world.node.answer_lent(sequence, record, world.now_ns, out);
    world.hear(out);
    tap::is(world.lending().lent_bytes(), lent / 2, "until it has answered");
    world.node.reads_lent = false;
    world.node.answer_lent(world.node.lents[1].first, world.node.lents[1].second, world.now_ns, out);
    world.hear(out);
    world.pump();
    tap::is(world.lending().lent_bytes(), size_t(0), "or given it back");
    tap::is(world.node.abandoned, 1u, "a value whose request has failed is then not sent in pieces");

    world.node.reads_lent = true;
    world.set(9, "k", large);
    world.pump();
    tap::ok(world.lending().lent_bytes() > 0, "one more is lent");
    world.wire->end = fabric::ChannelEnd::reset;
    world.link->ready(world.now_ns);
    tap::ok(world.sink[9].failed && world.lending().lent_bytes() == 0, "and back when the connection is gone");
    world.node.hold_lent = false;
    world.advance(10 * second);
    world.pump();
    tap::ok(world.store("k", large) && world.fetch("k") == large, "the next one lends again");
    protocol::append_unlent(out, 1, 0);
    world.hear(out);
    tap::ok(!world.link->up(), "what was not lent cannot be given back");
}

void timeouts() {
    World world(link_config(), false);
    world.start();
    world.node.hold = true;
    auto owner = std::make_shared<std::string>(200'000, 'v');
    proxy::AskOptions with = world.options(1, 50 * ms);
    with.value = owner;
    world.link->requests().ask(World::set_op("k", *owner), with, world.sink);
    with.value.reset();
    world.get(2, "k2", 100 * ms);
    world.set(3, "k3", "v", 100 * ms);
    world.pump();
    tap::is(world.link->next_tick_ns(), world.now_ns + 50 * ms, "it wants to be called at the first deadline");
    world.advance(50 * ms);
    tap::ok(world.sink.failed_as(1, AskFailure::timed_out), "a set that is not answered has failed");
    tap::ok(!world.sink.has(2), "one with more time has not");
    tap::is(owner.use_count(), 2, "its value is kept: the node may still take it");
    world.advance(50 * ms);
    tap::ok(world.sink.failed_as(2, AskFailure::timed_out), "then it has, too");
    tap::is(world.counters().node_timeouts.get(), 3u, "each is counted");
    tap::is(world.link->requests().under_way(), 3u, "and has its place until it is answered");
    world.node.hold = false;
    world.pump();
    tap::is(world.sink[3].times, 1, "late answers reach no caller");
    tap::is(world.counters().replies_late.get(), 3u, "but counted");
    tap::is(world.link->requests().under_way(), 0u, "and end what was under way");
    tap::is(owner.use_count(), 1, "the value too");
    tap::is(world.fetch("k3"), "v", "the late set was carried out, once");

    // A value being sent is abandoned.
    world.wire->takes_bytes = 1;
    world.set(4, "large", std::string(500'000, 'v'), 50 * ms);
    world.link->flush(world.now_ns);
    world.advance(50 * ms);
    tap::ok(world.sink.failed_as(4, AskFailure::timed_out), "a value on its way times out");
    world.wire->takes_bytes = SIZE_MAX;
    world.pump();
    tap::is(world.node.abandoned, 1u, "the node learns that the rest does not come");
    tap::is(world.link->requests().under_way(), 0u, "and ends it");
    tap::is(world.node.bad_frames, 0u, "in good order");
}

void silence() {
    proxy::LinkConfig config = link_config();
    World world(config, false);
    world.start();
    world.node.hold = true;
    world.set(1, "k", "v", 100 * second);
    world.set(2, "k", "v", 100 * second);
    world.pump();
    world.advance(config.silence_ns - 1);
    tap::ok(world.link->up(), "a node may take its time");
    world.advance(1);
    tap::ok(!world.link->up() && world.downs.back().first == LinkDown::silent, "but not say nothing forever");
    tap::ok(world.sink.failed_as(1, AskFailure::node_down), "what was asked has failed");
    tap::ok(world.sink.failed_as(2, AskFailure::node_down), "all of it");
    tap::is(world.counters().node_failures.get(), 2u, "and is counted");
    tap::ok(world.get(3, "k") == AskResult::down, "nothing can be asked");
    world.node.hold = false;
    world.advance(second);
    world.pump();
    tap::ok(world.link->up() && world.node.requests == 0, "a new connection; nothing is sent again");

    world.advance(config.ping_ns);
    world.pump();
    tap::is(world.node.pings, 1u, "a connection without requests gets a ping");
    tap::ok(world.link->up(), "and lives");
    world.advance(config.ping_ns);
    world.wire->to_node.clear();
    world.advance(config.silence_ns);
    tap::ok(!world.link->up(), "without a sign it does not");
}

// A channel without more bytes presents the same half frame again.
void silence_in_a_frame() {
    const proxy::LinkConfig config = link_config();
    World world(config, false);
    world.start();
    world.node.hold = true;
    world.get(1, "k", 3600 * second);
    world.link->flush(world.now_ns);
    OutBuffer out;
    protocol::append_pong(out, 1, {1300});
    world.wire->to_proxy.append(out.data(), out.size() - 1);
    for (int i = 0; i < 4; i++) {
        world.link->ready(world.now_ns);
        world.advance(config.silence_ns / 4);
    }
    tap::ok(!world.link->up() && world.downs.back().first == LinkDown::silent, "half a frame is no life for long");
}

void back_pressure() {
    proxy::LinkConfig config = link_config();
    config.under_way = {10, 100'000};
    World world(config, false);
    world.start();
    for (uint64_t i = 0; i < 10; i++) world.get(i, "k");
    tap::ok(!world.link->requests().can_ask(), "no more requests than allowed");
    tap::ok(world.get(99, "k") == AskResult::busy, "the next is put off");
    tap::is(world.rooms, 0, "(nothing has changed)");
    world.pump();
    tap::is(world.rooms, 1, "room is reported once");
    tap::ok(world.link->requests().can_ask() && !world.sink.has(99), "and a request that was put off may be sent again");

    world.node.hold = true;
    const std::string value(60'000, 'v');
    tap::ok(world.set(20, "a", value) == AskResult::accepted, "a value fits");
    tap::ok(world.set(21, "b", value) == AskResult::accepted, "one more, beyond the bound");
    tap::ok(world.set(22, "c", value) == AskResult::busy, "and then no more");
    tap::ok(world.link->requests().bytes_under_way() < 200'000, "which bounds memory");
    world.node.hold = false;
    world.pump();
    tap::ok(world.set(22, "c", value) == AskResult::accepted, "until it is answered");
    world.pump();

    config.under_way = {100'000, 1 << 30};
    World frames(config, false);
    frames.node.credits = 3;
    frames.node.hold = true;
    frames.start();
    int accepted = 0;
    for (uint64_t i = 0; i < 6; i++) {
        if (frames.get(i, "k") == AskResult::accepted) accepted++;
        frames.link->flush(frames.now_ns);
    }
    tap::is(accepted, 3, "no more frames are in flight than the node gave credits for");
    frames.node.hold = false;
    frames.pump();
    tap::ok(frames.link->requests().can_ask(), "answers give them back");
    // A frame that is full is followed by another.
    const std::string key(200, 'k');
    for (uint64_t i = 0; i < 700; i++) frames.get(1000 + i, key);
    const uint64_t before = frames.node.frames;
    frames.pump();
    tap::is(frames.node.frames - before, 3u, "a full frame is followed by another");
    tap::is(frames.link->requests().under_way(), 0u, "and all are answered");

    World slow(link_config(), false);
    slow.start();
    slow.wire->takes_bytes = 0;
    uint64_t n = 0;
    while (slow.set(n, "k" + std::to_string(n), value) == AskResult::accepted) {
        n++;
        slow.link->flush(slow.now_ns);
    }
    tap::ok(n > 0 && slow.link->requests().bytes_under_way() < (4u << 20),
            "a transport that takes nothing bounds what is asked");
}

void out_of_order() {
    World world(link_config(), false);
    world.start();
    world.node.backwards = true;
    for (int i = 0; i < 50; i++) world.store("k" + std::to_string(i), "v" + std::to_string(i));
    for (uint64_t i = 0; i < 50; i++) world.get(i, "k" + std::to_string(i));
    world.pump();
    bool right = true;
    for (uint64_t i = 0; i < 50; i++)
        right = right && world.sink[i].times == 1 && world.sink[i].value == "v" + std::to_string(i);
    tap::ok(right, "replies in any order find their requests");
    // The callback may send a request at once.
    int chain = 0;
    world.sink.then = [&](uint64_t ticket) {
        if (chain++ < 20) world.get(ticket + 1, "k1");
    };
    world.get(500, "k1");
    world.pump();
    world.sink.then = nullptr;
    tap::is(world.sink[520].value, "v1", "the callback may send a request at once");

    Sink gone;
    world.link->requests().ask(World::get_op("k1"), world.options(1), gone);
    world.link->requests().forget_sink(gone);
    world.pump();
    tap::is(gone.by_ticket.size(), 0u, "a forgotten sink receives nothing");
    tap::is(world.link->requests().under_way(), 0u, "and its requests end");
}

void goodbye() {
    World world(link_config(), false);
    world.start();
    world.get_unanswered(1, "k");
    world.hear_goodbye(protocol::Goodbye::draining, "later");
    tap::ok(world.link->state() == LinkState::leaving, "a node that sends a goodbye is left");
    tap::ok(world.get(2, "k") == AskResult::down, "nothing new is asked");
    world.node.hold = false;
    world.pump();
    tap::ok(world.sink[1].times == 1 && !world.sink[1].failed, "what was asked is answered");
    tap::ok(world.downs.size() == 1 && world.downs[0].first == LinkDown::goodbye, "then it is down");
    tap::ok(world.downs[0].second.ends_with(": later"), "and its text is reported");
    world.advance(second);
    world.pump();
    tap::ok(world.link->up(), "and tried again");
}

// A node's text that equals the reason is printed once.
void goodbye_in_the_reason_s_words() {
    World world(link_config(), false);
    world.start();
    const std::string_view words = protocol::goodbye_text(protocol::Goodbye::stopping);
    world.hear_goodbye(protocol::Goodbye::stopping, words);
    tap::is(world.downs.size(), 1u, "a node that goes is down");
    const std::string& told = world.downs[0].second;
    tap::ok(told.find(words) != std::string::npos && told.find(words) == told.rfind(words), "and the reason is reported once");
}

}  // namespace

int main() {
    greeting();
    mismatch();
    reconnecting();
    operations();
    deletes_by_prefix();
    times(1);
    times(2);
    pieces();
    lent_values();
    timeouts();
    silence();
    silence_in_a_frame();
    back_pressure();
    out_of_order();
    goodbye();
    goodbye_in_the_reason_s_words();
    return tap::done();
}
