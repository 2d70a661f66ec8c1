// SPDX-License-Identifier: BSD-3-Clause
// Items that a link's node keeps in another node's memory. The link keeps the pointers that its node grants (S3). It READs through
// the link to the other node. Each GET is answered once, in order, even if either link ends meanwhile (K1, K2, K3).
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/spilled.h"
#include "t/unit/proxy/link_fixture.h"

using namespace link_test;
using proxy::AskResult;

namespace {

// Two links of one worker: to the home, and to the other node. Both nodes have one clock.
struct Two {
    Two() {
        home.find = [this](uint64_t incarnation) -> proxy::Requests* {
            const bool there = other != nullptr && other->link->up() && other->node.incarnation == incarnation;
            return there && reachable ? &other->link->requests() : nullptr;
        };
        home.node.grants_elsewhere = [this](std::string_view key) { return grant(key); };
        home.start();
        other->start();
    }
    // The home has the item, and so has the other node; a get has earned the pointer.
    void spill(std::string_view key, std::string_view value, uint32_t exptime = never_expires) {
        home.store(key, value);
        const protocol::SpilledKey name = protocol::spilled_key(home.node.incarnation, ++number);
        const std::string record = std::string(key) + std::string(value);
        protocol::StoreOp op;
        op.key = other->node.cache->key(protocol::view_of(name));
        op.value = record;
        op.flags = 7;
        op.exptime = exptime;
        op.spilled = true;
        if (other->node.cache->store(op, node_now()).status != protocol::StoreReply::Status::stored)
            tap::ok(false, "the other node stores " + std::string(key));
        names[std::string(key)] = name;
        home.fetch(key);
    }
    NodeSeconds node_now() const { return other->node.now(other->now_ns); }
    std::optional<protocol::Grant> grant(std::string_view key) {
        const auto at = names.find(std::string(key));
        if (at == names.end()) return std::nullopt;
        protocol::GetOp op;
        op.key = other->node.cache->key(protocol::view_of(at->second));
        op.lease = true;
        std::optional<protocol::Grant> granted;
        for (int tries = 0; tries < 4 && !granted.has_value(); tries++)
            granted = other->node.cache->get(op, node_now(), [](const protocol::ItemMeta&) -> char* { return nullptr; }).grant;
        if (!granted.has_value()) return std::nullopt;
        granted->capacity = other->node.capacity(granted->offset);
        granted->term_ms = term_ms;
        granted->incarnation = other->node.incarnation;
        if (lie) lie(*granted);
        return granted;
    }
    // The other node's item dies.
    void kill(std::string_view key) {
        protocol::DeleteOp op;
        op.key = other->node.cache->key(protocol::view_of(names.at(std::string(key))));
        other->node.cache->remove(op, node_now());
    }
    // The slot of the other node's item of "k".
    uint64_t* slot() {
        const char* at = other->node.cache->view().base + grant("k")->offset;
        return const_cast<uint64_t*>(reinterpret_cast<const uint64_t*>(at));
    }
    // Another item in that slot, of the same generation.
    void rewrite(std::string_view record, uint16_t format, uint32_t exptime = never_expires) {
        const std::string key(protocol::view_of(names.at("k")));
        in_place::Item item{key, std::string(record), 1, 7, exptime, format};
        const uint64_t generation = layout::Guard{*slot()}.generation();
        const in_place::Words words =
            in_place::words_of(item, generation, {other->node.cache->check_secret(), grant("k")->offset});
        std::copy(words.begin(), words.end(), slot());
    }
    // Begins a GET that the other link READs.
    bool begin(uint64_t ticket, std::string_view key, uint64_t within_ns = second) {
        const size_t before = other->wire->posted.size();
        ends = home.elsewhere_ends;
        const AskResult result = home.get(ticket, key, within_ns);
        return result == AskResult::accepted && other->wire->posted.size() == before + 1;
    }
    void advance(uint64_t ns) {
        home.now_ns += ns;
        if (other != nullptr) other->now_ns += ns;
        home.link->tick(home.now_ns);
        if (other != nullptr) other->link->tick(other->now_ns);
    }
    void pump() {
        if (other != nullptr) other->pump();
        home.pump();
    }
    // The other link's READ proves nothing: the home answers the ticket, once, and nothing is left under way.
    void falls_back(uint64_t ticket, std::string_view value, const std::string& what) {
        const uint64_t before = home.counters().get_twosided.get();
        if (other != nullptr) other->pump();
        tap::is(home.sink.has(ticket) ? home.sink[ticket].times : 0, 0, what + ": not answered by the other link");
        tap::is(home.elsewhere_ends, ends + 1, what + ": this link is to be flushed");
        home.pump();
        tap::ok(home.sink[ticket].times == 1 && !home.sink[ticket].one_sided, what + ": answered once, by the home");
        tap::is(home.sink[ticket].value, value, what + ": with the home's value");
        tap::is(home.counters().get_twosided.get() - before, 1u, what + ": after one request");
        tap::is(home.link->requests().under_way(), 0u, what + ": nothing is under way");
    }
    uint64_t spilled_hits() const { return home.counters().get_onesided_spilled.get(); }

