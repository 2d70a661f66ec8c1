// SPDX-License-Identifier: BSD-3-Clause
// GETs by one-sided reads through remote pointers: when they are tried, when they are hits, and their effect on the
// pointers. A read that fails goes to the node once.
#include <string>

#include "t/unit/proxy/link_fixture.h"

using namespace link_test;
using proxy::AskResult;
using proxy::AskFailure;

namespace {

void one_sided() {
    World world;
    world.start();
    world.store("k", "value");
    tap::ok(!world.pointer("k"), "a first set earns no pointer");
    tap::is(world.fetch("k"), "value", "a get goes to the node");
    tap::ok(world.pointer("k").has_value(), "and brings a pointer");
    const uint64_t requests = world.node.requests;
    tap::is(world.fetch("k"), "value", "the next get is a hit");
    tap::is(world.node.requests, requests, "that the node knows nothing of");
    tap::ok(world.sink[1'000'002].one_sided, "one-sided");
    const auto& meta = world.sink.reply<protocol::GetReply>(1'000'002).meta;
    tap::ok(meta.cas != 0 && meta.value_len == 5, "with cas and length");
    tap::is(world.counters().get_onesided.get(), 1u, "get_onesided");
    tap::is(world.counters().get_twosided.get(), 1u, "get_twosided");
    tap::is(world.counters().set_twosided.get(), 1u, "set_twosided");
    tap::is(world.counters().pointer_hits.get(), 1u, "pointer_hits");
    tap::is(world.counters().pointer_misses.get(), 1u, "pointer_misses");
    tap::is(world.counters().pointer_shared_hits.get(), 0u, "its own pointer");
    tap::is(world.counters().lease_granted.get(), 1u, "lease_granted");
    uint64_t accesses = 0;
    world.table().walk(0, 1024, [&](const proxy::PointerTable::Record& r) { accesses += r.accesses; });
    tap::is(accesses, 1u, "the access is counted in the table");

    world.link->requests().ask(World::get_op("k"), world.options(1), world.sink);
    world.pump();
    tap::ok(!world.sink[1].one_sided, "ask() is two-sided always");
    world.wire->mapped = false;
    tap::ok(world.fetch("k") == "value" && !world.sink[1'000'003].one_sided,
            "so is get() where the node's memory cannot be read");
}

// The node gets one-sided hits in front of the next requests, and none without requests.
void accesses_told() {
    World world;
    world.start();
    world.hold_pointer("k", "value");
    world.hold_pointer("j", "other");
    world.now_ns += second;
    const uint64_t frames = world.node.frames;
    world.node.accesses.clear();
    for (int i = 0; i < 7; i++) world.fetch("k");
    world.fetch("j");
    protocol::GetOp quiet = World::get_op("j");
    quiet.no_bump = true;
    proxy::AskOptions with = world.options(1);
    with.one_sided = true;
    world.link->requests().get(quiet, with, world.sink, world.now_ns);
    world.pump();
    tap::ok(world.sink[1].one_sided, "a get that is not to count");
    tap::ok(world.node.frames == frames && world.wire->to_node.empty(), "one-sided hits send nothing");
    tap::is(world.counters().accesses_sent.get(), 0u, "accesses_sent");

    world.now_ns += second;
    const uint64_t hit_ns = world.now_ns;
    world.fetch("k");
    world.now_ns += 10 * ms;
    protocol::GetOp meta = World::get_op("k");
    meta.peek = true;
    world.link->requests().ask(meta, world.options(2), world.sink);
    world.pump();
    tap::is(world.node.accesses.size(), 2u, "the next request is preceded by the items that were read,");
    uint64_t k = 0, j = 0;
    for (const protocol::ItemAccess& item : world.node.accesses)
        (item.hash == world.hash("k") ? k : j) += item.count;
    tap::ok(k == 8 && j == 1, "each with how often");
    tap::is(world.counters().accesses_sent.get(), 9u, "all of them are counted");
    const auto& known = world.sink.reply<protocol::GetReply>(2).meta;
    const int64_t wrong = int64_t(known.last_access) - int64_t((hit_ns - (start_ns - 100 * second)) / second);
    tap::ok(known.fetched && wrong >= -1 && wrong <= 1, "and the node answers with the last of them in mind");
    world.fetch("none");
    tap::is(world.node.accesses.size(), 2u, "each is reported once");

    // Accesses noted by a caller that maps the region; more items than are kept.
    const uint64_t many = 3 * proxy::UnseenAccesses::items_max;
    const fabric::RemotePtr at = world.pointer("k")->ptr;
    for (uint64_t i = 0; i < many; i++)
        world.link->note_access(hash_key(std::to_string(i), 1), at.generation + i, at.offset, 0);
    world.link->note_access(world.hash("k"), at.generation, at.offset, at.region);
    const uint64_t dropped = world.counters().accesses_dropped.get();
    world.node.accesses.clear();
    world.fetch("none");
    tap::ok(dropped >= many + 1 - proxy::UnseenAccesses::items_max && dropped < many,
            "of too many some are dropped, and counted");
    tap::is(world.node.accesses.size(), many + 1 - dropped, "the others are reported, in as many frames as it takes");
    bool latest = false;
    for (const protocol::ItemAccess& item : world.node.accesses) latest |= item.hash == world.hash("k");
    tap::ok(latest && world.node.bad_frames == 0, "the latest among them");
    world.fetch("j");
    world.wire->end = fabric::ChannelEnd::reset;
    world.link->ready(world.now_ns);
    tap::is(world.counters().accesses_dropped.get(), dropped + 1, "with the connection they are forgotten");
}

void shared() {
    World world;
    world.start();
    world.hold_pointer("k", "value");
    const fabric::LeasedPtr leased = *world.pointer("k");
    world.table().forget(world.hash("k"), world.node.incarnation);
    auto other = table_test::open(table_test::options(world.table_name(), 1024));
    other->put(world.hash("k"), leased, world.now_ns);
    const uint64_t twosided = world.counters().get_twosided.get();
    tap::is(world.fetch("k"), "value", "a pointer that another process got");
    tap::is(world.counters().pointer_shared_hits.get(), 1u, "pointer_shared_hits");
    tap::is(world.counters().get_twosided.get(), twosided, "and nothing two-sided");
}

void leases() {
    proxy::LinkConfig config = link_config();
    config.silence_ns = 100 * second;
    World world(config);
    world.start();
    world.store("k", "value");
    world.get(1, "k", 10 * second);
    const uint64_t sent = world.now_ns;
    world.link->flush(world.now_ns);
    world.now_ns += 700 * ms;
    world.node.serve(*world.wire, world.now_ns);
    world.now_ns += 300 * ms;
    world.link->ready(world.now_ns);
    const uint64_t term = world.node.term_ms * ms;
    auto leased = world.pointer("k");
    tap::ok(leased && leased->valid_until_ns <= sent + term - term / 500,
            "a lease counts from the sending of what earned it, less 0.2 %");
    tap::ok(leased && leased->valid_until_ns + 10 >= sent + term - term / 500, "and is not shorter");
    world.now_ns = leased->valid_until_ns - 1;
    tap::ok(world.fetch("k") == "value" && world.sink[1'000'001].one_sided, "it is used up to its end");
    world.now_ns = leased->valid_until_ns;
    tap::ok(world.fetch("k") == "value" && !world.sink[1'000'002].one_sided, "and not at its end");
    tap::is(world.counters().pointer_expired.get(), 1u, "pointer_expired");
    tap::ok(world.pointer("k").has_value(), "the node gave another");

    // Sent in part only: the first byte counts.
    world.wire->takes_bytes = 3;
    world.table().forget(world.hash("k"), world.node.incarnation);
    world.get(2, "k", 10 * second);
    const uint64_t begun = world.now_ns;
    world.link->flush(world.now_ns);
    world.now_ns += second;
    world.wire->takes_bytes = SIZE_MAX;
    world.pump();
    leased = world.pointer("k");
    tap::ok(leased && leased->valid_until_ns < begun + term, "of a frame sent in parts the first counts");
}

// Bytes that a read may find, put into the landing buffer before its completion.
struct Spoiled {
    const char* name;
    std::function<void(char*, const in_place::Place&)> spoil;
    std::function<uint64_t(const proxy::LinkCounters&)> counter;
    bool stale = false;
    bool drops = true;
};

layout::Guard guard_in(const char* item) {
    layout::Guard guard;
    std::memcpy(&guard.word, item, 8);
    return guard;
}
void put_guard(char* item, layout::Guard guard) { std::memcpy(item, &guard.word, 8); }
template <class T>
void put_at(char* item, size_t offset, T value) {
    std::memcpy(item + offset, &value, sizeof value);
}

void sign(char* item, const in_place::Place& place) {
    layout::ItemHeader header;
    std::memcpy(&header, item, sizeof header);
    put_at(item, offsetof(layout::ItemHeader, check),
           layout::item_check(item, layout::item_bytes(header.key_len, header.value_len), place.secret,
                              layout::Guard{header.guard}.generation(), place.offset));
}

std::vector<Spoiled> spoiled_copies() {
    using C = const proxy::LinkCounters&;
    using P = const in_place::Place&;
    using layout::ItemHeader;
    const auto dead = [](C c) { return c.read_invalid_dead.get(); };
    const auto length = [](C c) { return c.read_invalid_length.get(); };
    const auto key = [](C c) { return c.read_invalid_key.get(); };
    const auto crc = [](C c) { return c.read_invalid_crc.get(); };
    const auto value_len = [](uint32_t bytes) {
        return [bytes](char* item, P) { put_at<uint32_t>(item, offsetof(ItemHeader, value_len), bytes); };
    };
    return {
        {"an older generation",
         [](char* item, P) {
             put_guard(item, layout::Guard::make(guard_in(item).generation() - 64, layout::GuardState::live));
         },
         [](C c) { return c.read_invalid_generation.get(); }, true},
        {"a later guard than the bytes",
         [](char* item, P) {
             put_guard(item, layout::Guard::make(guard_in(item).generation() + 64, layout::GuardState::live));
         },
         crc, false, false},
        {"a dead item", [](char* item, P) { put_guard(item, guard_in(item).dead()); }, dead, true, false},
        {"a free slot",
         [](char* item, P) {
             put_guard(item, layout::Guard::make(guard_in(item).generation(), layout::GuardState::free));
         },
         dead, true, false},
        {"another key", [](char* item, P) { item[40] ^= 1; }, key},
        {"a key of another length",
         [](char* item, P) {
             put_at<uint16_t>(item, 36, 2);
             put_at<uint32_t>(item, 24, 6);
         },
         key},
        {"no key", [](char* item, P) { put_at<uint16_t>(item, 36, 0); }, length},
        {"a value of another length", value_len(4), crc, false, false},
        {"a longer value", value_len(500), [](C c) { return c.read_invalid_grown.get(); }, false, false},
        {"a huge value", value_len(UINT32_MAX), length},
        {"another value", [](char* item, P) { item[44] ^= 1; }, crc, false, false},
        {"a passed expiry time",
         [](char* item, P place) {
             put_at<uint32_t>(item, offsetof(ItemHeader, exptime), 2);
             sign(item, place);
         },
         [](C c) { return c.read_invalid_expired.get(); }, false, false},
        {"a stale state",
         [](char* item, P place) {
             put_at<uint16_t>(item, 38, layout::format_tokens);
             sign(item, place);
         },
         [](C c) { return c.read_tokens.get(); }, false, false},
    };
}

void invalid_reads() {
    for (const Spoiled& one : spoiled_copies()) {
        World world;
        world.start();
        world.hold_pointer("key", "value");
        const uint64_t requests = world.node.requests;
        protocol::GetOp op = World::get_op("key");
        op.win_tokens = true;
        proxy::AskOptions with = world.options(1);
        with.one_sided = true;
        world.link->requests().get(op, with, world.sink, world.now_ns);
        const fabric::ReadRequest read = world.wire->posted.at(0);
        const uint64_t generation = read.ptr.generation;
        world.carry_out(read);
        one.spoil(reinterpret_cast<char*>(read.landing), world.place("key"));
        world.wire->posted.clear();
        world.wire->completed.push_back({read.token, fabric::ReadStatus::done});
        world.link->ready(world.now_ns);
        const bool dropped = !world.pointer("key");
        world.pump();
        const std::string name = one.name;
        tap::is(world.sink[1].value, "value", name + ": the node is asked");
        tap::ok(!world.sink[1].one_sided && world.sink[1].times == 1, name + ": and that is the answer");
        tap::is(world.node.requests, requests + 1, name + ": once");
        tap::is(one.counter(world.counters()), 1u, name + ": counted");
        tap::is(world.counters().pointer_stale.get(), one.stale ? 1u : 0u, name + ": pointer_stale");
        tap::is(dropped, one.drops, name + (one.drops ? ": the pointer is dropped" : ": the pointer is kept"));
        tap::ok(world.pointer("key") && world.pointer("key")->ptr.generation == generation,
                name + ": and the node's answer brings one");
    }

    // The secret in the greeting is not the node's, so every check fails.
    World checked;
    checked.node.secret_lie = 1;
    checked.start();
    checked.hold_pointer("k", "value");
    tap::is(checked.fetch("k"), "value", "a check that does not match goes to the node");
    tap::is(checked.counters().read_invalid_crc.get(), 1u, "read_invalid_crc");
}

void late_reads() {
    World world;
    world.start();
    world.hold_pointer("k", "value");
    world.get(1, "k", 10 * second);
    world.carry_out(world.wire->posted.at(0));
    world.wire->completed.push_back({world.wire->posted[0].token, fabric::ReadStatus::done});
    world.wire->posted.clear();
    world.now_ns = world.pointer("k")->valid_until_ns;
    world.link->ready(world.now_ns);
    tap::is(world.counters().read_invalid_lease.get(), 1u, "a read that completes after its lease is void");
    world.pump();
    tap::ok(world.sink[1].value == "value" && !world.sink[1].one_sided, "and the node is asked");

    world.get(2, "k", 100 * ms);
    tap::is(world.link->tick(world.now_ns), world.now_ns + 100 * ms, "a read has a deadline");
    world.advance(100 * ms);
    tap::ok(world.sink.failed_as(2, AskFailure::timed_out), "and fails at it");
    const size_t lent = world.landing().lent_bytes();
    tap::ok(lent > 0, "its landing buffer stays the channel's");
    world.get(3, "k");
    tap::is(world.wire->overlaps, 0u, "and is not lent to another");
    world.complete_all();
    world.link->ready(world.now_ns);
    tap::is(world.counters().read_late.get(), 1u, "read_late");
    tap::is(world.sink[2].times, 1, "the failed get has no second result");
    tap::is(world.sink[3].value, "value", "another get is answered");
    tap::is(world.landing().lent_bytes(), 0u, "then it is free");

    // The node is asked within the same deadline.
    world.get(4, "k", 100 * ms);
    world.node.hold = true;
    world.complete(0, fabric::ReadStatus::failed);
    world.pump();
    tap::ok(!world.sink.has(4), "a read that failed waits for the node");
    world.advance(100 * ms);
    tap::ok(world.sink.failed_as(4, AskFailure::timed_out), "no longer than it had");
    tap::is(world.counters().read_failed.get(), 1u, "read_failed");
    tap::ok(world.pointer("k").has_value(), "which is not the pointer's fault");
    world.node.hold = false;
    world.pump();
}

void no_room() {
    proxy::LinkConfig config = link_config();
    config.reads_max = 3;
    config.under_way.exchanges_max = 2;
    World world(config);
    world.start();
    world.hold_pointer("k", "value");
    for (uint64_t i = 1; i <= 4; i++) world.get(i, "k");
    tap::is(world.wire->posted.size(), 3u, "no more reads than allowed are under way");
    tap::is(world.counters().read_unposted.get(), 1u, "the next goes to the node");
    world.wire->reads_most = 3;
    world.pump();
    bool all = true;
    for (uint64_t i = 1; i <= 4; i++) all = all && world.sink[i].value == "value";
    tap::ok(all, "all are answered");
    world.wire->reads_most = 0;
    tap::ok(world.fetch("k") == "value" && !world.sink[1'000'002].one_sided, "a full channel is no end");
    tap::is(world.landing().lent_bytes(), 0u, "and keeps no buffer");
    world.wire->reads_most = SIZE_MAX;

    // Three reads fail while the node takes two requests at a time.
    world.node.hold = true;
    for (uint64_t i = 11; i <= 13; i++) world.get(i, "k");
    while (!world.wire->posted.empty()) world.complete(0, fabric::ReadStatus::failed);
    world.link->ready(world.now_ns);
    tap::is(world.link->requests().under_way(), 3u, "a request that cannot be sent yet waits");
    while (world.link->flush(world.now_ns)) {}
    world.node.hold = false;
    world.pump();
    all = true;
    for (uint64_t i = 11; i <= 13; i++) all = all && world.sink[i].value == "value";
    tap::ok(all, "and is asked when there is room");
}

void order_of_requests() {
    World world;
    world.start();
    world.hold_pointer("k", "old");
    world.set(1, "k", "new");
    world.get(2, "k");
    tap::is(world.wire->posted.size(), 0u, "behind a set of its key a get does not read");
    tap::is(world.counters().pointer_bypassed.get(), 1u, "pointer_bypassed");
    world.pump();
    tap::is(world.sink[2].value, "new", "and sees what was set");
    tap::is(world.fetch("k"), "new", "as do those after it");

    World flushed;
    flushed.start();
    flushed.hold_pointer("k", "old");
    tap::ok(flushed.link->requests().read_in_order(flushed.hash("k"), 0), "nothing under way: a read is in order");
    flushed.link->requests().ask(protocol::FlushOp{}, flushed.options(1), flushed.sink);
    tap::ok(!flushed.link->requests().read_in_order(flushed.hash("k"), 0), "behind a flush none is");
    flushed.get(2, "k");
    tap::is(flushed.wire->posted.size(), 0u, "nor does a get read one-sided there");
    flushed.pump();
    tap::is(flushed.sink[2].value, "", "and it sees what was flushed");
    tap::ok(flushed.link->requests().read_in_order(flushed.hash("k"), 0), "when it was answered it is");
    for (const std::string& value : {std::string("small"), std::string(300'000, 'l')}) {
        flushed.set(value.size(), "k", value);
        tap::ok(!flushed.link->requests().read_in_order(flushed.hash("k"), 0) &&
                    flushed.link->requests().read_in_order(flushed.hash("k") + 1, 0),
                "behind a set of its key none is, of another it is");
        flushed.pump();
    }
    tap::ok(flushed.link->requests().read_in_order(flushed.hash("k"), 0), "and then again");

    World other;
    other.start();
    other.hold_pointer("k", "old");
    other.get(1, "k");
    tap::ok(other.set(2, "k", "new") == AskResult::ordered, "a set waits for a read of its key");
    tap::ok(other.set(3, "another", "x") == AskResult::accepted, "other keys do not");
    auto cell = [&](const std::string& key) { return proxy::KeyOrder::Of{0, other.hash(key)}.cell(); };
    int number = 0;
    while (cell("a" + std::to_string(number)) != cell("k")) number++;
    const std::string looks_alike = "a" + std::to_string(number);
    tap::ok(other.set(6, looks_alike, "x") == AskResult::accepted, "not even one that is counted with it");
    protocol::GetOp touch = World::get_op("k");
    touch.touch = 5000;
    tap::ok(other.link->requests().ask(touch, other.options(4), other.sink) == AskResult::ordered, "a touch waits");
    tap::ok(other.link->requests().ask(protocol::FlushOp{}, other.options(4), other.sink) == AskResult::ordered,
            "a flush waits for any");
    other.pump();
    tap::is(other.rooms, 1, "and is notified when to try again");
    tap::is(other.sink[1].value, "old", "the read saw what was there");
    tap::ok(other.store("k", "new"), "the set goes");
    tap::is(other.fetch("k"), "new", "and is seen");
}

// One key, read without end by another session: a request that waits for its own session's reads is still served.
void no_starvation() {
    World world;
    world.start();
    world.hold_pointer("k", "old");
    const auto read_by_other = [&](uint64_t ticket) {
        world.session = 1;
        world.get(ticket, "k");
        world.session = 0;
    };
    uint64_t next = 1;
    bool stored = false;
    for (int i = 0; i < 8; i++) read_by_other(next++);
    world.get(4999, "k");
    world.sink.then = [&](uint64_t ticket) {
        if (!stored && ticket < 4999 && next < 4999) read_by_other(next++);
    };
    tap::ok(world.set(5000, "k", "new") == AskResult::ordered, "a set waits for a read of its session");
    for (int tries = 0; tries < 50 && !stored; tries++) {
        world.link->flush(world.now_ns);
        world.node.serve(*world.wire, world.now_ns);
        if (!world.wire->posted.empty()) world.complete(0);
        world.link->ready(world.now_ns);
        stored = world.set(5000, "k", "new") == AskResult::accepted;
    }
    world.sink.then = nullptr;
    world.pump();
    tap::ok(stored && world.sink[4999].times == 1, "and gets its turn, although another one always reads that key");
}

void grants_checked() {
    World world;
    world.node.no_welcome_regions = true;
    world.start();
    world.hold_pointer("k", "value");
    tap::ok(!world.pointer("k"), "a pointer into an unannounced region is not kept");
    tap::is(world.counters().lease_unusable.get(), 1u, "lease_unusable");

    World restarted;
    restarted.start();
    restarted.hold_pointer("k", "value");
    restarted.node.restart();
    restarted.wire->end = fabric::ChannelEnd::peer_closed;
    restarted.pump();
    restarted.advance(second);
    restarted.pump();
    tap::ok(restarted.link->up(), "a restarted node");
    tap::is(restarted.fetch("k"), "", "is not read by pointers of its earlier run");
    tap::is(restarted.wire->posts, 0u, "not even looked at");
}

void dropped() {
    World world;
    world.start();
    world.hold_pointer("k", "value");
    world.get(1, "k");
    world.get(2, "k", 10 * ms);
    world.advance(10 * ms);
    world.get(3, "other");
    tap::ok(world.landing().lent_bytes() > 0, "buffers are out");
    world.wire->end = fabric::ChannelEnd::reset;
    world.link->ready(world.now_ns);
    tap::is(world.landing().lent_bytes(), 0u, "with the channel they come back");
    tap::ok(world.sink.failed_as(1, AskFailure::node_down), "a read has failed");
    tap::ok(world.sink.failed_as(3, AskFailure::node_down), "a request has");
    tap::ok(world.sink.failed_as(2, AskFailure::timed_out), "a request that has failed does not fail again");

    World leaving;
    leaving.start();
    leaving.hold_pointer("k", "value");
    leaving.get(1, "k");
    leaving.get(2, "k");
    leaving.hear_goodbye(protocol::Goodbye::stopping, "");
    leaving.complete(0);
    leaving.complete(0, fabric::ReadStatus::failed);
    leaving.pump();
    tap::is(leaving.sink[1].value, "value", "while a node leaves, reads under way are answered");
    tap::ok(leaving.sink.failed_as(2, AskFailure::node_down), "but it is not asked instead");
    tap::ok(leaving.link->state() == proxy::LinkState::waiting, "and then it is down");
}

}  // namespace

int main() {
    one_sided();
    accesses_told();
    shared();
    leases();
    invalid_reads();
    late_reads();
    no_room();
    order_of_requests();
    no_starvation();
    grants_checked();
    dropped();
    return tap::done();
}
