// SPDX-License-Identifier: BSD-3-Clause
// The pointers that a link keeps (S1, S4): which replies bring one, forget one or leave it alone, and how much of a
// slot is READ. Requests of different client sessions do not wait for one another.
#include <algorithm>
#include <functional>
#include <string>

#include "t/unit/proxy/link_fixture.h"

using namespace link_test;
using proxy::AskResult;

namespace {

// The order is that of one session. Others' requests are concurrent.
void order_of_sessions() {
    World world;
    world.start();
    world.hold_pointer("k", "old");
    world.session = 1;
    world.set(1, "k", "new");
    world.set(2, "large", std::string(300'000, 'l'));
    const uint64_t hash = world.hash("k");
    tap::ok(!world.link->requests().read_in_order(hash, 1) && world.link->requests().read_in_order(hash, 2),
            "behind a session's set of a key it reads no memory, others do");
    world.session = 2;
    world.get(3, "k");
    tap::is(world.wire->posted.size(), 1u, "another session's set in flight delays no one-sided read");
    tap::is(world.counters().pointer_bypassed.get(), 0u, "pointer_bypassed");
    tap::ok(world.get(4, "large") == AskResult::accepted, "nor does a large one delay a get");
    tap::ok(world.set(5, "k", "mine") == AskResult::ordered, "a set waits for its own session's read");
    world.session = 3;
    tap::ok(world.set(6, "k", "third") == AskResult::accepted, "and for no other's");
    proxy::AskOptions with = world.options(7);
    with.session = 3;
    tap::ok(world.link->requests().ask(protocol::FlushOp{}, with, world.sink) == AskResult::accepted, "nor does a flush");
    tap::ok(!world.link->requests().read_in_order(hash, 3) && world.link->requests().read_in_order(hash, 2),
            "which is in order for its own");
    with = world.options(8);
    with.session = 2;
    tap::ok(world.link->requests().ask(protocol::FlushOp{}, with, world.sink) == AskResult::ordered,
            "a flush waits for its own reads");
    world.pump();
    tap::ok(!world.sink[3].failed && world.sink[6].times == 1, "all are answered");

    // GET, SET, GET of one key in a pipeline, while another session writes it over and over.
    World busy;
    busy.start();
    busy.hold_pointer("k", "0");
    uint64_t ticket = 100, last = 0;
    bool own = true;
    for (int round = 0; round < 50; round++) {
        busy.session = 2;
        busy.set(ticket++, "k", "other " + std::to_string(round));
        busy.session = 1;
        const std::string mine = "mine " + std::to_string(round);
        const uint64_t get = ticket++, set = ticket++;
        last = ticket++;
        busy.get(get, "k");
        while (busy.set(set, "k", mine) != AskResult::accepted) busy.pump();
        busy.get(last, "k");
        if (round % 2 == 0) busy.pump();
        busy.session = 2;
        const uint64_t after = ticket++;
        busy.set(after, "k", "later " + std::to_string(round));
        busy.pump();
        // The session's set, or the other session's set after it.
        const std::string& seen = busy.sink[last].value;
        own &= seen == mine || seen == "later " + std::to_string(round);
        own &= busy.sink[get].value != mine;
    }
    tap::ok(own, "a session's get sees its set before, not the one behind, while another session writes");
}

// A hit, a store or a number without a pointer forgets the known one. A reply without facts of the item keeps it.
void forgotten_or_kept() {
    struct Case {
        const char* name;
        std::function<void(World&)> change;
        bool kept;
    };
    auto add = [](World& w) {
        protocol::StoreOp op = World::set_op("k", "new");
        op.mode = protocol::StoreOp::Mode::add;
        w.link->requests().ask(op, w.options(1), w.sink);
        w.pump();
    };
    auto incr = [](World& w, std::string_view key) {
        protocol::ArithOp op;
        op.key = {key, 0};
        op.lease = true;
        w.link->requests().ask(op, w.options(1), w.sink);
        w.pump();
    };
    auto remove = [](World& w) {
        protocol::DeleteOp op;
        op.key = {"k", 0};
        w.link->requests().ask(op, w.options(1), w.sink);
        w.pump();
    };
    auto get = [](World& w, bool lease) {
        protocol::GetOp op = World::get_op("k");
        op.lease = lease;
        w.link->requests().ask(op, w.options(1), w.sink);
        w.pump();
    };
    const Case cases[] = {
        {"a get", [&](World& w) { get(w, true); }, false},
        {"a get that wants no pointer", [&](World& w) { get(w, false); }, true},
        {"a set", [](World& w) { w.store("k", "new"); }, false},
        {"an incr", [&](World& w) { incr(w, "k"); }, false},
        {"an add that stores nothing", add, true},
        {"a delete", remove, true},
        {"a get that misses", [&](World& w) { remove(w); get(w, true); }, true},
        {"a set that times out", [](World& w) {
             w.node.hold = true;
             w.set(1, "k", "new", 10 * ms);
             w.pump();
             w.advance(10 * ms);
         }, true},
        {"a set whose connection ends", [](World& w) {
             w.set(1, "k", "new");
             w.wire->end = fabric::ChannelEnd::reset;
             w.pump();
         }, true},
    };
    for (const Case& one : cases) {
        World world;
        world.start();
        world.hold_pointer("k", "1");
        world.node.deny = protocol::LeaseDenial::no_room_;
        const uint64_t denied = world.counters().lease_denied.get();
        tap::ok(world.pointer("k").has_value(), std::string(one.name) + ": there is a pointer,");
        one.change(world);
        tap::is(world.pointer("k").has_value(), one.kept, std::string(one.name) + (one.kept ? ": which stays" : ": and then not"));
        tap::is(world.counters().lease_denied.get() - denied, one.kept ? 0u : 1u, std::string(one.name) + ": lease_denied");
        const uint64_t no_room = world.counters().lease_denied_by[size_t(protocol::LeaseDenial::no_room_)].get();
        tap::is(no_room, one.kept ? 0u : 1u, std::string(one.name) + ": counted as no_room");
    }
}

// After any reply that brings a pointer, the next get is one-sided, in another process, too.
void every_reply_grants() {
    World world;
    world.start();
    world.node.grants_all = true;
    auto other = table_test::open(table_test::options(world.table_name(), 1024));
    tap::ok(world.store("set", "value"), "a set");
    protocol::ArithOp op;
    op.key = {"incr", 0};
    op.vivify = never_expires;
    op.initial = 7;
    op.lease = true;
    world.link->requests().ask(op, world.options(1), world.sink);
    world.pump();
    tap::is(world.counters().lease_granted.get(), 2u, "and an incr bring pointers");
    for (const char* key : {"set", "incr"})
        tap::ok(other->find(world.hash(key), world.node.incarnation, world.now_ns).found == proxy::PointerTable::Found::hit,
                "which others find");
    const uint64_t requests = world.node.requests;
    tap::ok(world.fetch("set") == "value" && world.fetch("incr") == "7", "the next gets");
    tap::is(world.node.requests, requests, "are one-sided");
}

// The whole of a small slot is READ, of a larger one as much as was used.
void lengths() {
    World world;
    world.start();
    world.hold_pointer("small", std::string(400, 's'));
    const fabric::RemotePtr small = world.pointer("small")->ptr;
    tap::is(small.length, world.node.capacity(small.offset), "of a small slot all is READ");
    tap::ok(small.length > layout::item_bytes(5, 400) && small.length <= fabric::whole_slot_bytes_max,
            "which is more than the item");
    const in_place::Words before(world.slot("small"), world.slot("small") + small.length / 8);
    world.carry_out(world.write_in_place("small", std::string(small.length - 45, 't')), world.slot("small"));
    const uint64_t requests = world.node.requests;  // the node does not know the bytes written there
    tap::ok(world.fetch("small") == std::string(small.length - 45, 't') && world.node.requests == requests,
            "so an item that grows in its slot is read");
    world.carry_out(world.write_in_place("small", "less"), world.slot("small"));
    tap::ok(world.fetch("small") == "less" && world.node.requests == requests, "and one that shrinks");
    const auto& meta = world.sink.reply<protocol::GetReply>(world.tickets - 1).meta;
    tap::ok(meta.value_len == 4 && meta.item_bytes == layout::item_bytes(5, 4), "with its own length");
    std::copy(before.begin(), before.end(), world.slot("small"));

    world.hold_pointer("large", std::string(5000, 'l'));
    const fabric::LeasedPtr large = *world.pointer("large");
    tap::is(large.ptr.length, layout::item_bytes(5, 5000), "of a large slot the item is");
    fabric::LeasedPtr longer = large;
    longer.ptr.length += 16;
    world.table().put(world.hash("large"), longer, world.now_ns);
    tap::ok(world.fetch("large").size() == 5000 && world.sink[world.tickets - 1].one_sided, "or the longest that was seen");
    world.table().forget(world.hash("large"), world.node.incarnation);
    world.table().put(world.hash("large"), large, world.now_ns);
    const in_place::Words as_was(world.slot("large"), world.slot("large") + large.ptr.length / 8);
    world.carry_out(world.write_in_place("large", std::string(5001, 'l')), world.slot("large"));
    world.get(1, "large");
    world.complete(0);
    std::copy(as_was.begin(), as_was.end(), world.slot("large"));
    world.link->ready(world.now_ns);
    tap::ok(world.pointer("large").has_value(), "one that grew keeps its pointer");
    world.pump();
    tap::ok(!world.sink[1].one_sided && world.sink[1].value.size() == 5000, "and goes to the node");
    tap::is(world.counters().read_invalid_grown.get(), 1u, "read_invalid_grown");
}

}  // namespace

int main() {
    order_of_sessions();
    forgotten_or_kept();
    every_reply_grants();
    lengths();
    return tap::done();
}