    World home;
    std::unique_ptr<World> other = std::make_unique<World>();
    bool reachable = true;
    int ends = 0;  // of the home's, at the last begin()
    uint32_t term_ms = protocol::spilled_term_ms_max;
    uint64_t number = 0;
    std::function<void(protocol::Grant&)> lie;
    std::map<std::string, protocol::SpilledKey> names;
};

void a_hit() {
    Two two;
    two.spill("k", "value", /* exptime= */ 5000);
    tap::is(two.home.counters().lease_granted_spilled.get(), 1u, "a grant of another node's memory is kept");
    tap::is(two.home.counters().lease_granted.get(), 1u, "it counts as a grant");
    const uint64_t asked = two.home.node.requests;
    tap::ok(two.begin(1, "k"), "the next get is a READ through the link to that node");
    tap::ok(two.home.wire->posted.empty(), "and not through the home's");
    tap::ok(two.home.link->requests().only_elsewhere() && !two.home.link->only_reads(), "the home's link waits for it alone,");
    tap::ok(two.other->link->only_reads(), "the other for its READs");
    tap::is(two.home.link->requests().under_way(), 1u, "it is under way");
    two.other->pump();
    const protocol::GetReply reply = two.home.sink.reply<protocol::GetReply>(1);
    tap::ok(two.home.sink[1].times == 1 && two.home.sink[1].one_sided, "it is answered, one-sided");
    tap::is(two.home.sink[1].value, "value", "with the value behind the key");
    tap::ok(reply.meta.value_len == 5 && reply.meta.flags == 7 && reply.meta.item_bytes == layout::item_bytes(1, 5),
            "and the facts of the home's item");
    tap::is(reply.meta.exptime, two.other->link->clock().to_host(5000), "its expiry time was on the other node's clock");
    tap::is(two.home.node.requests, asked, "the home was not asked");
    tap::is(two.home.link->requests().under_way(), 0u, "nothing is under way");
    tap::ok(two.home.counters().get_onesided.get() == 1 && two.spilled_hits() == 1, "the home's link counts it");
    tap::is(two.other->counters().get_onesided.get(), 0u, "the other does not");
    tap::is(two.other->counters().reads_completed.get(), 1u, "which counts its READ");

    two.spill("empty", "");
    tap::ok(two.begin(2, "empty"), "a value may be empty");
    two.pump();
    tap::ok(two.home.sink[2].one_sided && two.home.sink[2].value.empty(), "and is read");
    const std::string long_key(250, 'k'), long_value(60'000, 'v');
    two.spill(long_key, long_value);
    tap::ok(two.begin(3, long_key), "or long");
    two.pump();
    tap::ok(two.home.sink[3].one_sided && two.home.sink[3].value == long_value, "and is whole");
}

// Every READ that proves nothing asks the home, once, and drops the pointer.
void outcomes() {
    struct Case {
        const char* name;
        std::function<void(Two&)> change;  // after the grant
        const char* counter;
    };
    const Case cases[] = {
        {"a dead slot", [](Two& two) { two.kill("k"); }, "read_invalid_dead"},
        {"a later item", [](Two& two) {
             protocol::StoreOp op;
             op.key = two.other->node.cache->key(protocol::view_of(two.names.at("k")));
             op.value = "kother";
             op.spilled = true;
             two.other->node.cache->store(op, two.node_now());
         }, "read_invalid_generation"},
        {"an expired item", [](Two& two) { two.rewrite("kvalue", layout::format_spilled, 1); }, "read_invalid_expired"},
        {"another key's item", [](Two& two) { two.rewrite("jvalue", layout::format_spilled); }, "read_invalid_key"},
        {"an item that is not spilled", [](Two& two) { two.rewrite("kvalue", layout::format_plain); }, "read_invalid_key"},
        {"a torn copy", [](Two& two) { reinterpret_cast<char*>(two.slot())[60] ^= 1; }, "read_invalid_crc"},
    };
    for (const Case& one : cases) {
        Two two;
        two.spill("k", "value");
        one.change(two);
        if (!tap::ok(two.begin(1, "k"), std::string(one.name) + ": is read")) continue;
        two.falls_back(1, "value", one.name);
        uint64_t counted = 0;
        for (const auto& row : proxy::LinkCounters::rows())
            if (row.name == std::string_view(one.counter)) counted = (two.other->counters().*row.where).get();
        tap::is(counted, 1u, std::string(one.name) + ": counted where it was read");
        tap::is(two.spilled_hits(), 0u, std::string(one.name) + ": no hit");
    }
    Two two;
    two.spill("k", "value");
    two.rewrite("kvalue", layout::format_plain);
    two.begin(1, "k");
    two.home.node.grants_elsewhere = nullptr;
    two.falls_back(1, "value", "an item of a home that grants no more");
    tap::ok(!two.begin(2, "k"), "its pointer is dropped");
    two.home.pump();

    Two failing;
    failing.spill("k", "value");
    failing.begin(1, "k");
    failing.other->complete(0, fabric::ReadStatus::failed);
    failing.falls_back(1, "value", "a READ that failed");
}

// S3, and what is no possible grant.
void leases() {
    Two two;
    two.spill("k", "value");
    two.advance(199 * ms);
    tap::ok(two.begin(1, "k"), "a lease of 200 ms runs for 199");
    two.advance(1 * ms);
    two.falls_back(1, "value", "a READ that ends after the lease");
    two.advance(200 * ms);
    tap::ok(!two.begin(2, "k"), "after its end the home is asked at once");
    two.pump();
    tap::ok(two.home.sink[2].value == "value" && two.begin(3, "k"), "and grants the next");
    two.pump();
    tap::ok(two.home.sink[3].one_sided, "which is used");

    // The home's grant is counted from before the request, however late it arrives.
    Two late;
    late.spill("k", "value");
    late.advance(300 * ms);
    late.home.node.hold = true;
    late.home.get(1, "k");
    late.home.pump();
    late.advance(150 * ms);
    late.home.node.hold = false;
    late.pump();
    late.advance(49 * ms);
    tap::ok(late.begin(2, "k"), "a late grant runs from the request on");
    late.pump();
    late.advance(1 * ms);
    tap::ok(!late.begin(3, "k"), "and no longer");
    late.pump();

    const std::pair<const char*, std::function<void(protocol::Grant&)>> lies[] = {
        {"of another length", [](protocol::Grant& g) { g.length++; }},
        {"of the home's own memory", nullptr},
    };
    for (const auto& [name, lie] : lies) {
        Two liar;
        liar.lie = lie ? lie : [&liar](protocol::Grant& g) { g.incarnation = liar.home.node.incarnation; };
        liar.spill("k", "value");
        tap::is(liar.home.counters().lease_unusable.get(), 1u, std::string("a grant ") + name + " is not kept");
        tap::ok(!liar.begin(1, "k"), std::string("a grant ") + name + " is not used");
        liar.pump();
        tap::is(liar.home.sink[1].value, "value", std::string("a grant ") + name + ": the home answers");
    }
    Two outside;
    outside.lie = [](protocol::Grant& g) { g.offset = UINT64_C(1) << 40; };
    outside.spill("k", "value");
    tap::ok(!outside.begin(1, "k"), "a place outside of the other node's region is not read");
    outside.pump();
    tap::is(outside.home.sink[1].value, "value", "the home answers");
    Two too_long;
    too_long.term_ms = protocol::spilled_term_ms_max + 1;
    too_long.home.store("k", "value");
    too_long.spill("k", "value");
    tap::is(too_long.home.counters().frame_errors[size_t(protocol::FrameError::grant_invalid)].get(), 1u,
            "a lease that is too long is a bad frame");
}

void the_other_link() {
    Two two;
    two.spill("k", "value");
    two.reachable = false;
    tap::ok(!two.begin(1, "k"), "without a link to the other node the home is asked");
    two.pump();
    tap::is(two.home.sink[1].value, "value", "and answers");
    two.reachable = true;
    tap::ok(two.begin(2, "k"), "the pointer stays for when there is one");
    two.other->wire->end = fabric::ChannelEnd::reset;
    two.falls_back(2, "value", "the other connection ends during a READ");
    two.advance(2 * second);
    two.other->pump();
    tap::ok(two.other->link->up() && !two.begin(3, "k"), "its pointer is dropped");
    two.pump();
    tap::ok(two.begin(4, "k"), "a new one works through the new connection");
    two.other->link->stop(two.other->now_ns);
    two.falls_back(4, "value", "the other link is stopped");

    Two removed;
    removed.spill("k", "value");
    removed.begin(1, "k");
    removed.home.node.grants_elsewhere = nullptr;
    removed.other.reset();
    tap::is(removed.home.elsewhere_ends, 1, "the end of a removed link reaches the home's link");
    removed.home.pump();
    tap::ok(removed.home.sink[1].value == "value" && !removed.home.sink[1].one_sided, "which asks the home");

    Two another_run;
    another_run.spill("k", "value");
    another_run.other->node.restart();
    another_run.other->wire->end = fabric::ChannelEnd::reset;
    another_run.other->pump();
    another_run.home.node.grants_elsewhere = nullptr;
    tap::ok(!another_run.begin(1, "k"), "a former run of the other node is not read");
    another_run.home.pump();

    Two full;
    full.spill("k", "value");
    full.other->wire->reads_most = 0;
    tap::ok(full.home.get(1, "k") == AskResult::accepted && full.other->link->requests().under_way() == 0,
            "if the other link has no room, the home is asked");
    full.pump();
    tap::is(full.home.sink[1].value, "value", "and answers");
    full.other->wire->reads_most = SIZE_MAX;
    full.other->wire->no_memory_to_read = true;
    bool threw = false;
    try {
        full.home.get(2, "k");
    } catch (const std::bad_alloc&) {
        threw = true;
    }
    const uint32_t left = full.home.link->requests().under_way() + full.other->link->requests().under_way();
    tap::ok(threw && left == 0, "if it has no memory, nothing is left under way at either link");
    full.other->wire->no_memory_to_read = false;
    tap::ok(full.begin(3, "k"), "later it reads");
    full.pump();
    tap::is(full.home.sink[3].value, "value", "as before");
}

void the_home_link() {
    Two two;
    two.spill("k", "value");
    two.begin(1, "k");
    two.home.wire->end = fabric::ChannelEnd::reset;
    two.home.pump();
    tap::ok(two.home.sink.failed_as(1, proxy::AskFailure::node_down), "the home's connection ends: the get fails");
    two.other->pump();
    tap::is(two.home.sink[1].times, 1, "once");
    tap::is(two.other->counters().read_late.get(), 1u, "the READ is late");
    tap::ok(two.home.get(2, "k") == AskResult::down, "without the home its pointers are not used");
    two.advance(2 * second);
    two.home.pump();
    tap::ok(two.home.link->up() && !two.begin(3, "k"), "nor after it, before a grant on the new connection");
    two.pump();
    tap::ok(two.begin(4, "k"), "then they are");
    two.home.link->stop(two.home.now_ns);
    tap::ok(two.home.sink.failed_as(4, proxy::AskFailure::node_down), "the home's link is stopped: the get fails");
    two.other->pump();
    tap::is(two.home.sink[4].times, 1, "once");

    // Another run of the home has other keys in the table.
    Two another_run;
    another_run.spill("k", "value");
    another_run.home.node.restart();
    another_run.home.wire->end = fabric::ChannelEnd::reset;
    another_run.home.pump();
    another_run.advance(50 * ms);
    another_run.home.pump();
    another_run.spill("other", "of this run");
    tap::ok(another_run.home.link->up() && another_run.begin(1, "other"), "the next run's grants are used");
    tap::ok(!another_run.begin(2, "k"), "those of a former run of the home are not");
    another_run.pump();
    tap::ok(another_run.home.sink.reply<protocol::GetReply>(2).status == protocol::GetReply::Status::miss, "the home answers");

    // The home says goodbye during the READ.
    Two leaving;
    leaving.spill("k", "value");
    leaving.begin(1, "k");
    leaving.begin(2, "k");
    leaving.home.hear_goodbye(protocol::Goodbye::stopping, "");
    tap::ok(leaving.home.link->state() == proxy::LinkState::leaving, "a home that leaves: its link waits for the READs");
    leaving.other->complete(0);
    leaving.other->complete(0, fabric::ReadStatus::failed);
    leaving.other->pump();
    tap::is(leaving.home.sink[1].value, "value", "a hit counts");
    leaving.home.pump();
    tap::ok(leaving.home.sink.failed_as(2, proxy::AskFailure::node_down), "a READ that proved nothing fails");
    tap::ok(!leaving.home.link->up() && leaving.home.link->requests().under_way() == 0, "then the connection ends");
}

// K3, K6, and sinks that are gone.
void order_and_time() {
    Two two;
    two.spill("k", "value");
    two.home.session = 1;
    two.begin(1, "k");
    const int rooms = two.home.rooms;
    tap::ok(two.home.set(2, "k", "new") == AskResult::ordered, "a mutation waits for the READ of its session and key");
    proxy::AskOptions with = two.home.options(3);
    with.session = 1;
    tap::ok(two.home.link->requests().ask(protocol::FlushOp{}, with, two.home.sink) == AskResult::ordered, "so does a flush");
    two.home.session = 2;
    tap::ok(two.home.set(4, "k", "new") == AskResult::accepted, "another session's does not");
    tap::ok(!two.begin(5, "k"), "behind a mutation of its session a get asks the home");
    two.other->pump();
    tap::is(two.home.sink[1].value, "value", "the READ ends");
    while (two.home.link->flush(two.home.now_ns)) {}
    tap::is(two.home.rooms, rooms + 1, "then the mutation may be tried again");
    two.home.session = 1;
    tap::ok(two.home.set(6, "k", "newer") == AskResult::accepted, "and is accepted");
    two.pump();
    tap::ok(two.home.sink[5].value == "new" && two.home.sink[6].times == 1, "all are answered");

    Two slow;
    slow.spill("k", "value");
    slow.begin(1, "k", 100 * ms);
    slow.home.node.hold = true;
    slow.advance(100 * ms);
    slow.pump();
    tap::ok(slow.home.sink.failed_as(1, proxy::AskFailure::timed_out), "a READ without an end: the get times out");
    slow.other->complete_all();
    slow.pump();
    tap::is(slow.home.sink[1].times, 1, "once");
    tap::is(slow.home.link->requests().under_way() + slow.other->link->requests().under_way(), 0u, "nothing is under way");

    Two forgotten;
    forgotten.spill("k", "value");
    {
        Sink gone;
        proxy::AskOptions of = forgotten.home.options(1);
        of.one_sided = true;
        forgotten.home.link->requests().get(World::get_op("k"), of, gone, forgotten.home.now_ns);
        forgotten.home.link->requests().get(World::get_op("k"), of, gone, forgotten.home.now_ns);
        tap::is(forgotten.other->wire->posted.size(), 2u, "two READs of a sink");
        forgotten.home.link->requests().forget_sink(gone);
        tap::ok(gone.by_ticket.empty(), "which is forgotten");
    }
    forgotten.other->complete(0, fabric::ReadStatus::failed);
    forgotten.pump();
    tap::is(forgotten.home.link->requests().under_way(), 0u, "their ends reach nobody");

    // A sink asks again from its answer.
    Two chain;
    chain.spill("k", "value");
    chain.home.sink.then = [&](uint64_t ticket) {
        if (ticket < 5) chain.home.get(ticket + 1, "k");
    };
    chain.begin(1, "k");
    for (int i = 0; i < 5; i++) chain.pump();
    tap::is(chain.home.sink[5].value, "value", "gets from within answers");
    tap::is(chain.spilled_hits(), 5u, "are READ, too");
}

// Where there are no spilled items: an older node.
void an_older_node() {
    World world;
    world.node.version = protocol::version_with_spilled - 1;
    world.start();
    protocol::StoreOp op = World::set_op("k", "value");
    op.spilled = true;
    tap::ok(world.link->requests().ask(op, world.options(1), world.sink) == AskResult::down,
            "a spilled item is not sent to a node of an older version");
    tap::is(world.counters().node_too_old.get(), 1u, "which is counted");
}

}  // namespace

int main() {
    a_hit();
    outcomes();
    leases();
    the_other_link();
    the_home_link();
    order_and_time();
    an_older_node();
    return tap::done();
}
